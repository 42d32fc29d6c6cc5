"""Processes that take too much of the processor, and those who ask without end."""

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hermes_agent.models.responder.rules import hoards, pieces, room, strays
from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import CROWD, Case
from hermes_agent.models.responder.view.settings import is_config

BUSY_PERCENT = 15.0
"""Of a core; on a machine that many fight for, nobody gets more."""
_TAKES = re.compile(r"(\d{1,9}) takes ([\d.]+) % .*? and ([\d.]+) % .*?(\d) times of 8")
READY = 6
"""Of eight looks: who is ready to run as often takes all that it can get, be it little."""
EAGER_PERCENT = 50.0
"""Of a core, from which on somebody takes what others need."""
GIVES_WAY = 10
"""From this on a process is meant to work only while nobody else wants to."""
_LOAD = re.compile(r"\bbusy|\bcpu|processor|\bload\b|\bcores?\b", re.IGNORECASE)
LONG = re.compile(
    r"interrupt|batch|night|hours?\b|days?\b|month|year|long|heavy|until|busy", re.IGNORECASE
)
"""What is said of work that takes its time by right."""
_SUFFERS = r"time[ds]?.?out|slow|took|late|latency|busy|overload|too long|not in time|\bafter \d"
"""What is said where there is not enough of the processor."""
_BUSY = (
    r"too many|busy|overload|timed? ?out|\b(?:429|503|504)\b|rate.?limit|slots?\b|queue is full"
    r"|no free|all (?:workers|threads|connections)|at a time|backlog|throttl|try again later"
)
_CHANGES = re.compile(r"(?:\)|\[local\]) (?:ALTER|CREATE|REINDEX|VACUUM|CLUSTER|COPY|REFRESH|UPDATE"
                      r"|INSERT|DELETE|MERGE)\b")  # fmt: skip
"""What a process of a database is called that changes or copies what is in it."""
_BACKEND = re.compile(
    r"postgres: (?:\d+/\w+: )?(?!.*(?:autovacuum|walwriter|checkpointer|writer|launcher"
    r"|archiver|walsender|startup|receiver|logger|collector))\S+ \S+ (\S+?)(?:\((\d+)\))? "
)
"""A process of PostgreSQL that works for somebody: from where, and by which port."""


def runaway(case: Case) -> Iterator[Idea]:
    """Somebody eats the processor: a stranger, or a worker of the service that is stuck. Where the
    service itself does not run, that is not why."""
    own = case.programs.get(case.brief.service)
    if own is not None and not case.pids(case.brief.service):
        return
    wants = case.missing((probes.BURN,))
    if wants:
        yield Idea("runaway-process", case.brief.service, "somebody may eat the processor", 0.4,
                   case.brief.service, (), wants)  # fmt: skip
    for process in _hot(case)[:6]:
        share, line = _now(case, process.pid)
        eager = share >= EAGER_PERCENT or _times_ready(line) >= READY
        harmful = eager and process.nice < GIVES_WAY and _is_about_load(case)
        owner, chain = case.owner(process.pid), case.strangers(process.pid, harmful=harmful)
        evidence = lines(process.line, line)
        told = f"process {process.pid} ({process.command[:60]}) eats {share:.0f} % of a core"
        if chain:
            suffers = re.search(_SUFFERS, case.symptom, re.IGNORECASE) is not None
            speaks = eager or suffers or _is_at(case, chain)
            yield Idea(
                "runaway-process", case.brief.service, f"{told}, and nobody looks after it",
                0.68 if line and speaks else 0.5, f"pid {process.pid}: {process.command[:80]}",
                evidence, wants, strays.ended(chain) if speaks else (),
                "it was started by hand: start it again",
                ("limit the processor of batch work", "alert on processes without a supervisor"),
            )  # fmt: skip
        elif found := _BACKEND.match(process.command):
            yield from _asking(case, owner, process, told, evidence, found[2] or "")
        elif owner and (_is_related(case, owner) or (harmful and _is_alone(case, process))):
            yield from _stuck(case, owner, process, told, evidence, wants)


