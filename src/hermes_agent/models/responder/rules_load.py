"""Processes that take too much: the processor, memory, open files."""

import re
import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from hermes_agent.models.responder import parse, probes, room
from hermes_agent.models.responder.case import CROWD, Case
from hermes_agent.models.responder.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.settings import is_config

BUSY_PERCENT = 15.0
"""Of a core; on a machine that many fight for, nobody gets more."""
_BEGUN = re.compile(r"\b([\w.-]*\d[\w.-]*) (?:begun|started|is processed|in progress)\b")
_TOO_MANY = r"too many open files|\bEMFILE|\bENFILE|errno[ :=]*24\b|file descriptors? (?:limit|exh)"
_NO_MEMORY = (
    r"MemoryError|cannot allocate memory|out of memory|\boom\b|oom-kill|errno[ :=]*12\b|bad_alloc"
    r"|\bENOMEM|heap (?:space|exhausted|out of)|memory (?:exhausted|limit)|OutOfMemory"
    r"|(?:allocat\w+|malloc|mmap)\b.{0,40}fail"
)
_QUEUE = re.compile(
    r"/(queue|spool|inbox|incoming|pending|todo|jobs?|work|tasks?|in|drop|outbox)(/|$)|spool",
    re.IGNORECASE,
)
_BUSY = (
    r"too many|busy|overload|timed? ?out|\b(?:429|503|504)\b|rate.?limit|slots?\b|queue is full"
    r"|no free|all (?:workers|threads|connections)|at a time|backlog|throttl|try again later"
)
NEAR = 0.85
"""The share of the memory that it may have from which on it is near the end."""
_OPEN_FILES = re.compile(r"Max open files\s+(\d+)")
_SURELY = "sleep 1; if kill -0 {pid} 2>/dev/null; then kill -9 {pid}; fi"
_GROWN = 1.02
_BIG = 40_000
"""Kilobytes from which on a process may be one that leaks."""


def runaway(case: Case) -> Iterator[Idea]:
    """Somebody eats the processor: a stranger, or a worker of the service that is stuck. Where the
    service itself does not run, that is not why."""
    if not case.pids(case.brief.service):
        return
    hot = [
        one
        for one in case.processes
        if one.cpu >= BUSY_PERCENT or (one.state[:1] == "R" and one.cpu >= BUSY_PERCENT / 4)
    ]
    prevent = ("limit the processor of batch work", "alert on processes without a supervisor")
    for process in hot[:6]:
        owner, chain = case.owner(process.pid), case.strangers(process.pid)
        wants = case.missing((probes.BUSY,))
        now = _now(case, process.pid)
        if now is not None and now[0] < BUSY_PERCENT / 4:
            continue
        evidence = lines(process.line, now[1] if now else "")
        told = f"process {process.pid} ({process.command[:60]}) eats {process.cpu:.0f} % of a core"
        if chain:
            ids = [one.pid for one in chain]
            yield Idea(
                "runaway-process", case.brief.service, f"{told}, and nobody looks after it",
                0.68 if now else 0.5, f"pid {process.pid}: {process.command[:80]}", evidence, wants,
                ("kill " + " ".join(str(pid) for pid in ids),
                 *(_SURELY.format(pid=pid) for pid in ids)),
                "it was started by hand: start it again", prevent,
            )  # fmt: skip
        elif owner and _is_related(case, owner):
            yield from _stuck(case, owner, process, told, evidence, wants)


def _is_related(case: Case, owner: str) -> bool:
    """Whether a program works for the service of the alert: by its name, or by what they share."""
    service = case.brief.service
    if owner == service or service in owner or owner in case.needs(service):
        return True
    mine, its = ({v for v in case.settings(one).values() if "/" in v} for one in (service, owner))
    return any(a.startswith(b) or b.startswith(a) for a in mine for b in its)


