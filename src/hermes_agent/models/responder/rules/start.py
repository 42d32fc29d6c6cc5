"""Programs that do not come up: gone, refused by their port, their lock, their files or their
entry with the supervisor."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.rules.port import reread
from hermes_agent.models.responder.view import needed, probes
from hermes_agent.models.responder.view.case import Case

_ENTRY = re.compile(
    r"(can't find command|couldn't exec|no such|not found|unknown|spawn error|"
    r"command at .* is not executable|couldn't chdir|permission|unrecogni[sz]ed|invalid option|"
    r"illegal option|usage:|KeyError|not set|unbound variable|required)",
    re.IGNORECASE,
)
_GAVE_UP = (
    r"gave up|giving up|circuit (?:breaker )?(?:is )?open|restart to (?:retry|resume|try)|"
    r"no longer (?:try|retry)|not retrying|(?:will|shall) not (?:try|retry)|stopped (?:re)?trying|"
    r"no (?:more|further) (?:attempt|retr|tri)|retries exhausted|standing down"
)
_STILL = re.compile(
    r"(?:^|[/ _-])(?:backup|snapshot|fsfreeze|pg_dump|mysqldump|rsync|borg|restic|gdb|criu)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Those for whose sake a process is halted."""
DEAF_SECONDS = 3
"""In which it may not listen yet."""
_SIGNAL = re.compile(r"exited: (\S+) \((.*?)\)")


def down(case: Case) -> Iterator[Idea]:
    """Nothing more is known than that it does not run."""
    near = {case.brief.service, *case.needs(case.brief.service)}
    reached = _reached(case)
    for service in case.suspects:
        program = case.programs.get(service)
        if program is None or program.state in ("RUNNING", "STARTING", "active"):
            continue
        stopped = program.state in ("STOPPED", "inactive")
        far = service not in near and service not in reached
        if far and stopped:
            continue
        wants = case.missing((probes.SUPERVISOR_LOG,)) if case.supervised else ()
        own = re.escape(service.rpartition(":")[2])
        said = [
            line
            for line in case.text(probes.SUPERVISOR_LOG).splitlines()
            if re.search(rf"\b{own}\b", line)
        ]
        ends = [x for x in said if re.search(r"exited|terminated|gave up|spawnerr|stopped", x)]
        spawned = [
            found[1]
            for line in said
            if (found := re.search(rf"spawned: '{own}' with pid (\d+)", line))
        ]
        last = ends[-1] if ends else ""
        how = _SIGNAL.search(last)
        pid = f", pid {spawned[-1]}" if spawned else ""
        bad = program.state in ("FATAL", "BACKOFF", "failed")
        trouble = next(iter(case.troubles(service)), "")
        score = 0.62 if bad else 0.7
        yield Idea(
            "service-crash", service,
            f"{service} does not run: {program.state}{f', {how[2]}' if how else ''}",
            min(score, 0.45) if far else score, f"{service}{pid}",
            lines(program.line, last, trouble), wants, (case.restart(service),),
            f"supervisorctl stop {program.name}",
            ("have it restarted by itself when it ends", "alert on its process"),
        )  # fmt: skip


def _reached(case: Case) -> set[str]:
    """Services at whose ports those of the alert ask, by their settings and what they say."""
    found = set[str]()
    waiting = [case.brief.service, *case.needs(case.brief.service)]
    while waiting:
        one = waiting.pop(0)
        ports = {target.port for target in needed.targets(case, one) if target.port}
        ports |= {*case.settings(one).ports} - {x.port for x in case.listeners}
        met = [
            other
            for other in case.services
            if other != one and other not in found and ports.intersection(case.ports(other))
        ]
        found.update(met)
        waiting += met
    return found


def halted(case: Case) -> Iterator[Idea]:
    """A process that was stopped by a signal, and waits for another. While somebody at work may
    want it to stand still, it does."""
    at_work = [x for x in case.processes if _STILL.search(x.command) and not case.owner(x.pid)]
    for service in case.suspects:
        for pid in case.pids(service):
            process = case.process(pid)
            if process is not None and process.state[:1] in "Tt":
                yield Idea(
                    "service-crash", service, f"process {pid} of {service} is halted by a signal",
                    0.55 if at_work else 0.9, f"pid {pid}", lines(process.line), (),
                    (f"kill -CONT {pid}",), f"kill -STOP {pid}", ("alert on processes in state T",),
                )  # fmt: skip


