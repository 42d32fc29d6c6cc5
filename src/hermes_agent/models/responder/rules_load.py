"""Processes that take too much: the processor, memory, open files."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, lines

BUSY_PERCENT = 15.0
"""Of a core; on a machine that many fight for, nobody gets more."""
_BEGUN = re.compile(r"\b([\w.-]*\d[\w.-]*) (?:begun|started|is processed|in progress)\b")
_TOO_MANY = r"too many open files|EMFILE|\[Errno 24\]"
_NO_MEMORY = r"MemoryError|cannot allocate memory|out of memory|oom|\[Errno 12\]|bad_alloc"
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
        + (f": {piece[1]}" if piece else ""), (*evidence[:2], *lines(*last)), wants,
        (*aside, case.restart(owner)),
        "; ".join(f"mv /var/tmp/{path.rpartition('/')[2]} {path}" for path in found[:2]), prevent,
    )  # fmt: skip


def _now(case: Case, pid: int) -> tuple[float, str] | None:
    """The processor's share right now, by the second picture of `top`."""
    text = case.text(probes.BUSY)
    found = [
        (parse.number(words[8]), line.strip())
        for line in text.splitlines()
        if len(words := line.split()) >= 12 and words[0] == str(pid)
    ]
    return found[-1] if found else None


def leaking(case: Case) -> Iterator[Idea]:
    """A process takes more and more memory."""
    later = {one.pid: one for one in parse.processes(case.text(probes.AGAIN))}
    for service in case.suspects:
        spoken = next(case.said(service, _NO_MEMORY), "")
        killed = _killed(case, service) if spoken else ""
        for pid in case.pids(service):
            process = case.process(pid)
            if process is None or (process.rss < _BIG and not spoken):
                continue
            after = later.get(pid)
            grown = after is not None and after.rss > process.rss * _GROWN
            limit = _limit(case, service)
            near = limit > 0 and process.rss > limit * 0.6
            if not (spoken or grown or near) and after is not None:
                continue
            score = 0.3 + 0.35 * bool(spoken) + 0.3 * grown + 0.1 * near
            yield Idea(
                "memory-leak", service, f"process {pid} of {service} takes more and more memory",
                min(score, 0.9), f"pid {pid}: {process.command[:80]}",
                lines(spoken, process.line, after.line if after and grown else "", killed),
                case.missing((probes.AGAIN,)), (case.restart(service),), "",
                ("restart it before its limit until the leak is mended", "alert on its memory"),
            )  # fmt: skip


def _limit(case: Case, service: str) -> int:
    """Kilobytes that it may have, as its entry says; 0 where it does not."""
    definition = case.definitions.get(service)
    found = re.search(r"--(?:as|data|rss)=(\d+)", definition.command) if definition else None
    return int(found[1]) // 1024 if found and len(found[1]) < 16 else 0


def _killed(case: Case, service: str) -> str:
    text = case.text(probes.SUPERVISOR_LOG)
    found = [line for line in text.splitlines() if service in line and "exited" in line]
    return found[-1] if found else ""


def descriptors(case: Case) -> Iterator[Idea]:
    """A process runs out of open files."""
    for service in case.suspects:
        spoken = next(case.said(service, _TOO_MANY), "")
        for pid in case.pids(service):
            opened = case.look(probes.descriptors(pid))
            limit = _OPEN_FILES.search(case.text(probes.limits(pid)))
            count = len(parse.descriptors(opened.output)) if opened else 0
            near = limit is not None and count >= 0.8 * int(limit[1]) and count > 8
            if not (spoken or near):
                continue
            wants = case.missing((probes.descriptors(pid), probes.limits(pid)))
            if spoken and opened is not None and not near and count < 12:
                continue
            shown = next(iter(case.text(probes.limits(pid)).splitlines()), "")
            wants += case.missing((probes.CONNECTIONS,))
            yield from _clinging(case, service, spoken or shown)
            yield Idea(
                "descriptor-leak", service,
                f"process {pid} of {service} has {count} of its {limit[1] if limit else '?'} files"
                " open", 0.6 + 0.15 * bool(spoken) + 0.18 * near, f"pid {pid} of {service}",
                lines(spoken, shown, *_repeated(opened.lines if opened else [])), wants,
                (case.restart(service),), "",
                ("close what is opened, also when it fails", "alert on open files"),
            )  # fmt: skip


def _clinging(case: Case, service: str, said: str) -> Iterator[Idea]:
    """A stranger that holds connections to it and lets none go."""
    for port in case.ports(service):
        for pid, count, line in case.crowd(port):
            chain = case.strangers(pid, harmful=True)
            if not chain:
                continue
            ids = " ".join(str(one.pid) for one in chain)
            yield Idea(
                "descriptor-leak", service,
                f"process {pid} ({chain[-1].command[:60]}), which nobody looks after, holds "
                f"{count} connections to {service}", 0.95, f"pid {pid}: {chain[-1].command[:80]}",
                lines(said, chain[-1].line, line), (),
                (f"kill {ids}", "sleep 1", case.restart(service)),
                "it was started by hand: start it again",
                ("close connections that are idle", "limit connections of one client"),
            )  # fmt: skip


def _repeated(found: list[str]) -> list[str]:
    """A line of the kind of which there are most."""
    kinds: dict[str, list[str]] = {}
    for line in found:
        target = line.rpartition(" -> ")[2]
        kinds.setdefault(re.sub(r"\d+", "", target), []).append(line)
    most = max(kinds.values(), key=len, default=[])
    return most[-1:]


def slow_self(case: Case) -> Iterator[Idea]:
    """It runs and does not answer: the last thing to try is to start it anew."""
    service = case.brief.service
    program = case.programs.get(service)
    if program is None or not program.up:
        return
    yield Idea(
        "unknown", service, f"{service} runs and does not do its work", 0.2, shlex.quote(service),
        lines(*case.troubles(service)[:1], program.line), (), (case.restart(service),), "",
        ("find out why from its log",),
    )  # fmt: skip


RULES = (runaway, leaking, descriptors, slow_self)
