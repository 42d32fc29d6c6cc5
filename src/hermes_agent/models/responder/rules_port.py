"""Somebody else holds the port."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder import needed
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import (
    Idea,
    earlier,
    kept_as,
    lines,
    put_back,
    undo_of,
)

_TAKEN = (
    r"address (?:is )?already in use|EADDRINUSE|errno 98\b|\(98: |already (?:being )?used by|"
    r"bind(?:ing)?\(?\)? .*fail|(?:cannot|can't|could not|failed to|unable to) (?:bind|listen)|"
    r"port\W+\d+ .*(?:in use|taken|busy|occupied)|only one usage of each socket"
)
_PORT = re.compile(r"(?:port\W{1,3}|:)(\d{2,5})\b")
_LOCAL = ("127.0.0.1", "localhost", "0.0.0.0", "[::1]")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")


def port_taken(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        pids = set(case.pids(service))
        program = case.programs.get(service)
        up = program is not None and program.up
        spoken = next(case.said(service, _TAKEN), "")
        ports = [int(port) for port in _PORT.findall(_CLOCK.sub(" ", spoken))]
        ports += [*case.ports(service), *_asked(case, service)]
        if spoken and not ports:
            ports = [one.port for one in case.listeners if not case.owner(one.pid)]
        for port in dict.fromkeys(ports):
            for holder in case.listeners:
                if holder.port != port or holder.pid in pids or not holder.pid:
                    continue
                both = up and not spoken and case.listens(service, port)
                if both and (case.owner(holder.pid) or service != case.brief.service):
                    continue
                yield from _evicting(case, service, port, holder.pid, holder.line, spoken)


def _asked(case: Case, service: str) -> list[int]:
    """The port that the check of the alert asks, where that is this service's."""
    check = case.brief.check
    if service != case.brief.service or check is None:
        return []
    return [port for host, port, _ in case.urls(check.command) if host in _LOCAL]


def _evicting(
    case: Case, service: str, port: int, pid: int, line: str, spoken: str
) -> Iterator[Idea]:
    owner, process = case.owner(pid), case.process(pid)
    claim = f"port {port} of {service} is held by process {pid}"
    locus = f"port {port}, pid {pid}"
    if not owner:
        chain = case.strangers(pid, harmful=True)
        ended = " ".join(str(one.pid) for one in chain) or str(pid)
        told = "; ".join(one.command for one in chain)[:120] or (process.command if process else "")
        yield Idea(
            "port-conflict", service, f"{claim}, which nobody looks after",
            0.92 if spoken else 0.8, f"{locus}: {told}",
            lines(line, spoken, *(one.line for one in chain), process.line if process else ""), (),
            (f"kill {ended}", "sleep 1", case.restart(service)), f"start process {pid} again",
            ("start programs by the supervisor only", "alert on strangers that listen"),
        )  # fmt: skip
        return
    program = case.programs.get(service)
    if not spoken and (program is None or program.up):
        return  # it is the other's own port
    evidence = lines(line, spoken, process.line if process else "")
    yield from _settling(case, service, owner, port, claim, locus, evidence)


def _settling(
    case: Case, service: str, owner: str, port: int, claim: str, locus: str,
    evidence: tuple[str, ...],
) -> Iterator[Idea]:  # fmt: skip
    """One of ours has it: what told it so is put back, or led to the port that is its own."""
    definition = case.definition(owner)
    telling = [path for path, values in case.sources(owner) if port in values.ports and path]
    files = [*telling, *case.configs(owner), *([definition.path] if definition else [])]
    for path in dict.fromkeys(files):
        copy = earlier(case, path)
        mend = put_back(path, copy.path) if copy.path else ()
        free = _own_port(case, owner, service, port)
        if not mend and path in telling and free:
            name = shlex.quote(path)
            kept = shlex.quote(kept_as(path))
            mend = (f"cp {name} {kept}", f"sed -i 's/\\b{port}\\b/{free}/g' {name}")
        sure = 0.85 if copy.path and any(str(port) in one for one in copy.changes) else 0.8
        yield Idea(
            "port-conflict", service, f"{claim}, which is {owner}", sure if mend else 0.6,
            f"{locus}, {path}", evidence, copy.wants,
            (*mend, *reread(case, owner, path), case.restart(owner), "sleep 1",
             case.restart(service)) if mend else (),
            undo_of(path), ("keep a list of who has which port",),
        )  # fmt: skip


def _own_port(case: Case, owner: str, service: str, taken: int) -> int:
    """The port at which others look for a service, and nobody listens."""
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
    free = [port for port in [*about, *called] if port not in heard and port != taken]
    free = [port for port in free if port not in case.ports(service)]
    return free[0] if len(set(free)) == 1 or (about and free and free[0] in about) else 0


def reread(case: Case, owner: str, path: str) -> tuple[str, ...]:
    """What makes the supervisor read its entries again, where one was changed."""
    definition = case.definition(owner)
    if not case.supervised or definition is None or definition.path != path:
        return ()
    return ("supervisorctl reread", f"supervisorctl update {shlex.quote(owner)}")


RULES = (port_taken,)
