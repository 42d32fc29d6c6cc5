"""Those who have all the places of a server, or hold what others want, wait for somebody else, who
does not answer: it is that one who is started anew, and not those who wait."""

import re
from collections.abc import Iterable, Iterator

from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.rules.last import STORE
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case

LEAST = 3
"""So many wait for the same, at least."""
PREVENT = ("give requests to others a time limit", "hold no connection while something is sent")
_SILENT = re.compile(r"^000 after")
_LONG = re.compile(r"^000 after (?:[2-9]|\d\d)\.")
"""It took the connection, or not even that, and said nothing for seconds."""


def kept_waiting(
    case: Case, pids: Iterable[int], port: int, places: int, spoken: str, proof: str = ""
) -> Iterator[Idea]:
    """`pids`: who has how many places of a port."""
    reached = dict[int, dict[str, str]]()
    for pid in dict.fromkeys(pids):
        for other, line, told in _reached(case, pid):
            if other != port:
                reached.setdefault(other, {})[line] = told
    for other, waiting in reached.items():
        service = _listening(case, other)
        if len(waiting) < LEAST or len(waiting) * 2 <= places or not service:
            continue
        look = _asked(other)
        silent = _SILENT.match(case.text(look)) is not None
        line, told = next(iter(waiting.items()))
        yield Idea(
            "pool-exhausted", service,
            f"{len(waiting)} that have connections to port {port} wait for {service}, which does "
            "not answer",
            0.94 if silent else 0.5 + 0.12 * (case.look(look) is None), f"{service}, port {other}",
            lines(told, spoken, line, case.text(look)), case.missing((look,)),
            (case.restart(service),), "", PREVENT, proof,
        )  # fmt: skip


def asks(case: Case, pid: int, port: int) -> dict[str, tuple[int, str]]:
    """Services that a process is connected to, which may owe it an answer, but for the one at
    `port`; with the port and line of each."""
    found = dict[str, tuple[int, str]]()
    for other, line, _ in _reached(case, pid):
        if other != port and (service := _listening(case, other)):
            found.setdefault(service, (other, line))
    return found


def unseen(case: Case, pid: int, port: int) -> tuple[str, ...]:
    """Looks yet to be taken at whether those answer."""
    if missing := case.missing((probes.CONNECTIONS,)):
        return missing
    every = [other for other, _ in asks(case, pid, port).values()]
    return case.missing(tuple(_asked(other) for other in every[:LEAST]))


def while_it_holds(
    case: Case, pid: int, port: int, held: str, evidence: tuple[str, ...], proof: str
) -> Iterator[Idea]:
    """Somebody holds a lock and waits for one who does not answer: who is ended, or begun anew,
    waits for it again."""
    for service, (other, line) in asks(case, pid, port).items():
        answer = case.text(_asked(other))
        if _LONG.match(answer):
            yield Idea(
                "database-lock", service,
                f"{held} while it waits for {service}, which does not answer", 0.98,
                f"{service}, port {other}", lines(*evidence, line, answer), (),
                (case.restart(service),), "", PREVENT, proof,
            )  # fmt: skip


def _asked(port: int) -> str:
    return probes.timed(f"http://127.0.0.1:{port}/")


def _listening(case: Case, port: int) -> str:
    """The service at a port that can be started anew: it runs, and stores nothing."""
    service = next((case.owner(one.pid) for one in case.listeners if one.port == port), "")
    program = case.programs.get(service)
    stores = STORE.search(" ".join(case.command(service))) is not None
    return service if program is not None and program.up and not stores else ""


def _reached(case: Case, pid: int) -> Iterator[tuple[int, str, str]]:
    """Ports of this machine to which a process or one that it started is connected, with the line
    of each connection and of whoever has it."""
    first = case.process(pid)
    family = {pid: first.line} if first is not None else {}
    for one in sorted(case.processes, key=lambda each: each.pid):
        if one.parent in family:
            family[one.pid] = one.line
    for line in case.text(probes.CONNECTIONS).splitlines():
        words = line.split()
        if len(words) > 5 and words[0] == "ESTAB" and words[4].startswith(("127.", "[::1]")):
            to = words[4].rpartition(":")[2]
            mine = [int(one) for one in re.findall(r"pid=(\d{1,9})", line) if int(one) in family]
            if to.isdigit() and mine:
                yield int(to), line.strip(), family[mine[-1]]