def _is_about_load(case: Case) -> bool:
    """Whether it is the machine that is too busy, not one of its services that fails."""
    check = case.brief.check
    said = f"{check.name} {check.command} {case.symptom}" if check is not None else ""
    return case.brief.service not in case.programs and _LOAD.search(said) is not None


def _is_alone(case: Case, process: parse.Process) -> bool:
    """Whether nobody else takes all that it can get, and people do not say that it works long."""
    shown = map(_TAKES.match, case.text(probes.BURN).splitlines())
    rows = [row for row in shown if row and int(row[4]) >= READY]
    others = [case.process(int(row[1])) for row in rows if int(row[1]) != process.pid]
    about = case.about(case.owner(process.pid))
    return LONG.search(about) is None and not [
        one for one in others if one is not None and one.nice < GIVES_WAY
    ]


def _is_at(case: Case, chain: Sequence[parse.Process]) -> bool:
    """Whether somebody works with what the service of the alert has: its files or its ports."""
    own = case.brief.service
    places = [one for one in case.named(own) if one.count("/") > 1]
    ids = {one.pid for one in chain}
    asked = {pid for port in case.ports(own) for pid, _, _ in case.crowd(port, 1)}
    files = [path for pid in ids for path, _ in case.held.get(pid, [])]
    files += [path for one in chain for path in parse.paths_in(one.command)]
    return bool(ids & asked) or any(room.on(path, one) for path in files for one in places)


def _times_ready(line: str) -> int:
    found = _TAKES.match(line)
    return int(found[4]) if found else 0


def _hot(case: Case) -> list[parse.Process]:
    """Processes that are busy: right now where that was looked at, else as far as is known."""
    if case.look(probes.BURN) is not None:
        shares = {one.pid: _now(case, one.pid)[0] for one in case.processes}
        found = [one for one in case.processes if shares[one.pid] >= BUSY_PERCENT]
        return sorted(found, key=lambda one: -shares[one.pid])
    return [
        one
        for one in case.processes
        if one.cpu >= BUSY_PERCENT or (one.state[:1] == "R" and one.cpu >= BUSY_PERCENT / 4)
    ]


def _asking(
    case: Case, owner: str, process: parse.Process, told: str, evidence: tuple[str, ...], port: str
) -> Iterator[Idea]:
    """A query that does not come to an end: it is given up, and whoever asks it is ended where
    nobody looks after that one. The database itself goes on, and so does what changes it."""
    if _CHANGES.search(process.command):
        return
    wants = case.missing((probes.CLIENTS,))
    row = rf":{port}\s.*pid=(\d{{1,9}})" if port else r"(?!)"
    rows = re.finditer(row, case.text(probes.CLIENTS))
    asking = next((int(one[1]) for one in rows if int(one[1]) != process.pid), 0)
    chain = case.strangers(asking, harmful=True) if asking else []
    score = 0.7 if _is_related(case, owner) else 0.6
    prevent = ("set statement_timeout", "alert on queries that run for minutes")
    if chain:
        yield Idea(
            "runaway-process", owner, f"{told}, for process {asking} ({chain[-1].command[:60]}), "
            "which nobody looks after", score + 0.1, f"pid {asking}: {chain[-1].command[:80]}",
            (*evidence[:2], *lines(chain[-1].line)), wants,
            (*strays.ended(chain), f"kill -INT {process.pid}"),
            "it was started by hand: start it again", prevent,
        )  # fmt: skip
    for at, signal in enumerate(("INT", "TERM")):
        yield Idea(
            "runaway-process", owner, f"{told}, on one query", score - 0.03 * at,
            f"pid {process.pid}: {process.command[:80]}", evidence, wants,
            (f"kill -{signal} {process.pid}",), "whoever asked may ask again", prevent,
        )  # fmt: skip


