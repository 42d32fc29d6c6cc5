"""Services of one make: where nobody kept how a file was, a twin that runs shows how it is meant.
What is changed for that is tried for a moment, and undone at once where it does not help."""

import re
import shlex
from collections.abc import Iterator
from difflib import SequenceMatcher

from msgspec import Struct

from hermes_agent.models.responder.rules.config import is_near, reread
from hermes_agent.models.responder.rules.ideas import Idea, earlier, keeping, lines, undo_of
from hermes_agent.models.responder.rules.sed import basic, replacement
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import SECRET

_OWN = re.compile(
    r"port|listen|bind|host|url|name|\bid\b|key|pass|token|secret|user|addr|database|db|dsn|data"
    r"|store|spool|log|about|remark",
    re.IGNORECASE,
)
"""Settings in which twins differ by right."""
_GUARDS = re.compile(
    r"auth|allow|deny|acl|permi|trust|cert|tls|ssl|verif|secur|encrypt|csrf|cors|sandbox|privil"
    r"|umask|sudo|debug",
    re.IGNORECASE,
)
"""What keeps others out: never taken over from another, nor left out."""
_KEY = re.compile(r"^\s*(?:export\s+)?[\"']?([A-Za-z_][\w.-]*)[\"']?\s*[=:]")
MOST, ALIKE = 3, 0.75
"""Lines in which twins may differ, and how alike the ways are in which they are started."""
CHARS = 6000
PREVENT = ("keep configurations under version control", "try a change before it is rolled out")


class Odd(Struct, frozen=True):
    """A line that a twin has otherwise."""

    number: int
    row: str
    """What stands there; empty where a line is missing before the next."""
    right: str
    """What the twin has; empty where it has no such line."""


def twins(case: Case) -> Iterator[Idea]:
    near = (case.brief.service, *case.needs(case.brief.service))
    for service in (one for one in case.suspects if one in near and is_near(case, one)):
        for other in _twins(case, service)[:2]:
            for path, theirs in _pairs(case, service, other):
                yield from _compared(case, service, other, path, theirs)


def _twins(case: Case, service: str) -> list[str]:
    """Services that run and are started alike."""
    own = case.definition(service)
    found = list[str]()
    for other in case.services:
        definition, program = case.definition(other), case.programs.get(other)
        if other == service or own is None or definition is None:
            continue
        if program is None or not program.up:
            continue
        told = _named(definition.command, other, service)
        if SequenceMatcher(None, told, own.command).ratio() >= ALIKE:
            found.append(other)
    return found


def _named(text: str, other: str, service: str) -> str:
    """A text of another as it would be of this one."""
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(other)}(?![A-Za-z0-9])", service, text)


def _pairs(case: Case, service: str, other: str) -> Iterator[tuple[str, str]]:
    """Files that say how it is started, and those of its twin."""
    definition, theirs = case.definition(service), case.definition(other)
    if definition is not None and theirs is not None and definition.path != theirs.path:
        yield definition.path, theirs.path
    mine = [*case.wrappers(service), *case.configs(service)[:2]]
    for path in mine:
        twin = _named(path, service, other)
        if twin != path and (twin in case.wrappers(other) or twin in case.configs(other)):
            yield path, twin


def _text(case: Case, path: str) -> str:
    rows = parse.files(case.text(probes.PROGRAMS)).get(path)
    return "\n".join(rows) if rows else case.content(path)


def _compared(case: Case, service: str, other: str, path: str, theirs: str) -> Iterator[Idea]:
    lately = path in {row.path for row in parse.sizes(case.text(probes.CHANGED))}
    program = case.programs.get(service)
    down = program is not None and not program.up
    if SECRET.search(path) or not (lately or down):
        return
    known = parse.files(case.text(probes.PROGRAMS))
    unseen = [probes.show(one) for one in (path, theirs) if one not in known]
    copy = earlier(case, path)
    if wants := (*case.missing(unseen), *copy.wants):
        yield Idea("bad-config", service, f"{path} may not be as {other} has it", 0.46, path,
                   lines(*case.troubles(service)[:1]), wants)  # fmt: skip
        return
    text, right = _text(case, path), _named(_text(case, theirs), other, service)
    if copy.path or not text or not right or max(len(text), len(right)) > CHARS:
        return
    odd = [one for one in differing(text, right) if _counts(one)]
    spoken = " ".join((*case.troubles(service)[:8], program.line if program else "", case.symptom))
    if not 0 < len(odd) <= MOST:
        return
    for one in odd:
        words = [x for x in re.findall(r"[\w./-]{3,}", one.row) if x not in one.right]
        heard = any(word in spoken for word in words)
        yield _tried(case, service, other, path, one, 0.5 + 0.12 * lately + 0.12 * heard)


def differing(text: str, right: str) -> list[Odd]:
    """The lines of a text that another has otherwise."""
    mine, theirs = ([row.rstrip() for row in one.splitlines()] for one in (text, right))
    found = list[Odd]()
    for what, a, b, c, d in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        old, new = mine[a:b], theirs[c:d]
        for at in range(max(len(old), len(new))):
            row = old[at] if at < len(old) else ""
            found.append(Odd(a + min(at, len(old)) + 1, row, new[at] if at < len(new) else ""))
    return [one for one in found if one.row.strip() or one.right.strip()]


def _counts(one: Odd) -> bool:
    """Whether it is no difference by right: remarks, numbers alone, what is each one's own."""
    if all(not x.strip() or x.strip()[0] in "#;" for x in (one.row, one.right)):
        return False
    keys = [found[1] for x in (one.row, one.right) if (found := _KEY.match(x))]
    if any(_OWN.search(key) or _GUARDS.search(key) for key in keys):
        return False
    odd = set(re.split(r"[\s;,\"']+", one.row)) ^ set(re.split(r"[\s;,\"']+", one.right))
    if any(_GUARDS.search(word) for word in odd):
        return False
    plain = [re.sub(r"\d+", "0", x).strip() for x in (one.row, one.right)]
    return plain[0] != plain[1] or bool(keys)


def edit(one: Odd) -> str:
    """What has `sed` make a line as the twin has it."""
    new = replacement(one.right)
    if not one.row:
        return f"{one.number}s/^/{new}\\n/"
    return f"{one.number}s/^{basic(one.row)}$/{new or f'# {replacement(one.row)}'}/"


def _tried(
    case: Case, service: str, other: str, path: str, one: Odd, score: float
) -> Idea:  # fmt: skip
    definition = case.definition(service)
    entry = definition is not None and definition.path == path
    again = reread(case, service) if entry else (case.restart(service),)
    own, back = shlex.quote(path), "; ".join((undo_of(path), *again))
    told = f"{one.row.strip()!r}" if one.row else f"without {one.right.strip()!r}"
    return Idea(
        "bad-config", service, f"{path} of {service} is not as {other} has it: {told}",
        score, f"{path}:{one.number} {one.row.strip()}",
        lines(one.row.strip(), *case.troubles(service)[:1], case.symptom[-200:]), (),
        (keeping(path), f"sed -i {shlex.quote(edit(one))} {own}", *again), back, PREVENT, "",
        (f"ls -l {own}",),
    )  # fmt: skip
