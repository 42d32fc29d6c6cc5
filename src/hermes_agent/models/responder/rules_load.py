"""Processes that take too much: the processor, memory, open files."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, lines

BUSY_PERCENT = 60.0
_TOO_MANY = r"too many open files|EMFILE|\[Errno 24\]"
_NO_MEMORY = r"MemoryError|cannot allocate memory|out of memory|oom|\[Errno 12\]|bad_alloc"
_OPEN_FILES = re.compile(r"Max open files\s+(\d+)")
_GROWN = 1.02
_BIG = 40_000
"""Kilobytes from which on a process may be one that leaks."""


def runaway(case: Case) -> Iterator[Idea]:
    """Somebody eats the processor, and nobody looks after it."""
    hot = [one for one in case.processes if one.cpu >= BUSY_PERCENT and one.age >= 1]
    hot = [one for one in hot if not one.command.startswith(("ps ", "top "))]
    for process in hot:
        owner = case.owner(process.pid)
        wants = case.missing((probes.BUSY, _cwd(process.pid)))
        now = _now(case, process.pid)
        if now is not None and now[0] < BUSY_PERCENT / 2:
            continue
        evidence = lines(process.line, now[1] if now else "")
        told = f"process {process.pid} ({process.command[:60]}) eats {process.cpu:.0f} % of a core"
        prevent = ("limit the processor of batch work", "alert on processes without a supervisor")
        if not owner and process.nice <= 0:
            yield Idea(
                "runaway-process", case.brief.service, f"{told}, and nobody looks after it",
                0.66 if now else 0.5, f"pid {process.pid}", evidence, wants,
                (f"kill {process.pid}", "sleep 1", f"kill -0 {process.pid} && kill -9 {process.pid}"
                 " || true"),
                "it was started by hand: start it again", prevent,
            )  # fmt: skip
        elif owner and process.nice <= 0:
            yield Idea(
                "runaway-process", owner, told, 0.55 if owner == case.brief.service else 0.4,
                f"pid {process.pid}", evidence, wants, (case.restart(owner),), "", prevent,
            )  # fmt: skip


def _cwd(pid: int) -> str:
    return f"ls -l /proc/{pid}/cwd /proc/{pid}/exe"


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
                min(score, 0.9), f"pid {pid}",
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
            yield Idea(
                "descriptor-leak", service,
                f"process {pid} of {service} has {count} of its {limit[1] if limit else '?'} files"
                " open", 0.6 + 0.15 * bool(spoken) + 0.18 * near, f"pid {pid}",
                lines(spoken, shown, *_repeated(opened.lines if opened else [])), wants,
                (case.restart(service),), "",
                ("close what is opened, also when it fails", "alert on open files"),
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
