"""Many helpers of a service that all wait for one file, which somebody else has and does not let
go: it is that one who is in the way, not the service that has so many of them."""

import re
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

MANY = 5
"""Helpers by one command from which on they pile up."""
IDLE_PERCENT = 2.0
"""Of a core: who takes more is at work with what it holds."""
_SHARED = re.compile(
    r"^/(?:dev|proc|sys|usr|bin|lib)\b|\.(?:log|out|so|py)$|/logs?/", re.IGNORECASE
)
"""Files that many have open who do not wait for each other."""


class Holder(Struct, frozen=True):
    """Somebody who has what others wait for."""

    path: str
    process: parse.Process
    chain: tuple[parse.Process, ...]
    """With those above it that nobody looks after either, the highest first."""
    line: str
    waiting: int


def helpers(case: Case, service: str) -> list[parse.Process]:
    """Processes that a service started by one command, but for numbers, and that do nothing; none
    where they are few."""
    kinds = dict[str, list[parse.Process]]()
    for pid in case.pids(service):
        one = case.process(pid)
        if one is not None and one.state[:1] in ("S", "D") and one.cpu < IDLE_PERCENT:
            kind = " ".join(one.command.split()[:2])
            kinds.setdefault(kind, []).append(one)
    most = max(kinds.values(), key=len, default=[])
    return most if len(most) >= MANY else []


def wants(case: Case, service: str) -> tuple[str, ...]:
    return case.missing((probes.OPEN_FILES,)) if helpers(case, service) else ()


def holders(case: Case, service: str) -> Iterator[Holder]:
    """Strangers that have a file open which nearly all helpers of a service have open as well, and
    that do nothing with it."""
    mine = helpers(case, service)
    users = dict[str, set[int]]()
    for one in mine:
        for path, _ in case.held.get(one.pid, []):
            users.setdefault(path, set()).add(one.pid)
    common = [path for path, pids in users.items() if 2 * len(pids) > len(mine)]
    for path in [one for one in common if not _SHARED.search(one)]:
        for pid, files in case.held.items():
            line = next((line for own, line in files if own == path), "")
            process = case.process(pid)
            if not line or process is None or case.owner(pid):
                continue
            chain = case.strangers(pid, harmful=True)
            if chain and all(one.cpu < IDLE_PERCENT for one in chain):
                yield Holder(path, process, tuple(chain), line, len(mine))
