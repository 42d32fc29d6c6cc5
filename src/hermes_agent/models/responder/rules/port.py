"""Somebody else holds the port."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_away,
    put_back,
    taken_out,
    undo_of,
)
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import KEEPERS, YOUNG_SECONDS, Case, paths_in
from hermes_agent.models.responder.view.house import CODE, SYSTEM

_TAKEN = (
    r"address (?:is )?already in use|EADDRINUSE|errno 98\b|\(98: |already (?:being )?used by|"
    r"bind(?:ing)?\(?\)? .*fail|(?:cannot|can't|could not|failed to|unable to) (?:bind|listen)|"
    r"(?:port|door|socket|listener|address|endpoint)\W+\S*\d+.*(?:in use|taken|busy|occupied)|"
    r"only one usage of each socket|connection in use|is bound to|(?:unable to|cannot|could not) "
    r"(?:create|open|start) (?:a |the )?(?:listen|socket|server|port|door)|no free (?:socket|port)"
)
_PORT = re.compile(r"(?:port\W{1,5}|:|door |', )(\d{2,5})\b")
_LOCAL = ("127.0.0.1", "localhost", "0.0.0.0", "[::1]")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")
_LISTENS = re.compile(
    r"(?:listen|serv|bound|start|ready|running|accept)\w*\b.*?(?::|\bport\W{1,5})(\d{2,5})\b",
    re.IGNORECASE,
)
_SITE = re.compile(r"^\s*listen\s+(?:\S*:)?(\d{2,5})\b", re.MULTILINE)
_UDP = "ss -lunp"


class Held(Struct, frozen=True):
    """A port that a service cannot have, and who has it."""

    service: str
    port: int
    pid: int
    line: str
    spoken: str
    """How the service says so."""

    @property
    def claim(self) -> str:
        return f"port {self.port} of {self.service} is held by process {self.pid}"

    @property
    def locus(self) -> str:
        return f"port {self.port}, pid {self.pid}"


def port_taken(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        pids = set(case.pids(service))
        program = case.programs.get(service)
        up = program is not None and program.up
        spoken = next(case.said(service, _TAKEN), "")
        told = [int(port) for port in _PORT.findall(_CLOCK.sub(" ", spoken))]
        ports = [*told, *case.ports(service), *_asked(case, service)]
        if spoken and not ports:
            ports = [one.port for one in case.listeners if not case.owner(one.pid)]
        held = [
            Held(service, one.port, one.pid, one.line, spoken)
            for port in dict.fromkeys(ports)
            for one in case.listeners
            if one.port == port and one.pid and one.pid not in pids
        ]
        own = {*case.ports(service), *_asked(case, service)}
        # whoever runs and speaks of a port that is not its own asks there
        held = [one for one in held if not up or not own or one.port in own]
        for one in held:
            both = up and not spoken and case.listens(service, one.port)
            front = not spoken and one.port not in told and not _is_set(case, service, one.port)
            owner = case.owner(one.pid)
            if not (owner and (both or front)) and not (both and service != case.brief.service):
                yield from _evicting(case, one)
        if spoken and not held and not up:
            yield from _unheard(case, service, told, spoken)


def _is_set(case: Case, service: str, port: int) -> bool:
    """Whether its own settings say that port: what only the check asks may be that of its front."""
    return any(port in values.ports for _, values in case.sources(service))


def _asked(case: Case, service: str) -> list[int]:
    """The port that the check of the alert asks, where that is this service's."""
    check = case.brief.check
    if service != case.brief.service or check is None:
        return []
    return [port for host, port, _ in case.urls(check.command) if host in _LOCAL]


def _unheard(case: Case, service: str, ports: Sequence[int], spoken: str) -> Iterator[Idea]:
    """Nobody listens on it in the usual way: one that takes datagrams has it, or it is the near
    end of somebody's connection."""
    wants = case.missing((_UDP, probes.CONNECTIONS))
    if wants:
        yield Idea("port-conflict", service, f"a port of {service} is taken", 0.61, service,
                   lines(spoken), wants)  # fmt: skip
        return
    for line in f"{case.text(_UDP)}\n{case.text(probes.CONNECTIONS)}".splitlines():
        words, pid = line.split(), re.search(r"pid=(\d{1,9})", line)
        port = words[3].rpartition(":")[2] if len(words) > 4 else ""
        if pid and port.isdigit() and int(port) in ports and int(pid[1]) not in case.pids(service):
            yield from _evicting(case, Held(service, int(port), int(pid[1]), line.strip(), spoken))


