"""Second encounters: a skill that was written the last time is opened and followed."""

import re
import shlex
from collections.abc import Generator, Sequence
from typing import TypeVar

import msgspec

from hermes_agent.core.messages import ToolMessage
from hermes_agent.core.skills import Check, Runbook, RunStep
from hermes_agent.models.responder.brief import Brief, BriefSkill
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.seen import Seen, quotes, seen

ENDING = "-prevention"
MOST = 4
"""Skills that are looked at together."""
_LOCUS = re.compile(r"^(?:\s*)locus: (.+)$", re.MULTILINE)
_COMPONENT = re.compile(r"^(?:\s*)component: (\S+)$", re.MULTILINE)
Part = TypeVar("Part", Check, RunStep)
_PLACE = re.compile(r"\{\{\s*service\s*\}\}")


def skills(brief: Brief) -> Generator[Move, Answer, str]:
    """Follow the first skill that fits; what is said at the end, or nothing where none helped."""
    known = [one for one in brief.skills if one.name.endswith(ENDING) and one.fits is not False]
    known.sort(key=lambda one: (one.fits is not True, one.state != "proven"))
    sure = [one for one in known if one.fits]
    offered = (sure or known)[:MOST]
    if not offered:
        return ""
    calls = [_read(one) for one in offered]
    if len(offered) == 1:
        calls.insert(0, _open(offered[0], brief))
    answer = yield Move(
        "I am a set of rules, not a language model. This may have happened before: I read what "
        f"was written down then ({', '.join(one.name for one in offered)}).",
        tuple(calls),
    )
    read = answer.results[-len(offered) :] if answer.results else ()
    books = [
        (one, book)
        for one, result in zip(offered, read, strict=False)
        if (book := _runbook(result, brief.service)) is not None
    ]
    for one, book in (yield from _fitting(books)):
        done = yield from _followed(one, book, brief, opened=len(offered) == 1)
        if done:
            return done
    return ""


def _open(one: BriefSkill, brief: Brief) -> Call:
    return Call("skill", {"name": one.name, "arguments": f"service={brief.service}"})


def _read(one: BriefSkill) -> Call:
    return Call("skill", {"name": one.name, "file": "runbook.yaml"})


def _runbook(result: ToolMessage, service: str) -> Runbook | None:
    """The runbook in what the tool returned, with the service filled in."""
    if not result.ok:
        return None
    try:
        book = msgspec.yaml.decode(result.text, type=Runbook)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return msgspec.structs.replace(
        book,
        steps=tuple(_filled(step, service) for step in book.steps),
        when=tuple(_filled(check, service) for check in book.when),
        verify=tuple(_filled(check, service) for check in book.verify),
    )


def _filled(part: Part, service: str) -> Part:
    return msgspec.structs.replace(
        part,
        run=_PLACE.sub(lambda _: shlex.quote(service), part.run),
        expect=msgspec.structs.replace(
            part.expect,
            output=_PLACE.sub(lambda _: re.escape(service), part.expect.output),
            no_output=_PLACE.sub(lambda _: re.escape(service), part.expect.no_output),
        ),
    )


def _fitting(
    books: Sequence[tuple[BriefSkill, Runbook]],
) -> Generator[Move, Answer, list[tuple[BriefSkill, Runbook]]]:
    """Those whose signs are there, by what the commander saw or by looking now."""
    unsure = [(one, book) for one, book in books if one.fits is not True]
    if not unsure:
        return list(books)
    commands = list(dict.fromkeys(check.run for _, book in unsure for check in book.when))
    answer = yield Move(
        "Which of them is for this case?", tuple(_terminal(one) for one in commands)
    )
    found = {
        command: seen(command, result)
        for command, result in zip(commands, answer.results, strict=False)
    }
    return [
        (one, book)
        for one, book in books
        if one.fits or (book.when and all(_holds(check, found) for check in book.when))
    ]


def _holds(check: Check, found: dict[str, Seen]) -> bool:
    one = found.get(check.run)
    if one is None or one.exit is None:
        return False
    if check.expect.exit is not None and one.exit != check.expect.exit:
        return False
    if check.expect.output and not _has(check.expect.output, one.output):
        return False
    return not (check.expect.no_output and _has(check.expect.no_output, one.output))


def _has(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text, re.MULTILINE) is not None
    except re.error:
        return False


def _terminal(command: str) -> Call:
    return Call("terminal", {"command": command})


def _followed(
    one: BriefSkill, book: Runbook, brief: Brief, *, opened: bool
) -> Generator[Move, Answer, str]:
    """Work a runbook through, and say what it was."""
    commands = [step.run for step in book.steps]
    first = () if opened else (_open(one, brief),)
    answer = yield Move(
        f"{one.name} is for this case. I do what it says: "
        + "; ".join(step.name or step.run for step in book.steps),
        (*first, *(_terminal(command) for command in commands)),
    )
    results = [
        seen(command, result)
        for command, result in zip(commands, answer.results[len(first) :], strict=False)
    ]
    whole = "\n".join(result.output for result in results)
    locus = _LOCUS.findall(whole)
    component = _COMPONENT.findall(whole)
    if not locus:
        return ""
    shown = [line for result in results for line in result.lines if "locus: " in line]
    shown += [line for result in results for line in result.having(r"^\s*seen: |\d")]
    category = one.name.removesuffix(ENDING)
    given = {
        "component": component[-1] if component else brief.service,
        "category": category,
        "locus": locus[0],
        "summary": f"{category} again, mended as {one.name} says: {'; '.join(commands)[:600]}",
        "evidence": list(quotes(shown)),
        "prevent": [f"do what {one.name} says under When to Use before it happens again"],
    }
    answer = yield Move("Did it help?", (Call("incident", {"action": "resolve", **given}),))
    if answer.results and answer.results[-1].ok:
        return f"{brief.incident} is resolved by {one.name}."
    return ""
