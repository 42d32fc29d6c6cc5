"""What is left where no rule is sure: whoever should answer and does not is started anew, once. It
is the smallest remedy there is, and says that the cause is not known. Before that, whoever may be
in its way is halted for a moment."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import YOUNG_SECONDS, Case, paths_in
from hermes_agent.models.responder.view.needed import targets

MOST = 2
"""Strangers that are tried."""
SCRIPTS = 4
"""Scripts of strangers that are read."""
_SCRIPT = re.compile(r"/(?!usr/|bin/|lib|proc/|dev/)[\w./@+-]+")
_ALTERS = re.compile(
    r"\b(?:mv|rm|rmdir|chmod|chown|chgrp|truncate|umount|unlink|rename|remove|rmtree|shred|setfacl|"
    r"chattr)\b"
)
_HELD = re.compile(
    r"lock|busy|in use|held by|being (?:written|used)|resource temporarily|EAGAIN|EWOULDBLOCK"
    r"|timed? ?out|wait|taken|occupied|used by|owned by|another (?:process|program)|exclusive",
    re.IGNORECASE,
)
_PORT = re.compile(r":(\d{2,5})(?![\d.])")
STORE = re.compile(
    r"postgres|postmaster|mysqld|mariadbd|mongod|redis-server|valkey|etcd|cassandra|elasticsearch"
    r"|clickhouse|rabbitmq|kafka|influxd|sqlservr",
    re.IGNORECASE,
)
"""Those at which many work at once: to start one anew ends the work of all."""


def asked(case: Case) -> list[str]:
    """Who should answer the check: its service; where that is none that anybody looks after,
    whoever has the port that the check asks."""
    own = case.brief.service
    if own in case.programs or case.brief.check is None:
        return [own]
    ports = [int(port) for port in _PORT.findall(case.brief.check.command)]
    owners = [case.owner(one.pid) for one in case.listeners if one.port in ports]
    owners += [name for name in case.services if set(ports) & set(case.ports(name))]
    return [name for name in dict.fromkeys(owners) if name]


def anew(case: Case) -> Iterator[Idea]:
    """It runs, or something that it needs does, and the work is not done."""
    first = asked(case)
    known = [name for service in first for name in [*case.needs(service), *_behind(case, service)]]
    for service in dict.fromkeys([*first, *known]):
        program = case.programs.get(service)
        if program is None:
            continue
        silent = [port for port in _own_ports(case, service) if not _heard(case, port)]
        if program.up and not silent and STORE.search(" ".join(case.command(service))):
            continue
        trouble = next(iter(case.troubles(service)), "")
        if service not in first and not (silent or trouble) and program.up:
            continue
        claim = f"{service} does not do its work, and the cause is not known"
        if silent:
            claim = f"{service} does not listen on port {silent[0]}, and the cause is not known"
        yield Idea(
            "unknown" if program.up else "service-crash", service, claim,
            0.2 + 0.04 * bool(silent) - 0.02 * (service not in first), service,
            lines(trouble, program.line), (), (case.restart(service),), "",
            ("find out why from its log", "alert before its users notice"),
        )  # fmt: skip


def _behind(case: Case, service: str) -> list[str]:
    """Services on this machine that it reaches for, by its settings."""
    ports = {one.port for one in targets(case, service)}
    return [
        name
        for name in case.services
        if name != service
        and any(case.listens(name, port) or not _heard(case, port)
                for port in ports & set(case.ports(name)))
    ]  # fmt: skip


def _own_ports(case: Case, service: str) -> list[int]:
    return [port for _, values in case.sources(service) for port in values.ports]


def _heard(case: Case, port: int) -> bool:
    return any(one.port == port for one in case.listeners)


def suspended(case: Case) -> Iterator[Idea]:
    """Strangers who have to do with the service, and nothing else explains it: each is halted for a
    moment. Where the checks hold meanwhile, it is ended; else it goes on as if nothing was."""
    own = case.brief.service
    program = case.programs.get(own)
    if program is None or not program.up:
        return
    wants = case.missing((probes.CLIENTS, probes.OPEN_FILES))
    if wants:
        yield Idea(
            "runaway-process", own, f"somebody may be in the way of {own}", 0.3, own, (), wants
        )
        return
    for pids, process in list(_strangers(case))[:MOST]:
        yield Idea(
            "runaway-process", own,
            f"process {process.pid} ({process.command[:60]}), which nobody looks after, is in the "
            f"way of {own}", 0.3, f"pid {process.pid}: {process.command[:80]}",
            lines(process.line, *case.troubles(own)[:1]), (), (f"kill -STOP {pids}",),
            f"kill -CONT {pids}", ("start programs by the supervisor only",), "",
            (f"kill {pids}", f"kill -CONT {pids} || true"),
        )  # fmt: skip


def holding(case: Case) -> Iterator[Idea]:
    """The service complains of a file that is locked or busy, and somebody whom nobody looks after
    has that file open: to halt it would not make it let go."""
    for service in [case.brief.service, *case.needs(case.brief.service)]:
        for line in [*case.troubles(service)[:4], case.symptom]:
            named = paths_in(line) if _HELD.search(line) else []
            wants = case.missing((probes.OPEN_FILES,)) if named else ()
            rows = [
                (pid, *one) for pid, held in case.held.items() for one in held if one[0] in named
            ] if named else []  # fmt: skip
            for pid, path, row in rows:
                chain = case.strangers(pid, harmful=True)
                if not chain:
                    continue
                ids, first = " ".join(str(one.pid) for one in chain), chain[0]
                yield Idea(
                    "runaway-process", service,
                    f"process {first.pid} ({first.command[:60]}), which nobody looks after, holds "
                    f"{path}, for which {service} waits", 0.66,
                    f"pid {first.pid}: {first.command[:80]}, {path}", lines(line, row, first.line),
                    (), (f"kill {ids}",), "it was started by hand: start it again",
                    ("give work on shared files a limit of time",),
                )  # fmt: skip
            if wants:
                yield Idea("runaway-process", service, f"somebody may hold {named[0]}", 0.5,
                           named[0], lines(line), wants)  # fmt: skip


def meddling(case: Case) -> Iterator[Idea]:
    """A script that runs, and nobody looks after it, changes the very place of which the service
    complains: it takes away, or shuts. It is ended first, or it does so again."""
    own = case.brief.service
    places = {
        head
        for service in [own, *case.needs(own)]
        for line in [*case.troubles(service)[:4], case.symptom]
        for path in paths_in(line)
        for head in _heads(path)
    }
    scripts = dict[str, parse.Process]()
    for process in case.processes if places else ():
        words = [word for word in process.command.split()[:3] if _SCRIPT.fullmatch(word)]
        if words and case.strangers(process.pid, harmful=True):
            scripts.setdefault(words[-1], process)
    for script, process in list(scripts.items())[:SCRIPTS]:
        wants = case.missing((probes.show(script),))
        rows = [row for row in case.content(script).splitlines() if _ALTERS.search(row)]
        row = next((row for row in rows if any(place in row for place in places)), "")
        if not wants and not row:
            continue
        ids = " ".join(str(one.pid) for one in case.strangers(process.pid, harmful=True))
        yield Idea(
            "runaway-process", own,
            f"process {process.pid} ({process.command[:60]}), which nobody looks after, changes "
            f"what {own} works with", 0.75 if row else 0.55,
            f"pid {process.pid}: {process.command[:80]}, {script}",
            lines(row, process.line, *case.troubles(own)[:1]), wants,
            (f"kill {ids}",) if row else (), "it was started by hand: start it again",
            ("alert on processes without a supervisor",),
        )  # fmt: skip


def _heads(path: str) -> list[str]:
    """A path and the folders above it that are not of all."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(3, len(parts) + 1)] or [path]


def _strangers(case: Case) -> Iterator[tuple[str, parse.Process]]:
    """Who is connected to the service or to what it needs, or has its files open: the ids of the
    one who started it all and of the others, and that one."""
    free = {pid: held for pid, held in case.held.items() if case.strangers(pid)}
    for service in [case.brief.service, *case.needs(case.brief.service)]:
        near = [pid for port in case.ports(service) for pid, _, _ in case.crowd(port, 1)]
        near += [pid for pid, held in free.items() if any(case.owns(service, x) for x, _ in held)]
        for one in dict.fromkeys(near):
            if (chain := case.strangers(one)) and chain[0].age > YOUNG_SECONDS:
                yield " ".join(str(process.pid) for process in chain), chain[0]


RULES = (anew, suspended, holding, meddling)