def deaf(case: Case) -> Iterator[Idea]:
    """It runs as far as its supervisor knows, and nothing listens where it should: what did the
    work is gone, and its parent lives on."""
    near = (case.brief.service, *case.needs(case.brief.service))
    heard = {one.port for one in case.listeners}
    for service in dict.fromkeys([*near, *_reached(case)]):
        program = case.programs.get(service)
        own = [port for _, values in case.sources(service) for port in values.ports]
        if service == case.brief.service and case.brief.check is not None:
            own += [port for host, port, _ in case.urls(case.brief.check.command)
                    if host in ("127.0.0.1", "localhost")]  # fmt: skip
        pids = set(case.pids(service))
        if program is None or not program.up or not own or not pids or not heard:
            continue
        if needed.node_of(case, service):
            continue  # what listens there is not seen from here
        if heard.intersection(own) or any(one.pid in pids for one in case.listeners):
            continue
        running = [one for pid in sorted(pids) if (one := case.process(pid)) is not None]
        troubles = case.troubles(service)
        if not running or running[0].age < DEAF_SECONDS:
            continue
        yield Idea(
            "service-crash", service,
            f"{service} runs, and nothing listens on its port {own[0]}: what did its work is gone",
            0.55 if troubles else 0.66, f"{service}, pid {running[0].pid}, port {own[0]}",
            lines(program.line, running[0].line, *troubles[:1]), (), (case.restart(service),), "",
            ("let a parent end when its child does", "watch the port, not the process alone"),
        )  # fmt: skip


def hung(case: Case) -> Iterator[Idea]:
    """It listens and lets whoever asks wait, and says nothing of it."""
    service, check = case.brief.service, case.brief.check
    program = case.programs.get(service)
    if program is None or not program.up or check is None:
        return
    pids = set(case.pids(service))
    own = [one for one in case.listeners if one.pid in pids]
    waits = [one for one in own if one.waiting]
    late = re.search(r"timed out|timeout", case.symptom, re.IGNORECASE) is not None
    if not own or not (waits or late) or case.troubles(service):
        return
    running = [one for pid in sorted(pids) if (one := case.process(pid)) is not None]
    yield Idea(
        "service-crash", service, f"{service} listens on port {own[0].port} and answers nobody",
        0.44, f"{service}, pid {own[0].pid}, port {own[0].port}",
        lines((waits or own)[0].line, program.line, *(one.line for one in running[:1])), (),
        (case.restart(service),), "", ("have it watched by what it answers, not by its process",),
    )  # fmt: skip


def entry(case: Case) -> Iterator[Idea]:
    """What the supervisor is told to run cannot be run."""
    for service in case.suspects:
        program, definition = case.programs.get(service), case.definition(service)
        if program is None or program.up or definition is None:
            continue
        said = [program.line, *_spawning(case, service), *case.troubles(service)[:2]]
        wrong = next((line for line in said if _ENTRY.search(line)), "")
        if not wrong:
            continue
        copy = earlier(case, definition.path)
        fix: tuple[str, ...] = ()
        if copy.path:
            fix = (*put_back(definition.path, copy.path), *reread(case, service, definition.path))
            fix += (case.restart(service),)
        yield Idea(
            "bad-config", service,
            f"the entry of {service} in {definition.path} cannot be started",
            0.88 if fix else 0.55, definition.path, lines(wrong, copy.change),
            (*copy.wants, *case.missing((probes.SUPERVISOR_LOG,))), fix, undo_of(definition.path),
            ("try a changed entry before it is rolled out",),
        )  # fmt: skip


def _spawning(case: Case, service: str) -> list[str]:
    text = case.text(probes.SUPERVISOR_LOG)
    return [line for line in text.splitlines() if "spawnerr" in line and service in line][-1:] or [
        line for line in text.splitlines() if "spawnerr" in line
    ][-1:]


def gave_up(case: Case) -> Iterator[Idea]:
    """Services that do not try again what failed while something below them was down."""
    chain = [case.brief.service, *case.needs(case.brief.service)]
    spoken = {
        service: line
        for service in case.suspects
        if (line := next(case.said(service, _GAVE_UP), ""))
    }
    if not spoken:
        return
    low = [name for name in reversed(chain) if name in spoken]
    low += [name for name in spoken if name not in low]
    broken = any(not one.up for name, one in case.programs.items() if name in chain)
    yield Idea(
        "cascading-failure", low[0],
        f"{', '.join(low)} gave up on what was down below", 0.45 if broken else 0.8,
        low[0], lines(*spoken.values()), (), tuple(case.restart(name) for name in low), "",
        ("let those that give up try again by themselves",),
    )  # fmt: skip


RULES = (gave_up, down, halted, deaf, hung, entry)