def _stuck(
    case: Case, owner: str, process: parse.Process, told: str, evidence: tuple[str, ...],
    wants: tuple[str, ...],
) -> Iterator[Idea]:  # fmt: skip
    """A worker that spins on one piece of work: it is started anew, and without that piece."""
    last = [line for _, line in case.log(owner)][-1:]
    piece = _BEGUN.search(last[0]) if last else None
    prevent = ("give each piece of work a limit of time", "set aside what fails repeatedly")
    lying = f"find /var/spool /var/lib /srv -xdev -type f -name '*{piece[1]}*'" if piece else ""
    wants += case.missing((lying,)) if lying else ()
    found = [line for line in case.text(lying).splitlines() if line.startswith("/")]
    aside = tuple(f"mv {shlex.quote(path)} /var/tmp/" for path in found[:2])
    yield Idea(
        "runaway-process", owner, f"{told}" + (f" on {piece[1]}" if piece else ""),
        0.62 + 0.1 * bool(piece) + 0.1 * bool(found), f"pid {process.pid}"
        + (f": {piece[1]}" if piece else f": {process.command[:80]}"),
        (*evidence[:2], *lines(*last)), wants, (*aside, case.restart(owner)),
        "; ".join(f"mv /var/tmp/{path.rpartition('/')[2]} {path}" for path in found[:2]), prevent,
    )  # fmt: skip
    queues = [path for path in case.named(owner) if _QUEUE.search(path)][:4]
    if found or not queues:
        return
    wants += case.missing((_waiting(queues),))
    for line in case.text(_waiting(queues)).splitlines()[:2]:
        read, written, path = (*line.split(None, 2), "", "", "")[:3]
        if path.startswith("/") and parse.number(read) >= parse.number(written):
            yield Idea(
                "runaway-process", owner, f"{told}, and {path} is what it read last", 0.64,
                f"pid {process.pid}: {path}", (*evidence[:2], *lines(line)), wants,
                (*room.aside([path]), case.restart(owner)), room.back([path]), prevent,
            )  # fmt: skip
    yield Idea(
        "runaway-process", owner, told, 0.6, f"pid {process.pid}: {process.command[:80]}",
        evidence, wants,
    )  # fmt: skip


def _waiting(folders: list[str]) -> str:
    """Pieces of work that wait, what was read last first."""
    named = " ".join(shlex.quote(folder) for folder in folders)
    return (
        f"find {named} -maxdepth 2 -xdev -type f ! -name '.*' -printf '%A@ %T@ %p\\n' 2>/dev/null"
        " | sort -rn | head -n 6"
    )


def _now(case: Case, pid: int) -> tuple[float, str] | None:
    """The processor's share right now, by the second picture of `top`."""
    text = case.text(probes.BUSY)
    found = [
        (parse.number(words[8]), line.strip())
        for line in text.splitlines()
        if len(words := line.split()) >= 12 and words[0] == str(pid)
    ]
    return found[-1] if found else None


def since_changed(case: Case, known: Idea, service: str, *others: str) -> Iterator[Idea]:
    """What runs out since settings were changed, of which an earlier version is kept: they are put
    back before it is started anew, else it only begins again."""
    definition = case.definition(service)
    entry = definition.path if definition else ""
    lately = [path for path in case.changed(service) if is_config(path) or path == entry]
    own = [*case.configs(service), *case.wrappers(service), *([entry] if entry else [])]
    for path in list(dict.fromkeys([*own, *lately]))[:5]:
        copy = earlier(case, path)
        if copy.wants:
            yield replace(known, wants=(*known.wants, *copy.wants), fix=())
        if copy.path:
            anew = tuple(case.restart(one) for one in (service, *others))
            if path == entry and case.supervised:
                update = f"supervisorctl update {shlex.quote(service)}"
                anew = ("supervisorctl reread", update, *anew)
            yield replace(
                known, score=min(0.96, known.score + 0.08), locus=path,
                claim=f"{known.claim}, since {path} was changed",
                evidence=(*known.evidence[:2], *lines(copy.change)),
                fix=(*put_back(path, copy.path), *anew), undo=undo_of(path),
            )  # fmt: skip


def hammered(case: Case) -> Iterator[Idea]:
    """Somebody whom nobody looks after asks the service, or what it needs, without end, and others
    get no turn."""
    own = case.brief.service
    told = re.search(_BUSY, case.symptom, re.IGNORECASE)
    for service in [own, *case.needs(own)]:
        spoken = next(case.said(service, _BUSY), "")
        if not case.pids(service) or not (spoken or told):
            continue
        yield Idea(
            "runaway-process", service, f"{service} may be asked too much", 0.4, service,
            lines(spoken), case.missing((probes.CLIENTS,)),
        )  # fmt: skip
        for port in case.ports(service):
            for pid, count, line in case.crowd(port, 1):
                chain = case.strangers(pid, harmful=count >= CROWD)
                if not chain or (count < CROWD and chain[-1].cpu < BUSY_PERCENT / 4):
                    continue
                ids = " ".join(str(one.pid) for one in chain)
                yield Idea(
                    "runaway-process", service,
                    f"process {pid} ({chain[-1].command[:60]}), which nobody looks after, asks "
                    f"{service} without end, by {count} connections",
                    0.66 + 0.06 * (count >= CROWD) + 0.06 * bool(spoken),
                    f"pid {pid}: {chain[-1].command[:80]}", lines(spoken, chain[-1].line, line), (),
                    (f"kill {ids}",), "it was started by hand: start it again",
                    ("limit requests of one client", "alert on processes without a supervisor"),
                )  # fmt: skip


RULES = (runaway, hammered)
