"""Whoever is behind a session of a database: a session that was ended is begun again as long as
its client goes on."""

import re
import shlex
from collections.abc import Iterator, Sequence

from hermes_agent.models.responder.rules import awaited
from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.rules.postgres import Place, Session, literal, psql
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import KEEPERS, Case

AGAIN = 3
"""Seconds by which a client is older than its transaction where it is not its first."""
WAIT = 5
"""After so many seconds it is looked whether a session was begun again."""
_SAME = "left(regexp_replace(query, '\\s+', ' ', 'g'), 160)"
_NO = re.compile(r"(?i)false|no|off|0|never")
_LEFT_ALONE = re.compile(
    r"(?:must|may|should) (?:not|never)|do not|don't|never|\bnot to be\b", re.IGNORECASE
)
PREVENT = ("let jobs work in small steps, with a lock_timeout", "let jobs give up after a while")


def _alike(session: Session) -> str:
    """What a statement finds it by, and others that its client began since."""
    return (
        f"application_name = {literal(session.name)} and usename = {literal(session.user)} and "
        f"{_SAME} = {literal(session.query)}"
    )


def gone(
    place: Place, user: str, session: Session, *, clocked: bool = False, calls: bool = False
) -> str:
    """A look that fails where the same is begun again by somebody of the same name; what is begun
    by the clock may be so with the next minute. Who `calls` somebody else while it holds a lock
    must be back, too: it may not even have noticed that its session was ended."""
    busy = "" if session.state == "idle" else "and state <> 'idle' "
    count = (
        f"select count(*) from pg_stat_activity where {_alike(session)} {busy}and "
        "now() - coalesce(xact_start, state_change) > interval '1 second'"
    )
    wait = f"$((65 + {WAIT} - $(date +%-S)))" if clocked else str(WAIT)
    ended = f'sleep {wait}; test "$({psql(place, count, user)})" = 0'
    if not calls:
        return ended
    own = f"application_name = {literal(session.name)} and usename = {literal(session.user)}"
    back = psql(place, f"select count(*) from pg_stat_activity where {own}", user)
    return f'{ended} && test "$({back})" != 0'


def is_clocked(case: Case, place: Place, session: Session) -> bool:
    """Whether a scheduler began whoever asks."""
    pid = client(case, place, session)
    chain = case.strangers(pid, harmful=True)
    above = case.process(chain[0].parent) if chain else None
    return above is not None and KEEPERS.search(above.command) is not None and above.pid != 1


def client(case: Case, place: Place, session: Session) -> int:
    """The process that asks, where it is on this machine and connected by a port."""
    mine = re.compile(rf":{re.escape(session.port)}\s+\S*:{place[1]}\s.*?pid=(\d{{1,9}})")
    for line in case.text(probes.CONNECTIONS).splitlines():
        if session.port.isdigit() and (found := mine.search(line)):
            return int(found[1])
    return 0


def _pid(case: Case, place: Place, session: Session) -> int:
    """The process of whoever began a transaction and does nothing in it now."""
    if not session.state.startswith("idle in transaction"):
        return 0
    program = case.programs.get(session.name)
    return client(case, place, session) or (program.pid if program is not None else 0)


def unseen(case: Case, place: Place, session: Session) -> tuple[str, ...]:
    """Looks at what a service may wait for while it holds a lock and does nothing."""
    idle = session.state.startswith("idle in transaction")
    if idle and (session.port.isdigit() or session.name in case.programs):
        return awaited.unseen(case, _pid(case, place, session), place[1])
    return ()


def calls(case: Case, place: Place, session: Session) -> bool:
    """Whether a service asks another one while it holds a lock."""
    pid = _pid(case, place, session)
    return bool(pid and _of(case, pid) and awaited.asks(case, pid, place[1]))


def waits(
    case: Case, place: Place, user: str, root: Session, waiting: Sequence[Session], spoken: str
) -> Iterator[Idea]:
    """It waits itself for somebody who does not answer."""
    if pid := _pid(case, place, root):
        held = f"{root.name or root.user} holds what {len(waiting)} wait for"
        evidence = (root.line, waiting[0].line if waiting else "", spoken)
        proof = gone(place, user, root, calls=True)
        yield from awaited.while_it_holds(case, pid, place[1], held, evidence, proof)