def _evicting(case: Case, held: Held) -> Iterator[Idea]:
    owner, process = case.owner(held.pid), case.process(held.pid)
    if not owner:
        yield from _stranger(case, held)
        return
    program = case.programs.get(held.service)
    if not held.spoken and (program is None or program.up):
        return  # it is the other's own port
    evidence = lines(held.line, held.spoken, process.line if process else "")
    if held.line.startswith("ESTAB"):
        yield Idea(
            "port-conflict", held.service,
            f"{held.claim}, as the near end of a connection of {owner}", 0.8, held.locus, evidence,
            (), (case.restart(owner), case.restart(held.service)), "",
            ("keep the ports of services out of net.ipv4.ip_local_port_range",),
        )  # fmt: skip
        return
    yield from _settling(case, held, owner, evidence)
    yield from _site(case, held, owner, evidence)
    yield from _misled(case, held, owner, evidence)
    yield from _surplus(case, held, owner, evidence)


def _stranger(case: Case, held: Held) -> Iterator[Idea]:
    """Nobody looks after it: it is ended, with whatever would start it again."""
    process = case.process(held.pid)
    chain = case.strangers(held.pid, harmful=True)
    if process is None or case.is_of_people(process) or _is_ours(case, process):
        return  # nothing is known of it, somebody works with it, or it was only just started anew
    kept = [at for at, one in enumerate(chain) if KEEPERS.search(one.command)]
    chain = chain[max(kept, default=-1) + 1 :] or [process]
    family = {one.pid for one in chain}
    evidence = lines(held.line, held.spoken, process.line)
    if chain[-1].command.startswith("nginx") and any(
        one.pid in family and one.port != held.port for one in case.listeners
    ):
        yield from _site(case, held, "", evidence)
        return
    line, place, wants = _job(case, held, [one.command for one in chain])
    stop = silenced(line, place) if place else ()
    told = "; ".join(one.command for one in chain)[:120]
    cwd = f"readlink /proc/{held.pid}/cwd"
    told = " in ".join(one for one in (told, case.text(cwd).strip()) if one and one != "/")
    how = "kill -INT" if re.match(r"(?:/\S*/)?postgres\b", told) else "kill"
    yield Idea(
        "port-conflict", held.service,
        f"{held.claim}, which nobody looks after{f' and {place} starts' if place else ''}",
        0.92 if held.spoken else 0.8, f"{held.locus}: {told}{f', {place}' if place else ''}",
        lines(held.line, held.spoken, line, *(one.line for one in chain)),
        (*wants, *case.missing((cwd,))),
        (*stop, f"{how} {' '.join(str(one) for one in sorted(family))}", "sleep 1",
         case.restart(held.service)),
        undo_of(place) if place else f"start process {held.pid} again",
        ("start programs by the supervisor only", "alert on strangers that listen"),
    )  # fmt: skip


def _is_ours(case: Case, process: parse.Process) -> bool:
    """Whether it is young and runs what an entry says."""
    told = [one.command for one in case.definitions.values()]
    return process.age < YOUNG_SECONDS and any(one.endswith(process.command) for one in told)