def _is_related(case: Case, owner: str) -> bool:
    """Whether a program works for the service of the alert: by its name, or by what they share."""
    service = case.brief.service
    if owner == service or service in owner or owner in case.needs(service):
        return True
    if case.brief.check is not None:
        asked = parse.paths_in(case.brief.check.command)
        if any(path.startswith(one) for path in asked for one in case.named(owner)):
            return True
    mine, its = ({v for v in case.settings(one).values() if "/" in v} for one in (service, owner))
    return any(a.startswith(b) or b.startswith(a) for a in mine for b in its)


def _stuck(
    case: Case, owner: str, process: parse.Process, told: str, evidence: tuple[str, ...],
    wants: tuple[str, ...],
) -> Iterator[Idea]:  # fmt: skip
    """A worker that spins: on one piece of work, which is set aside, or because it makes no pause
    any more; it is started anew."""
    prevent = ("give each piece of work a limit of time", "set aside what fails repeatedly")
    wants += pieces.wants(case, owner, process.pid)
    known = Idea(
        "runaway-process", owner, told, 0.62, f"pid {process.pid}: {process.command[:80]}",
        (*evidence[:2], *lines(*[line for _, line in case.log(owner)][-1:])), wants,
        (case.restart(owner),), "", prevent,
    )  # fmt: skip
    yield known
    yield from since_changed(case, replace(known, wants=()), owner)
    for edit in hoards.pauses(case, owner):
        yield replace(
            known, score=0.66, locus=edit.path, claim=f"{told}: {edit.key} is {edit.value}",
            evidence=(*evidence[:1], *lines(line_of(case, edit.path, edit.key))),
            fix=(*edit.fix, *anew(case, owner, edit.path)), undo=edit.undo,
            prevent=("refuse a pause of nothing",),
        )  # fmt: skip
    for piece in pieces.at_work(case, owner, process):
        yield replace(
            known, score=0.62 + piece.sure, claim=f"{told} on {piece.path}: {piece.why}",
            locus=f"pid {process.pid}: {piece.path}",
            evidence=(*evidence[:2], *lines(piece.line)),
            fix=(*room.aside([piece.path]), case.restart(owner)), undo=room.back([piece.path]),
        )  # fmt: skip


def line_of(case: Case, path: str, key: str) -> str:
    """How a key stands in a file."""
    name = re.sub(r"\\?[-_]", "[-_]", re.escape(key))
    rows = case.content(path).splitlines()
    definition = next((one for one in case.definitions.values() if one.path == path), None)
    rows += [f"{key}={value}" for key, value in definition.settings.items()] if definition else []
    return next((row for row in rows if re.search(name, row, re.IGNORECASE)), "")


def _now(case: Case, pid: int) -> tuple[float, str]:
    """The share of a core that a process takes right now, what it started with it, and the line
    that shows it; as it was over its life where nobody looked."""
    for line in case.text(probes.BURN).splitlines():
        if (found := _TAKES.match(line)) and int(found[1]) == pid:
            share = parse.number(found[2]) + parse.number(found[3])
            return (max(share, BUSY_PERCENT) if int(found[4]) >= READY else share), line
    process = case.process(pid)
    return (process.cpu if process and case.look(probes.BURN) is None else 0.0), ""


def anew(case: Case, service: str, path: str) -> tuple[str, ...]:
    """What it takes until a service heeds a file."""
    definition = case.definition(service)
    if definition is not None and path == definition.path and case.supervised:
        update = f"supervisorctl update {shlex.quote(service)}"
        return ("supervisorctl reread", update, case.restart(service))
    return (case.restart(service),)


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
            starts = (*anew(case, service, path), *(case.restart(one) for one in others))
            yield replace(
                known, score=min(0.96, known.score + 0.08), locus=path,
                claim=f"{known.claim}, since {path} was changed",
                evidence=(*known.evidence[:2], *lines(copy.change)),
                fix=(*put_back(path, copy.path), *starts), undo=undo_of(path),
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
