"""A limit that was set too low: what people send or ask for is more than it lets through, and the
service says so."""

import re
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules import edits
from hermes_agent.models.responder.rules.config import PREVENT, commented, is_near, reread
from hermes_agent.models.responder.rules.ideas import Idea, keeping, lines, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

TOO_MUCH = (
    r"too (?:large|big|long|many|much)|(?:larger|longer|bigger|greater|more) than|exceed|oversize"
    r"|(?:over|above|beyond) (?:the |its )?(?:limit|max)|limit (?:of|is|was)|\b413\b|at most \d"
    r"|max\w*(?: \w+)? (?:of|is|allowed)"
)
_LIMIT = re.compile(
    r"max|limit|most|cap$|capacity|quota|ceiling|upper|size|length|bytes|longest|largest",
    re.IGNORECASE,
)
_NOT_A_SIZE = re.compile(
    r"conn|client|pool|worker|thread|process|time|age|retr|rate|day|keep|log|file|memory|cach|open",
    re.IGNORECASE,
)
"""Limits that hold back what a service takes of the machine, and not what people send."""
_NUMBER = re.compile(
    r"(?<![\w.:-])(\d+(?:\.\d+)?)\s?([kmg]i?b?|b|bytes)?(?![\w:-]|\.\d)", re.IGNORECASE
)
_VALUE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?i?b?|bytes)", re.IGNORECASE)
_TIMES = {"k": 1024.0, "m": 1024.0**2, "g": 1024.0**3}
_BY_KEY = re.compile(r"(?:^|[_.-])([kmg])i?b(?:ytes)?$", re.IGNORECASE)
_WORD = re.compile(r"[a-z]{4,}")
LEAST = 64
"""What is smaller counts something else."""


class Limit(Struct, frozen=True):
    path: str
    key: str
    value: str
    most: float
    """How much that is."""


def limits(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        if not is_near(case, service):
            continue
        line = next(case.said(service, TOO_MUCH), "")
        if not line:
            continue
        numbers = [amount(*one) for one in _NUMBER.findall(_plain(line))]
        lately = {row.path for row in parse.sizes(case.text(probes.CHANGED))}
        for one in _set(case, service):
            more = [number for number in numbers if number > one.most]
            told = any(abs(number - one.most) < 1 for number in numbers)
            of_it = bool(set(_WORD.findall(line.lower())) & set(_WORD.findall(_words(one.key))))
            if not more or not (told or (of_it and one.path in lately)):
                continue
            yield from _raised(case, service, one, max(more), line, one.path in lately)


def _plain(line: str) -> str:
    """A line without the time at its head, and without numbers of processes."""
    return re.sub(r"\[[^\]]*\]|\d{4}-\d\d-\d\d\S*|\d\d:\d\d:\d\d\S*|\bpid\W+\d+", " ", line)


def _words(key: str) -> str:
    return re.sub(r"[-_.]|(?<=[a-z])(?=[A-Z])", " ", key).lower()


def amount(number: str, unit: str) -> float:
    return float(number) * _TIMES.get(unit[:1].lower(), 1.0)


def _set(case: Case, service: str) -> Iterator[Limit]:
    """Limits that its settings have."""
    for path, told in case.sources(service):
        for key, value in told.items():
            own, found = key.rpartition(".")[2], _VALUE.fullmatch(value.strip())
            if found is None or not _LIMIT.search(own) or _NOT_A_SIZE.search(own):
                continue
            unit = found[2] or ((by_key := _BY_KEY.search(own)) and by_key[1]) or ""
            if path and amount(found[1], unit) >= LEAST:
                yield Limit(path, own, value, amount(found[1], unit))


def _raised(
    case: Case, service: str, one: Limit, asked: float, line: str, recent: bool
) -> Iterator[Idea]:
    """As others of the house have it, or as a remark beside it says; else only what is asked for,
    and only where it was lowered just now."""
    right, sure = _theirs(case, service, one, asked), 0.86 if recent else 0.62
    if not right:
        _, former = commented(case.content(one.path), re.compile(rf"\b{re.escape(one.key)}\b"))
        found = _VALUE.search(former.replace(one.key, ""))
        right = found[0].strip() if found and amount(found[1], found[2]) >= asked else ""
    if not right and recent:
        right, sure = _enough(one, asked), 0.64
    if not right:
        return
    definition = case.definition(service)
    entry = definition is not None and definition.path == one.path
    anew = reread(case, service) if entry else (case.restart(service),)
    rows = parse.files(case.text(probes.PROGRAMS)).get(one.path, []) if entry else []
    rows = rows or case.content(one.path).splitlines()
    yield Idea(
        "bad-config", service,
        f"{one.key} of {service} in {one.path} is {one.value}, less than what is sent", sure,
        f"{one.path}: {one.key}", lines(line, *[x for x in rows if one.key in x][:1]), (),
        (keeping(one.path), edits.changed(one.path, one.key, one.value, right), *anew),
        undo_of(one.path), PREVENT,
    )  # fmt: skip


def _theirs(case: Case, service: str, one: Limit, asked: float) -> str:
    """What others have for it, which is enough."""
    for other in case.services:
        for theirs in _set(case, other) if other != service else ():
            if theirs.key == one.key and theirs.most >= asked:
                return theirs.value
    return ""


def _enough(one: Limit, asked: float) -> str:
    """Twice of what is asked for, in the unit that is used."""
    unit = re.sub(r"[\d.\s]+", "", one.value)
    each = one.most / float(re.sub(r"[^\d.]", "", one.value))
    return f"{int(2 * asked / each) + 1}{unit}"