def _job(case: Case, held: Held, commands: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """The line of a table of jobs that starts one of these, or a script that names the port; the
    table; and what to look at to know."""
    tables = parse.files(case.text(probes.JOBS))
    jobs = [(row, path) for path, rows in tables.items() for row in rows if row.strip()[:1] != "#"]
    words = {word for one in commands for word in one.split() if word.count("/") > 1}
    named = dict.fromkeys(one for row, _ in jobs for one in paths_in(row) if _is_own(one))
    look = f"grep -lsF -- {held.port} {' '.join(shlex.quote(one) for one in named)}"
    words |= set(case.text(look).split()) if named else set()
    fitting = [(row, path) for row, path in jobs if any(word in row.split() for word in words)]
    wants = case.missing((probes.JOBS, *((look,) if named else ())))
    return (*fitting[0], wants) if fitting else ("", "", wants)


def _is_own(path: str) -> bool:
    return not path.startswith((*SYSTEM, "/usr/", "/dev/", "/tmp/"))  # noqa: S108 - of the machine that is looked at


def silenced(line: str, place: str) -> tuple[str, ...]:
    """A line of a table made a remark."""
    name = shlex.quote(place)
    find = f"n=$(grep -nxFm1 -- {shlex.quote(line)} {name} | cut -d: -f1)"
    return (
        keeping(place),
        f'{find}; [ -n "$n" ] && sed -i "${{n}}s/^/# /" {name}',
    )


def _settling(case: Case, held: Held, owner: str, evidence: tuple[str, ...]) -> Iterator[Idea]:
    """One of ours has it: what told it so is put back, or led to the port that is its own."""
    definition = case.definition(owner)
    telling = _telling(case, owner, held.port)
    files = [*telling, *case.configs(owner), *([definition.path] if definition else [])]
    free = _own_port(case, owner, held.service, held.port)
    heard = case.missing(probes.tail(path) for path in case.log_files(owner)[:2])
    for path in dict.fromkeys(files):
        copy = earlier(case, path)
        concerns = any(str(held.port) in one for one in copy.changes)
        mend = put_back(path, copy.path) if copy.path else ()
        sure = 0.85 if concerns else 0.5
        if not concerns and path in telling and free:
            mend, sure = _exchanged(path, held.port, free), 0.8
        yield Idea(
            "port-conflict", held.service, f"{held.claim}, which is {owner}",
            sure if mend else 0.6, f"{held.locus}, {path}", evidence, (*copy.wants, *heard),
            (*mend, *reread(case, owner, path), case.restart(owner), "sleep 1",
             case.restart(held.service)) if mend else (),
            undo_of(path), ("keep a list of who has which port",),
        )  # fmt: skip


def _telling(case: Case, service: str, port: int) -> list[str]:
    return [path for path, values in case.sources(service) if port in values.ports and path]


def _exchanged(path: str, was: int, now: int) -> tuple[str, ...]:
    name = shlex.quote(path)
    return keeping(path), f"sed -i 's/\\b{was}\\b/{now}/g' {name}"


def _site(case: Case, held: Held, owner: str, evidence: tuple[str, ...]) -> Iterator[Idea]:
    """One file of many that a server takes in makes it listen there, and another says that it
    cannot: that one is put aside. Otherwise it is the front by which people come in."""
    words = case.command(owner) if owner else ["nginx"]
    if not held.spoken or not any(PurePosixPath(word).name == "nginx" for word in words):
        return
    patterns = [*(case.includes(owner) if owner else ()), "/etc/nginx/sites-enabled/*"]
    looks = [probes.SITES, *(probes.shown(one) for one in patterns)]
    wants = case.missing(looks)
    texts = dict[str, str]()
    for look in looks:
        found = parse.files(case.text(look))
        texts |= {path: "\n".join(rows) for path, rows in found.items()}
    main = [word for word in words if word.endswith(".conf")]
    sites = [path for path in texts if path not in main and not path.endswith("/nginx.conf")]
    fitting = [
        path for path in sites if {int(one) for one in _SITE.findall(texts[path])} == {held.port}
    ]
    given = "".join(f" -c {shlex.quote(one)}" for one in main[:1])
    for path in fitting[:1]:
        yield Idea(
            "port-conflict", held.service, f"{held.claim}: nginx has it by {path}", 0.9,
            f"{path}, {held.locus}", evidence, wants,
            (put_away(path),
             f"nginx{given} -t && nginx{given} -s reload", "sleep 1", case.restart(held.service)),
            taken_out(path), ("look which ports are taken before a site is enabled",),
        )  # fmt: skip
    if wants and not fitting:
        yield Idea("port-conflict", held.service, f"{held.claim}, which is nginx", 0.6,
                   held.locus, evidence, wants)  # fmt: skip


def _misled(case: Case, held: Held, owner: str, evidence: tuple[str, ...]) -> Iterator[Idea]:
    """The port is the other's: this one was given it, and is looked for elsewhere."""
    service, looked = held.service, _asked(case, held.service)
    looked += [int(port) for port in re.findall(r"(?:\bport |:)(\d{2,5})\b", case.about(service))]
    if held.port in looked or not looked:
        return
    free = next((one for one in looked if one not in {x.port for x in case.listeners}), 0)
    for path in _telling(case, service, held.port):
        copy = earlier(case, path)
        back = copy.path and any(str(held.port) in one for one in copy.changes)
        mend = put_back(path, copy.path) if back else ()
        mend = mend or (_exchanged(path, held.port, free) if free else ())
        yield Idea(
            "port-conflict", service, f"{service} was given port {held.port}, which is {owner}'s",
            0.88 if mend else 0.6, f"{path}, {held.locus}", evidence, copy.wants,
            (*mend, *reread(case, service, path), case.restart(service)) if mend else (),
            undo_of(path), ("keep a list of who has which port",),
        )  # fmt: skip


def _surplus(case: Case, held: Held, owner: str, evidence: tuple[str, ...]) -> Iterator[Idea]:
    """One that should not run took the port, and has no other work: it is stopped."""
    known = [one.name for one in case.brief.services]
    definition, program = case.definition(owner), case.programs[owner]
    others = {one.port for one in case.listeners if one.pid in case.pids(owner)} - {held.port}
    mine = case.definition(held.service)
    if others or definition is None or mine is None:
        return
    starts = [one.settings.get("autostart", "true") for one in (mine, definition)]
    idle = starts == ["true", "false"]
    new = owner not in known and (_is_twin(case, held.service, owner) or _is_new(case, held, owner))
    if not idle and not new:
        return
    name, verb = shlex.quote(program.name), "supervisorctl" if case.supervised else "systemctl"
    yield Idea(
        "port-conflict", held.service, f"{held.claim}, which is {owner}, an entry too many", 0.84,
        f"{definition.path}, {held.locus}", lines(*evidence, program.line),
        case.missing((probes.SUPERVISOR_LOG,)),
        (f"{verb} stop {name}", case.restart(held.service)), f"{verb} start {name}",
        (f"give {owner} a port of its own, or take out its entry {definition.path}",),
    )  # fmt: skip


def _is_twin(case: Case, service: str, owner: str) -> bool:
    """Whether both are started with the same file of a program, which is the one's own."""
    first, second = ([x for x in case.command(one) if CODE.search(x)] for one in (service, owner))
    return bool(first) and first == second and case.owns(service, first[0])


def _is_new(case: Case, held: Held, owner: str) -> bool:
    """Whether it was started for the first time when the other had ended, as far back as the
    supervisor's log goes to its own start."""
    rows = case.text(probes.SUPERVISOR_LOG).splitlines()
    began = [at for at, row in enumerate(rows) if f"spawned: '{owner}'" in row]
    ended = re.compile(rf"(stopped|exited): {re.escape(held.service)} ")
    whole = any("supervisord started" in row for row in rows)
    return whole and len(began) == 1 and any(ended.search(row) for row in rows[: began[0]])


def _own_port(case: Case, owner: str, service: str, taken: int) -> int:
    """The port at which others look for a service, or at which it was before, and nobody
    listens."""
    heard = {one.port for one in case.listeners}
    about = [int(port[0] or port[1]) for port in
             re.findall(r"\bport (\d{2,5})\b|:(\d{2,5})\b", case.about(owner))]  # fmt: skip
    called = [
        target.port
        for one in case.services
        if one != owner
        for target in needed.targets(case, one)
        if target.port
    ]
    before = _former(case, owner, taken)
    free = [port for port in [*about, *called, *before] if port not in heard and port != taken]
    free = [port for port in free if port not in case.ports(service)]
    return free[0] if len(set(free)) == 1 or (about and free and free[0] in about) else 0


def _former(case: Case, owner: str, taken: int) -> list[int]:
    """Ports of which its log speaks as it does of the one that it has now, the last first."""
    said = [_CLOCK.sub(" ", line) for line in case.said_ever(owner, r"\d{2,5}")]
    alike = [found[1] for line in said if (found := re.search(rf"(\D{{3,}}){taken}\b", line))]
    patterns = [_LISTENS, *(re.compile(rf"{re.escape(one)}(\d{{2,5}})\b") for one in alike[:1])]
    met = [found[1] for line in said for one in patterns if (found := one.search(line))]
    return [port for one in dict.fromkeys(met) if (port := int(one)) < 65536]


def reread(case: Case, owner: str, path: str) -> tuple[str, ...]:
    """What makes the supervisor read its entries again, where one was changed."""
    definition = case.definition(owner)
    if not case.supervised or definition is None or definition.path != path:
        return ()
    return ("supervisorctl reread", f"supervisorctl update {shlex.quote(owner)}")


RULES = (port_taken,)
