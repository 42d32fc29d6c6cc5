"""What there is only so much of, and who has it: connections of any server, and files of databases
that are locked."""

import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

from hermes_agent.models.responder.rules import awaited, strays
from hermes_agent.models.responder.rules.config import commented, reread, swapped
from hermes_agent.models.responder.rules.former import family
from hermes_agent.models.responder.rules.ideas import (
    Copy,
    Idea,
    earlier,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.last import STORE
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import Case

_FULL = re.compile(
    r"max(?:imum)? (?:number of )?(?:clients|connections|sessions|users)|too many (?:clients|"
    r"connections|sessions)|connection (?:limit|slots)|no (?:free|more|available) connection|"
    r"connection is not available|"
    r"pool[^.]{0,60}(?:exhaust|timeout|timed out|full|empty|limit)|"
    r"(?:exhaust|timeout|timed out|waiting)[^.]{0,60}\bpool|QueuePool|client limit|"
    r"(?:all|every|no (?:free|more|idle|available)) (?:\w+ )?(?:slots?|workers?|threads?|handlers?|"
    r"permits?|seats?|children|backends?)\b|max_children|MaxRequestWorkers|MaxClients|"
    r"(?:slots?|workers?|threads?|handlers?) (?:are |is )?(?:all )?(?:in use|busy|taken|exhausted)|"
    r"worker_connections are not enough|maxclients|max_connections|all connections",
    re.IGNORECASE,
)
_POOL_KEY = re.compile(
    r"pool|conn|client|max|size|limit|worker|idle|concurren|thread|process|children|prefork"
    r"|numprocs|instances|replicas|overflow",
    re.IGNORECASE,
)
_LOCKED = re.compile(
    r"database (?:table |schema )?is locked|SQLITE_BUSY|SQLITE_LOCKED|db is locked|"
    r"(?:could not|unable to|cannot) (?:acquire|obtain|get) (?:\w+ )*lock|"
    r"lock wait timeout|file is locked|(?:MDB|LMDB|bolt|rocksdb|leveldb)\S*[^.]{0,40}lock",
    re.IGNORECASE,
)
_BASE = re.compile(
    r"\.(?:db|db3|sqlite|sqlite3|sdb|mdb|dbm|gdbm|dat|rdb|lmdb|bolt)$|/LOCK$", re.IGNORECASE
)
_REMARK = re.compile(r"#.*")
_LED = re.compile(r"(:?)(?<!\d)(\d{2,5})(?!\d)")
LOCKS = "cat /proc/locks"


def crowded(case: Case) -> Iterator[Idea]:
    """All connections of a server are taken: by one that has more than its share, or by a pool
    that was made too small."""
    for service in case.suspects:
        spoken = next(case.said(service, _FULL.pattern), "")
        if not spoken:
            continue
        wants = case.missing((probes.CONNECTIONS,))
        ports = [one.port for one in needed.targets(case, service) if one.port]
        ports += [port for port in case.ports(service) if port not in ports]
        yield Idea("pool-exhausted", service, f"{service} gets no connection any more",
                   0.5 + 0.12 * bool(wants), service, lines(spoken), wants)  # fmt: skip
        for port in dict.fromkeys(ports):
            yield from _takers(case, service, port, spoken)
        yield from _resized(case, service, spoken)


def _takers(case: Case, service: str, port: int, spoken: str) -> Iterator[Idea]:
    crowd = case.crowd(port)
    server = case.database_of(port)
    crowd = [one for one in crowd if case.owner(one[0]) != server or not server]
    every = sum(count for _, count, _ in crowd)
    if not crowd and server and case.look(probes.CONNECTIONS) is not None:
        yield from _unreturned(case, service, server, spoken)
    yield from awaited.kept_waiting(case, [pid for pid, _, _ in crowd], port, every, spoken)
    for pid, count, line in crowd[:2]:
        process, owner = case.process(pid), case.owner(pid)
        strangers = [] if owner else case.strangers(pid, harmful=True)
        if process is None or not (owner or strangers):
            continue
        most = count * 2 >= every
        again = stopped if owner and given_up(case, owner) else Case.restart
        fix = (again(case, owner),) if owner else (f"kill {strangers[0].pid}", "sleep 1")
        undo = fix[0].replace(" stop ", " start ") if again is stopped else ""
        undo = undo if owner else "it was started by hand: start it again"
        yield Idea(
            "pool-exhausted", owner or _called(process.command),
            f"{owner or f'process {pid}'} has {count} connections to port {port}, and others get "
            "none", 0.6 + 0.2 * most + 0.04 * (owner != service),
            f"{owner or process.command}, pid {pid}, port {port}",
            lines(spoken, line, process.line), unseen(case, owner) if owner else (), fix, undo,
            ("give connections back", "limit the connections of each client"),
        )  # fmt: skip


def _unreturned(case: Case, service: str, server: str, spoken: str) -> Iterator[Idea]:
    """All its places are taken, and nobody is there who takes them: it works for those who went."""
    program = case.programs.get(server)
    if program is None or STORE.search(" ".join(case.command(server))):
        return
    yield Idea(
        "pool-exhausted", server, f"{server} still works for clients that are gone",
        0.6 if server != service else 0.56, server, lines(spoken, program.line), (),
        (case.restart(server),), "", ("let a server notice when its client goes",),
    )  # fmt: skip


def given_up(case: Case, service: str) -> str:
    """The instance that took the place of another one of the same family: both run, and whoever
    hands requests on does so to it alone. Empty where there is none."""
    twins = [one for one in case.services if one != service and family(one) == family(service)]
    twins = [one for one in twins if one in case.programs and case.programs[one].up]
    fronts = [one for one in case.services if one not in (service, *twins)]
    texts = [case.content(path) for one in fronts for path in _gone_by(case, one)]
    texts.append(case.text(probes.SITES))
    told = [pair for text in texts for pair in _LED.findall(_REMARK.sub("", text))]
    led = {int(port) for colon, port in told if colon}
    mine = [port for port in case.ports(service) if case.listens(service, port)]
    if not mine or {int(port) for _, port in told}.intersection(mine):
        return ""
    if case.brief.service == service or case.missing((probes.SITES,)):
        return ""
    return next((one for one in twins if led.intersection(case.ports(one))), "")


def unseen(case: Case, service: str) -> tuple[str, ...]:
    """What to look at to know whether another one took its place."""
    kin = [one for one in case.services if one != service and family(one) == family(service)]
    return case.missing((probes.SITES,)) if kin else ()


def _gone_by(case: Case, service: str) -> list[str]:
    """Files of settings that a service is told of: others only lie beside them."""
    told, taken = case.named(service), case.includes(service)
    files = [path for path, _ in case.sources(service)]
    return [one for one in files if one in told or any(fnmatchcase(one, x) for x in taken)]


def stopped(case: Case, service: str) -> str:
    """The command that ends a service for now."""
    name = shlex.quote(case.programs[service].name)
    return f"supervisorctl stop {name}" if case.supervised else f"systemctl stop {name}"


def _called(command: str) -> str:
    """What somebody's process is called: its script, where it is one of an interpreter."""
    words = command.split()
    scripts = [one for one in words[1:3] if re.search(r"\.(?:py|sh|pl|rb|js|php)$", one)]
    return (scripts or words)[0].rpartition("/")[2]


def _resized(case: Case, service: str, spoken: str) -> Iterator[Idea]:
    """A limit that was changed, on either side, or of whoever has the most connections."""
    ports = [one.port for one in needed.targets(case, service) if one.port]
    names = [service, *(case.database_of(port) for port in ports)]
    names += [case.owner(pid) for port in ports for pid, _, _ in case.crowd(port)[:2]]
    for one in dict.fromkeys(name for name in names if name):
        yield from resized(case, one, spoken)


def resized(case: Case, service: str, spoken: str, shown: str = "") -> Iterator[Idea]:
    """A limit in the settings of a service that was changed: only its line is put back."""
    definition = case.definition(service)
    entry = [definition.path] if definition is not None and definition.path else []
    for path in [*case.configs(service)[:3], *entry]:
        copy = earlier(case, path)
        changes = [x for x in copy.changes if _POOL_KEY.search(x) and re.search(r"\d", x)]
        if copy.wants:
            yield Idea("pool-exhausted", service, f"a limit in {path} may have been changed", 0.62,
                       path, lines(spoken), copy.wants)  # fmt: skip
        after = reread(case, service) if path in entry else (case.restart(service),)
        row, old = commented(case.content(path), _POOL_KEY)
        if not changes and row and re.search(r"\d", row) and re.search(r"\d", old):
            yield Idea(
                "pool-exhausted", service, f"a limit in {path} was changed from {old}", 0.84,
                f"{path}: {row.strip()}", lines(spoken, row, shown), (),
                (*swapped(path, row, old, whole=True), *after), undo_of(path),
                ("size pools by what their clients need",),
            )  # fmt: skip
        if not changes:
            continue
        yield Idea(
            "pool-exhausted", service, f"a limit in {path} was changed", 0.88,
            f"{path}: {changes[-1][2:].strip()}", lines(spoken, *changes, shown), (),
            (*_only(path, copy, changes), *after), undo_of(path),
            ("size pools by what their clients need",),
        )  # fmt: skip


def _only(path: str, copy: Copy, changes: list[str]) -> tuple[str, ...]:
    """Commands that put only such lines back where others were changed, too."""
    old = [line[2:] for line in changes if line[0] == "<"]
    new = [line[2:] for line in changes if line[0] == ">"]
    alike = [_key(line) for line in old] == [_key(line) for line in new]
    if len(copy.changes) > len(changes) and alike and len(set(new)) == len(new):
        edits = [swapped(path, now, was) for now, was in zip(new, old, strict=True)]
        return edits[0][0], *(edit for _, edit in edits)
    return put_back(path, copy.path)


def _key(line: str) -> str:
    return re.split(r"[=:\s]", line.strip(), maxsplit=1)[0]


def locked(case: Case) -> Iterator[Idea]:
    """The file of a database is locked by a process that does not let go."""
    for service in case.suspects:
        spoken = next(case.said(service, _LOCKED.pattern), "")
        if not spoken:
            continue
        told = [one for one in parse.paths_in(spoken) if not _is_of_others(case, service, one)]
        named = [*told, *case.named(service), *case.opened(service)]
        named += [row.path for row in case.lying(service)]
        paths = [path for path in dict.fromkeys(named) if _BASE.search(path)][:3]
        for path in paths:
            yield from _held(case, service, path, spoken)
        if not paths:
            wants = case.missing((LOCKS, probes.OPEN_FILES))
            yield Idea("database-lock", service, f"the database of {service} is locked", 0.55,
                       service, lines(spoken), wants)  # fmt: skip


def _is_of_others(case: Case, service: str, path: str) -> bool:
    """Whether a file that a line names is another's, to whom it does not even speak."""
    if case.owns(service, path):
        return False
    others = [one for one in case.services if one not in (service, *case.needs(service))]
    return any(case.owns(one, path) and path not in case.opened(one) for one in others)


def _held(case: Case, service: str, path: str, spoken: str) -> Iterator[Idea]:
    look = probes.holders(f"{path}*")
    wants = case.missing((look, LOCKS))
    holders = list(dict.fromkeys(parse.holders(case.text(look))))
    writing = {
        int(pid)
        for pid in re.findall(r"(?:POSIX|FLOCK|OFDLCK)\s+\S+\s+WRITE\s+(\d+)", case.text(LOCKS))
    }
    holders.sort(key=lambda pid: pid not in writing)
    own = set(case.pids(service))
    prevent = ("set a time limit for transactions", "let no script write to a live database")
    yield Idea("database-lock", service, f"{path} is locked", 0.5 + 0.12 * bool(wants), path,
               lines(spoken), wants)  # fmt: skip
    for pid in [one for one in holders if one not in own]:
        process, owner = case.process(pid), case.owner(pid)
        strangers = [] if owner else case.strangers(pid, harmful=True)
        if process is None or not (owner or strangers):
            continue
        line = next((row for row in case.text(look).splitlines() if f"/{pid}/" in row), "")
        fix = (case.restart(owner),) if owner else (*strays.ended(strangers), "sleep 1")
        yield Idea(
            "database-lock", service,
            f"{owner or f'process {pid} ({process.command[:60]})'} holds a lock on {path}",
            0.78 + 0.08 * (pid in writing), f"{path}, pid {pid}: {process.command[:80]}",
            lines(spoken, process.line, line), (), fix,
            "" if owner else "it was started by hand: start it again", prevent,
        )  # fmt: skip
    if own & set(holders):
        yield Idea(
            "database-lock", service, f"{service} itself holds a lock on {path}", 0.66, path,
            lines(spoken), (), (case.restart(service),), "", prevent,
        )  # fmt: skip


RULES = (crowded, locked)
