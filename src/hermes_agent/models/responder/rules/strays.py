"""Those who take too much of a service from outside: processes that hold on to it, and how they are
ended."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import CROWD, Case

_ROW = re.compile(r"^\s*(?:ESTAB|CLOSE-WAIT|SYN-SENT)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)")
SAMPLES = 5
"""How often a connection is seen of one who stays, while it is looked at for a while."""
ADDRESS = re.compile(r"\b(\d{1,3}(?:\.\d{1,3}){3}|localhost|\[?::1\]?)[:( ]\s?(\d{4,5})\b")


class Client(Struct, frozen=True):
    """A process that is connected to a service."""

    pid: int
    count: int
    """Different connections while it was looked at."""
    stays: bool
    """Whether one of them was there all the time."""
    unread: int
    """Bytes that came for it and that it did not read."""
    named: bool
    """Whether the service speaks of it by its address."""
    line: str


def ended(chain: Sequence[parse.Process]) -> tuple[str, ...]:
    """Commands that end processes, the highest first, and those that do not heed it for sure."""
    ids = " ".join(str(one.pid) for one in chain)
    surely = (
        f"for i in 1 2 3 4 5; do kill -0 {ids} 2>/dev/null || break; sleep 1; done; "
        f"for p in {ids}; do if kill -0 $p 2>/dev/null; then kill -9 $p; fi; done"
    )
    return f"kill {ids}", surely


def clients(case: Case, service: str, said: str = "") -> Iterator[Client]:
    """Who is connected to a service, whoever the service speaks of first, then who does not read
    what it is sent, then who has most connections."""
    told = {f"{one[0]}:{one[1]}" for one in ADDRESS.findall(said)}
    found = list[Client]()
    for port in case.ports(service):
        rows = _rows(case, port)
        for pid, count, line in case.crowd(port, 1):
            mine = [row for row in rows if f"pid={pid}," in row[3]] or [
                row for row in rows if row[3].strip() == line
            ]
            times = [row[1] for row in mine]
            found.append(Client(
                pid, count, any(times.count(one) >= SAMPLES for one in set(times)),
                max((row[0] for row in mine), default=0), bool(told & set(times)), line,
            ))  # fmt: skip
    found.sort(key=lambda one: (not one.named, not one.unread, -one.count))
    yield from found


def _rows(case: Case, port: int) -> list[tuple[int, str, str, str]]:
    """Connections to a port: bytes not read, from where, to where, and the line."""
    found = []
    for line in case.text(probes.CLIENTS).splitlines():
        row = _ROW.match(line)
        if row and row[4].endswith(f":{port}"):
            found.append((int(row[1]), row[3], row[4], line))
    return found


def clinging(case: Case, service: str, said: str) -> Iterator[tuple[Client, list[parse.Process]]]:
    """Strangers that a service may suffer from: it speaks of them, they do not read what they are
    sent, they have many connections, or they hold one all the time; those that show it best
    first."""
    for one in clients(case, service, said):
        chain = case.strangers(one.pid, harmful=True)
        if chain and (one.named or one.unread or one.count >= CROWD or one.stays):
            yield one, chain
