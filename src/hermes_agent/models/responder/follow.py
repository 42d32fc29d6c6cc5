"""Second encounters: a skill that was written the last time is opened and followed."""

import re
import shlex
from collections.abc import Generator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import ToolMessage
from hermes_agent.core.skills import Check, Runbook, RunStep
from hermes_agent.models.responder.brief import Brief, BriefSkill
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.view.seen import quotes, seen

MOST = 3
"""Skills that are opened together."""
_LOCUS = re.compile(r"^locus: (.+)$", re.MULTILINE)
_COMPONENT = re.compile(r"^component: (.+)$", re.MULTILINE)
Part = TypeVar("Part", Check, RunStep)
_PLACE = re.compile(r"\{\{\s*service\s*\}\}")


class Book(Struct, frozen=True):
    """A skill that was opened, with its runbook."""

    skill: str
    category: str
    runbook: Runbook


def categories(brief: Brief) -> list[str]:
    """Causes of which skills tell."""
    return [one.category for one in brief.skills if one.category]


def sure(brief: Brief) -> list[BriefSkill]:
    """Skills whose signs are there."""
    found = [one for one in brief.skills if one.category and one.fits]
    return sorted(found, key=lambda one: one.state != "proven")[:MOST]


def opening(brief: Brief, category: str) -> tuple[Call, ...]:
    """Calls that open the skill for a cause and read its runbook."""
    name = next((one.name for one in brief.skills if one.category == category), "")
    if not name:
        return ()
    return (
        Call("skill", {"name": name, "arguments": f"service={brief.service}"}),
        Call("skill", {"name": name, "file": "runbook.yaml"}),
    )


def books(skills: Sequence[BriefSkill], results: Sequence[ToolMessage], service: str) -> list[Book]:
    """The runbooks among the results of calls that opened these skills."""
    return [
        Book(one.name, one.category, book)
        for one, result in zip(skills, results[1::2], strict=False)
        if (book := _runbook(result, service)) is not None
    ]


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


def followed(book: Book, brief: Brief) -> Generator[Move, Answer, str]:
    """Work a runbook through; what is said at the end, or nothing where it did not help."""
    commands = [step.run for step in book.runbook.steps]
    answer = yield Move(
        f"I do what {book.skill} says: "
        + "; ".join(step.name or step.run for step in book.runbook.steps),
        tuple(Call("terminal", {"command": command}) for command in commands),
    )
    results = [
        seen(command, result) for command, result in zip(commands, answer.results, strict=False)
    ]
    locus = [found for result in results for found in _LOCUS.findall(result.output)]
    component = [found for result in results for found in _COMPONENT.findall(result.output)]
    shown = [line for result in results for line in result.having(r"^locus: ")]
    shown += [line for result in results for line in result.lines]
    given = {
        "component": component[0] if component else brief.service,
        "category": book.category,
        "locus": locus[0] if locus else "",
        "summary": f"{book.category} again, mended as {book.skill} says",
        "evidence": list(quotes(shown)),
        "prevent": [f"do what {book.skill} says under When to Use before it happens again"],
    }
    answer = yield Move("Did it help?", (Call("incident", {"action": "resolve", **given}),))
    if answer.results and answer.results[-1].ok:
        return f"{brief.incident} is resolved by {book.skill}."
    return ""
