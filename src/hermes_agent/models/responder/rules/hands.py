"""Who asks another by far more hands than that one has."""

import re
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules.edits import Edit, lately
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case

_HANDS = re.compile(
    r"(?:max|num|n|number|count)?[-_]?(?:of[-_])?"
    r"(?:threads?|workers?|concurren(?:cy|t)|parallel(?:ism)?|processes|procs|clients|in[-_]?flight)"
    r"(?:[-_]?(?:count|num|number|max|limit))?",
    re.IGNORECASE,
)
"""What a setting is called that says how much is done at the same time."""
FAR = 8
"""So many times the hands of the one that is asked are too many."""


class Crowding(Struct, frozen=True):
    """A setting by which a service crowds another, and what shows it."""

    edit: Edit
    hands: int
    line: str


def looks(case: Case, caller: str, asked: str) -> tuple[str, ...]:
    """What both are told, as far as nobody looked."""
    paths = [path for one in (caller, asked) for path in case.configs(one)[:2]]
    return case.missing(tuple(probes.show(path) for path in paths))


def crowders(case: Case, asked: str, port: int) -> list[str]:
    """Services with many connections to a port of another."""
    names = [case.owner(pid) for pid, count, _ in case.crowd(port) if count >= FAR]
    return [one for one in dict.fromkeys(names) if one in case.services and one != asked]


def crowding(case: Case, caller: str, asked: str, port: int) -> Iterator[Crowding]:
    """Settings that were written lately by which a service asks another far more at the same time
    than that one does, where so many connections are seen. Half of the hands are left to others.
    How many hands there are must be known: else it may be right as it is."""
    has = [number for _, _, number in _hands(case, asked)]
    rows = [(count, line) for pid, count, line in case.crowd(port) if case.owner(pid) == caller]
    found = [one for one in _hands(case, caller) if one[0] in lately(case, caller)]
    if len(has) != 1 or len(found) != 1 or not rows:
        return
    (path, key, number), (count, line) = found[0], rows[0]
    if number >= FAR * has[0] and 3 * count >= number:
        better = str(max(1, has[0] // 2))
        yield Crowding(Edit(path, key, str(number), better, told=False), has[0], line)


def _hands(case: Case, service: str) -> list[tuple[str, str, int]]:
    """Where it is said by how many hands a service works: the file, the key and the number."""
    return [
        (path, own, int(value))
        for path, known in case.sources(service)
        for key, value in known.items()
        if path and _HANDS.fullmatch(own := key.rpartition(".")[2])
        if re.fullmatch(r"[1-9]\d{0,4}", value)
    ]