def owner(case: Case, place: Place, found: Sequence[Session]) -> str:
    """The service that most of these sessions are of, whatever they call themselves."""
    owners = [_of(case, client(case, place, one)) for one in found]
    name = max(owners, key=owners.count, default="")
    return name if owners.count(name) * 2 > len(owners) else ""


def _of(case: Case, pid: int) -> str:
    """The service that looks after a process; what a scheduler began is nobody's."""
    return "" if case.strangers(pid, harmful=True) else case.owner(pid)


def fewer(place: Place, user: str, whose: str, before: int) -> str:
    """A look that fails where as many idle sessions are there again as before."""
    count = (
        f"select count(*) from pg_stat_activity where {whose} and state like 'idle%' and "
        "pid <> pg_backend_pid()"
    )
    return f'sleep {WAIT}; test "$({psql(place, count, user)})" -lt {max(1, before * 4 // 5)}'


def behind(
    case: Case, place: Place, user: str, root: Session, waiting: int, spoken: str
) -> Iterator[Idea]:
    """Stop whoever begins it again: a job that somebody started by hand, or a loop that nobody
    looks after. What is to run all the time is not stopped."""
    pid = client(case, place, root)
    known = root.name in case.programs and case.process(pid) is None  # it may call itself so
    program = root.name if known else _of(case, pid)
    if not program and not pid and waiting and (wants := case.missing((probes.CONNECTIONS,))):
        yield Idea("database-lock", case.brief.service, "who holds it may begin it again", 0.6,
                   f"pid {root.pid}", lines(root.line), wants)  # fmt: skip
    again, stop, shown, undo = False, "", "", ""
    main = case.process(case.programs[program].pid) if program in case.programs else None
    if main is not None and is_job(case, program):
        again, shown = is_older(main, root), main.line
        stop = f"supervisorctl stop {shlex.quote(case.programs[program].name)}"
        undo = stop.replace(" stop ", " start ")
    elif not program and (chain := case.strangers(pid, harmful=True))[1:]:
        again, shown = is_older(chain[0], root), chain[0].line
        stop, undo = f"kill {chain[0].pid}", "it was started by hand: start it again"
    if not stop or not (again or program):
        return
    end = f"select pg_terminate_backend(pid) from pg_stat_activity where {_alike(root)}"
    yield Idea(
        "database-lock", program or case.database_of(place[1]) or case.brief.service,
        f"{program or shown.split(maxsplit=8)[-1][:60]} begins a transaction again that holds what "
        f"{waiting} wait for",
        0.97 if again else 0.62, f"{program or root.name}, pid {root.pid}",
        lines(root.line, shown, spoken), (), (stop, "sleep 1", psql(place, end, user)), undo,
        PREVENT, gone(place, user, root),
    )  # fmt: skip


def is_job(case: Case, service: str) -> bool:
    """Whether it is not to run all the time, and nobody needs it who is in trouble."""
    definition, own = case.definition(service), case.brief.service
    if definition is None or not case.supervised or service in (own, *case.needs(own)):
        return False
    if not may_end(case, service):
        return False
    told = [definition.settings.get(key, "") for key in ("autostart", "autorestart")]
    return any(_NO.fullmatch(one.strip()) for one in told)


def may_end(case: Case, name: str) -> bool:
    """Whether nobody wrote down that its work must not be ended."""
    return name not in case.services or _LEFT_ALONE.search(case.about(name)) is None


def is_at_work(case: Case, place: Place, session: Session) -> bool:
    """Whether it does something right now for somebody: that may be their work, and is not ended
    for them. Who waits for the clock does not, nor whose client is gone or halted."""
    if session.state != "active" or session.event.startswith("Timeout:"):
        return False
    asks = case.process(client(case, place, session))
    left = rf"(?m)^CLOSE-WAIT\s.*:{place[1]}\s+\S*:{re.escape(session.port)}\s"
    gone = re.search(left, case.text(probes.CONNECTIONS)) is not None
    return not gone and not (asks is not None and asks.state.startswith("T"))


def is_older(process: parse.Process, root: Session) -> bool:
    return process.age > root.seconds + AGAIN
