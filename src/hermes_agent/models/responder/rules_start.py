"""Programs that do not come up: gone, refused by their port, their lock, their files or their
entry with the supervisor."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case, paths_in
from hermes_agent.models.responder.ideas import (
    KEEP,
    Idea,
    earlier,
    lines,
    put_back,
    undo_of,
)

_TAKEN = r"address already in use|EADDRINUSE|bind\(\) to .* failed|port .* (?:is )?(?:in use|taken)"
_PORT = re.compile(r"(?:port |:)(\d{2,5})\b")
_LOCKED = re.compile(
    r"lock|pid ?file|\.sock\b|another (?:instance|process)|already (?:running|started|locked)",
    re.IGNORECASE,
)
_ABSENT = re.compile(
    r"(?:no such file or directory|can't open file|cannot open|not found|does not exist|"
    r"file ?not ?found)",
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"(can't find command|couldn't exec|no such|not found|unknown|spawn error|"
    r"command at .* is not executable|couldn't chdir|permission)",
    re.IGNORECASE,
)
_GAVE_UP = r"gave up|giving up|circuit (?:is |breaker )?open|restart to retry|no longer trying"
SOCKETS = "ss -lxp"
_SIGNAL = re.compile(r"exited: (\S+) \((.*?)\)")


def down(case: Case) -> Iterator[Idea]:
    """Nothing more is known than that it does not run."""
    for service in case.suspects:
        program = case.programs.get(service)
        if program is None or program.state in ("RUNNING", "STARTING", "active"):
            continue
        near = service in (case.brief.service, *case.needs(case.brief.service))
        if not near and (program.state in ("STOPPED", "inactive") or case.brief.services):
            continue
        wants = case.missing((probes.SUPERVISOR_LOG,)) if case.supervised else ()
        ends = [
            line
            for line in case.text(probes.SUPERVISOR_LOG).splitlines()
            if service in line and re.search(r"exited|terminated|gave up|spawnerr|stopped", line)
        ]
        spawned = [
            found[1]
            for line in case.text(probes.SUPERVISOR_LOG).splitlines()
            if (found := re.search(rf"spawned: '{re.escape(service)}' with pid (\d+)", line))
        ]
        last = ends[-1] if ends else ""
        how = _SIGNAL.search(last)
        pid = f", pid {spawned[-1]}" if spawned else ""
        bad = program.state in ("FATAL", "BACKOFF", "failed")
        trouble = next(iter(case.troubles(service)), "")
        yield Idea(
            "service-crash", service,
            f"{service} does not run: {program.state}{f', {how[2]}' if how else ''}",
            0.62 if bad else 0.7, f"{service}{pid}",
            lines(program.line, last, trouble), wants, (case.restart(service),),
            f"supervisorctl stop {service}",
            ("have it restarted by itself when it ends", "alert on its process"),
        )  # fmt: skip


def halted(case: Case) -> Iterator[Idea]:
    """A process that was stopped by a signal, and waits for another."""
    for service in case.suspects:
        for pid in case.pids(service):
            process = case.process(pid)
            if process is not None and process.state[:1] in "Tt":
                yield Idea(
                    "service-crash", service, f"process {pid} of {service} is halted by a signal",
                    0.9, f"pid {pid}", lines(process.line), (), (f"kill -CONT {pid}",),
                    f"kill -STOP {pid}", ("alert on processes in state T",),
                )  # fmt: skip


def port_taken(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        pids = set(case.pids(service))
        program = case.programs.get(service)
        up = program is not None and program.up
        spoken = next(case.said(service, _TAKEN), "")
        ports = [int(port) for port in _PORT.findall(spoken)] + case.ports(service)
        if spoken and not ports:
            ports = [one.port for one in case.listeners if not case.owner(one.pid)]
        for port in dict.fromkeys(ports):
            for holder in case.listeners:
                if holder.port != port or holder.pid in pids or not holder.pid:
                    continue
                if up and not spoken and case.listens(service, port):
                    continue
                yield from _evicting(case, service, port, holder.pid, holder.line, spoken)


def _evicting(
    case: Case, service: str, port: int, pid: int, line: str, spoken: str
) -> Iterator[Idea]:
    owner, process = case.owner(pid), case.process(pid)
    claim = f"port {port} of {service} is held by process {pid}"
    evidence = lines(line, spoken, process.line if process else "")
    locus = f"port {port}, pid {pid}"
    if not owner:
        yield Idea(
            "port-conflict", service, f"{claim}, which nobody looks after",
            0.92 if spoken else 0.8, locus, evidence, (),
            (f"kill {pid}", "sleep 1", case.restart(service)), f"start process {pid} again",
            ("start programs by the supervisor only", "alert on strangers that listen"),
        )  # fmt: skip
        return
    for path in [*case.configs(owner), case.definitions[owner].path]:
        copy = earlier(case, path)
        yield Idea(
            "port-conflict", service, f"{claim}, which is {owner}", 0.85 if copy.path else 0.6,
            locus, evidence, copy.wants,
            (*put_back(path, copy.path), *_reload(case, owner, path), case.restart(owner),
             case.restart(service)) if copy.path else (),
            undo_of(path), ("keep a list of who has which port",),
        )  # fmt: skip


def _reload(case: Case, owner: str, path: str) -> tuple[str, ...]:
    """What makes the supervisor read its entries again, where one was changed."""
    definition = case.definitions.get(owner)
    if not case.supervised or definition is None or definition.path != path:
        return ()
    return ("supervisorctl reread", f"supervisorctl update {shlex.quote(owner)}")


def locked(case: Case) -> Iterator[Idea]:
    """A lock of a process that is gone."""
    for service in case.suspects:
        values = case.settings(service)
        for line in case.troubles(service)[:6]:
            if not _LOCKED.search(line):
                continue
            paths = [*paths_in(line), values.last("lock", "lockfile"), values.last("pidfile")]
            for path in dict.fromkeys(path for path in paths if path):
                if _looks_like_lock(path):
                    yield from _unlocking(case, service, path, line)


def _looks_like_lock(path: str) -> bool:
    return re.search(r"lock|\.pid$|\.sock$|^/run/|^/var/run/", path, re.IGNORECASE) is not None


def _unlocking(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    found, open_by = case.look(probes.show(path)), probes.holders(path)
    wants = case.missing((probes.show(path), probes.rows(path), open_by))
    claim = f"{path} is a lock of a process that is gone"
    if path.endswith(".sock"):
        yield from _deaf(case, service, path, line)
        return
    if found is None or not found.ok:
        yield Idea("stale-lock", service, claim, 0.55, path, lines(line), wants)
        return
    held = parse.holders(case.text(open_by))
    held = [pid for pid in held if pid not in case.pids(service)]
    if held:
        yield from _holding(case, service, path, line, held[0])
        return
    number = re.search(r"\d+", found.output)
    holder = case.process(int(number[0])) if number and len(number[0]) < 9 else None
    definition = case.definitions.get(service)
    told = definition.command if definition else ""
    if holder is not None and (
        holder.pid in case.pids(service) or (told and told.endswith(holder.command))
    ):
        return  # it is right
    other = f"; process {holder.pid} is another program" if holder else ""
    row = next(iter(case.text(probes.rows(path)).splitlines()), "")
    yield Idea(
        "stale-lock", service, claim + other, 0.93, path,
        lines(line, holder.line if holder else "", row), wants,
        (f"rm -f {shlex.quote(path)}", case.restart(service)),
        f"write {number[0] if number else ''} into {path} again",
        ("take locks with flock, which end with their process",),
    )  # fmt: skip


def _deaf(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    """A socket that is there, and nobody listens on it."""
    heard = case.look(SOCKETS)
    wants = case.missing((SOCKETS, probes.rows(path)))
    if heard is not None and path in heard.output:
        return
    row = next(iter(case.text(probes.rows(path)).splitlines()), "")
    yield Idea(
        "stale-lock", service, f"{path} was left behind, and nobody listens on it", 0.9, path,
        lines(line, row), wants, (f"rm -f {shlex.quote(path)}", case.restart(service)),
        "the service makes it again", ("remove a left-over socket before listening",),
    )  # fmt: skip


def _holding(case: Case, service: str, path: str, line: str, pid: int) -> Iterator[Idea]:
    """A living process has the lock: one that nobody looks after is ended, no other."""
    chain = case.strangers(pid, harmful=True)
    if not chain:
        return
    last = chain[-1]
    yield Idea(
        "runaway-process", service,
        f"process {pid} ({last.command[:80]}), which nobody looks after, holds {path}", 0.93,
        f"pid {pid}: {last.command[:80]}", lines(line, last.line), case.missing((probes.BUSY,)),
        ("kill " + " ".join(str(one.pid) for one in chain), "sleep 1"),
        "it was started by hand: start it again",
        ("let jobs give up a lock after a while", "start jobs by the supervisor only"),
    )  # fmt: skip


def absent(case: Case) -> Iterator[Idea]:
    """A file that it needs is gone."""
    for service in case.suspects:
        for line in case.troubles(service)[:6]:
            if not _ABSENT.search(line):
                continue
            for path in paths_in(line):
                yield from _bringing_back(case, case.user_of(path, service), path, line)


def _bringing_back(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    here = PurePosixPath(path)
    if path.startswith(("/usr/", "/proc/", "/dev/")):
        return
    above, search = probes.rows(str(here.parent)), probes.kept(here.name)
    higher = probes.rows(str(here.parent.parent))
    wants = case.missing((above, search, higher, _program(here.name)))
    listed = case.look(above)
    if listed is not None and any(row.own == here.name for row in parse.listing(listed.output)):
        return  # it is there again
    copies = [row for row in parse.sizes(case.text(search)) if row.path != path]
    copies = [row for row in copies if not row.path.startswith((KEEP, "/usr/"))]
    copies = [row for row in copies if "/.cache/" not in row.path]
    used = {one.path for one in case.definitions.values()}
    versions = re.compile(rf"\.?{re.escape(here.name)}([.~_-].*)?")
    copies = [
        row
        for row in copies
        if row.path not in used and versions.fullmatch(PurePosixPath(row.path).name)
    ]
    near = [row for row in copies if PurePosixPath(row.path).parent == here.parent]
    source = max(near or copies, key=lambda row: row.time, default=None)
    folder_gone = listed is not None and not listed.ok
    fix = _replacement(case, service, path, source.path if source else "", folder_gone)
    moved = [
        row.own
        for row in parse.listing(case.text(higher))
        if row.mode.startswith("d") and re.match(rf"{re.escape(here.parent.name)}[._-]", row.own)
    ]
    if folder_gone and len(moved) == 1:
        away = shlex.quote(str(here.parent.parent / moved[0]))
        fix = (f"mv {away} {shlex.quote(str(here.parent))}",)
    yield Idea(
        "bad-config" if path.startswith("/etc/") else "service-crash", service,
        f"{path}, which {service} needs, is gone",
        0.87 if fix else 0.6, f"{path}, now {source.path}" if source else path,
        lines(line, source.line if source else ""), wants,
        (*fix, case.restart(service)) if fix else (),
        undo_of(_entry_path(case, service)) if _is_named(case, service, path) else f"rm {path}",
        ("keep what a service needs in its release",),
    )  # fmt: skip


def _replacement(
    case: Case, service: str, path: str, source: str, folder_gone: bool
) -> tuple[str, ...]:
    """How what is gone comes back, or its entry is led to where it is."""
    here = PurePosixPath(path)
    other = case.text(_program(here.name)).strip().splitlines()[:1]
    if _is_named(case, service, path) and here.parent.name in ("bin", "sbin") and other:
        return _rewritten(case, service, path, other[0])
    if source and folder_gone and _is_named(case, service, path):
        return _rewritten(case, service, path, source)
    if source:
        made = (f"mkdir -p {shlex.quote(str(here.parent))}",) if folder_gone else ()
        return (*made, f"cp -p {shlex.quote(source)} {shlex.quote(path)}")
    if folder_gone and path.startswith(("/run/", "/var/run/", "/var/lib/", "/var/log/", "/tmp/")):  # noqa: S108
        return (f"mkdir -p {shlex.quote(str(here.parent))}",)
    return ()


def _rewritten(case: Case, service: str, old: str, new: str) -> tuple[str, ...]:
    """The entry of a program with another path in it."""
    entry = _entry_path(case, service)
    if not re.fullmatch(r"[\w./@+-]+", old) or not re.fullmatch(r"[\w./@+-]+", new):
        return ()
    return (
        f"cp {shlex.quote(entry)} {KEEP}/{PurePosixPath(entry).name}.replaced",
        f"sed -i 's#{old}#{new}#g' {shlex.quote(entry)}",
        *_reload(case, service, entry),
    )


def _program(name: str) -> str:
    return f"command -v {shlex.quote(name)}"


def _entry_path(case: Case, service: str) -> str:
    definition = case.definitions.get(service)
    return definition.path if definition else ""


def _is_named(case: Case, service: str, path: str) -> bool:
    definition = case.definitions.get(service)
    return definition is not None and path in definition.command


def entry(case: Case) -> Iterator[Idea]:
    """What the supervisor is told to run cannot be run."""
    for service in case.suspects:
        program, definition = case.programs.get(service), case.definitions.get(service)
        if program is None or program.up or definition is None:
            continue
        said = [program.line, *_spawning(case, service)]
        wrong = next((line for line in said if _ENTRY.search(line)), "")
        if not wrong:
            continue
        copy = earlier(case, definition.path)
        fix: tuple[str, ...] = ()
        if copy.path:
            fix = (*put_back(definition.path, copy.path), *_reload(case, service, definition.path))
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


RULES = (gave_up, down, halted, port_taken, locked, absent, entry)
