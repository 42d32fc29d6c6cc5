"""Databases: connections that are all taken, and transactions that wait for each other."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.rules import awaited, holders, pool, postgres, prepared
from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.rules.postgres import SOCKETS, Place, Session, psql
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

_TROUBLE = re.compile(
    r"too many (?:clients|connections)|remaining connection slots|connection pool|\bpool\b|"
    r"statement timeout|lock timeout|deadlock|could not obtain lock|canceling statement|"
    r"no free connection|connection is not available|QueuePool|database|postgres|SQLSTATE",
    re.IGNORECASE,
)
_FULL = re.compile(
    r"too many (?:clients|connections)|connection slots|no free connection|\bpool\b|"
    r"connection is not available",
    re.IGNORECASE,
)
_LOCKS = (
    "select coalesce(l.pid, 0), coalesce(a.application_name, 'prepared'), coalesce(a.state, ''), "
    "l.mode, c.relname, coalesce(l.virtualtransaction, '') from pg_locks l join pg_class c on "
    "c.oid = l.relation left join pg_stat_activity a on a.pid = l.pid where l.granted and "
    "c.relkind in ('r', 'p') and c.relnamespace >= 2200 and l.mode not in ('AccessShareLock', "
    "'RowShareLock')"
)
_ALONE = re.compile(
    r"\s*(?:begin;\s*)?(?:alter|drop|truncate|lock table|reindex|vacuum full|cluster"
    r"|refresh materialized)\b",
    re.IGNORECASE,
)
"""Statements that want a table for themselves: all who come later wait behind them."""
IDLE_SECONDS = 5
"""How long one does nothing for whom nobody waits, at least."""
_LATE = re.compile(r"timed? ?out|too slow|slow|deadline|\b504\b|took \d", re.IGNORECASE)


def database(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        spoken = next((line for line in case.troubles(service) if _TROUBLE.search(line)), "")
        if not spoken and service != case.brief.service:
            continue
        places = postgres.places(case)
        if spoken and not places and any("postgres" in one.command for one in case.processes):
            yield Idea(
                "database-lock", service, "the database may be asked through a socket", 0.6,
                service, lines(spoken), case.missing((SOCKETS,)),
            )  # fmt: skip
        for place in places:
            wants, answer, user = postgres.asked(case, place)
            if wants:
                yield Idea(
                    "database-lock", service, "a transaction may hold what others wait for",
                    0.45 + 0.2 * bool(spoken), f"port {place[1]}", lines(spoken), wants,
                )  # fmt: skip
                continue
            sessions = list(postgres.sessions(answer))
            late = spoken or (case.symptom if _LATE.search(case.symptom) else "")
            late = late or next((x for x in case.troubles(service) if _LATE.search(x)), "")
            watch = postgres.watching(case, place, user)
            held = any(one.waits_for for one in sessions)
            held = held and not any(one.event.startswith("IPC:") for one in sessions)
            if late and user and not held:
                yield Idea(
                    "database-lock", service, "somebody may wait there, now and then", 0.6,
                    f"port {place[1]}", lines(late), case.missing((watch,)),
                )  # fmt: skip
                sessions = _together(sessions, postgres.meanwhile(case.text(watch)))
            if spoken:
                yield from _limited(case, service, place, user, sessions, spoken)
                busy = {str(one.pid) for one in sessions if holders.is_at_work(case, place, one)}
                yield from _holding(case, service, place, user, spoken, busy)
                alone = not any(pid for one in sessions for pid in one.waits_for)
                own = case.database_of(place[1]) or service
                yield from prepared.undecided(case, own, place, user, spoken, alone)
            yield from _blocked(case, service, place, user, sessions, spoken)
            yield from _crowded(case, service, place, user, sessions, spoken)


def _together(first: list[Session], later: list[list[Session]]) -> list[Session]:
    """All that were seen; of each, when it waited."""
    found = {one.pid: one for one in first}
    for one in (each for look in later for each in look):
        if one.waits_for or one.pid not in found:
            found[one.pid] = one
    return list(found.values())


def _blocked(
    case: Case, service: str, place: Place, user: str,
    sessions: list[Session], spoken: str,
) -> Iterator[Idea]:  # fmt: skip
    """The transaction at the root of those that wait."""
    waiting = [one for one in sessions if one.waits_for]
    known = {one.pid: one for one in sessions}
    holding = {pid for one in waiting for pid in one.waits_for}
    roots = [known[pid] for pid in holding if pid in known and not known[pid].waits_for]
    if not waiting:
        roots = [
            one for one in sessions
            if one.state.startswith("idle in transaction") and one.seconds >= IDLE_SECONDS
        ]  # fmt: skip
    roots = [one for one in roots if not one.event.startswith("IPC:")]  # it waits elsewhere
    doubtful = not waiting and bool(case.text(postgres.watching(case, place, user)))
    yield from _queued(case, service, place, user, waiting, roots, spoken)
    for root in sorted(roots, key=lambda one: -one.seconds):
        idle = not holders.is_at_work(case, place, root)
        end = f"select pg_terminate_backend({root.pid})"
        ends = idle and holders.may_end(case, root.name)
        wants = () if idle else case.missing((probes.CONNECTIONS,))
        table = re.search(r"\b(?:update|from|into|table)\s+([\w.\"]+)", root.query, re.IGNORECASE)
        yield Idea(
            "database-lock", case.database_of(place[1]) or service,
            f"transaction of process {root.pid} ({root.name or root.user}, {root.state}) holds "
            f"{table[1] if table else 'what'} that {len(waiting)} wait for",
            0.7 + 0.15 * bool(waiting) + 0.05 * idle + 0.05 * bool(spoken) - 0.2 * doubtful,
            f"pid {root.pid}, {root.name or root.user}" + (f", table {table[1]}" if table else ""),
            lines(root.line, waiting[0].line if waiting else "", spoken),
            wants or holders.unseen(case, place, root),
            (psql(place, end, user),) if ends else (), "its client begins the transaction again",
            ("set idle_in_transaction_session_timeout", "alert on transactions over a minute"),
            holders.gone(place, user, root, clocked=holders.is_clocked(case, place, root),
                         calls=holders.calls(case, place, root)),
        )  # fmt: skip
        yield from holders.waits(case, place, user, root, waiting, spoken)
        if ends:
            yield from holders.behind(case, place, user, root, len(waiting), spoken)
        known_one = root.name in case.programs and ends
        if known_one and root.name != case.database_of(place[1]):
            yield Idea(
                "database-lock", root.name, f"{root.name} takes a lock and keeps it", 0.64,
                f"{root.name}, pid {root.pid}", lines(root.line, spoken), (),
                (case.restart(root.name),), "", ("end transactions soon",),
            )  # fmt: skip


def _queued(
    case: Case, service: str, place: Place, user: str,
    waiting: list[Session], roots: list[Session], spoken: str,
) -> Iterator[Idea]:  # fmt: skip
    """Who waits for somebody at work, and has others wait behind it: it has done nothing yet, so
    that it may stop waiting; whoever works goes on."""
    at_work = {one.pid for one in roots if one.state == "active"}
    behind = {pid for one in waiting for pid in one.waits_for}
    for one in waiting:
        alone = bool(spoken) and _ALONE.match(one.query) is not None
        waited_for = one.pid in behind or alone
        if not waited_for or not at_work & set(one.waits_for):
            continue
        stop = f"select pg_cancel_backend({one.pid})"
        yield Idea(
            "database-lock", case.database_of(place[1]) or service,
            f"process {one.pid} ({one.name or one.user}) waits for one at work, and others wait "
            "behind it",
            0.96, f"pid {one.pid}", lines(one.line, spoken), (), (psql(place, stop, user),),
            "its client asks again", ("set lock_timeout for changes of tables",),
        )  # fmt: skip


def _holding(
    case: Case, service: str, place: Place, user: str, spoken: str, busy: set[str]
) -> Iterator[Idea]:
    """Strong locks that somebody has."""
    held = psql(place, _LOCKS, user)
    component = case.database_of(place[1]) or service
    if wants := case.missing((held,)):
        yield Idea("database-lock", component, "somebody may hold a table", 0.6, f"port {place[1]}",
                   lines(spoken), wants)  # fmt: skip
        return
    prevent = ("set idle_in_transaction_session_timeout", "alert on transactions over a minute")
    strong = [row for row in parse.table(case.text(held)) if len(row) == 6 and row[0].isdigit()]
    strong = [row for row in strong if row[0] != "0" and "Exclusive" in row[3]]
    for row in strong:
        hard = row[3] in ("AccessExclusiveLock", "ExclusiveLock", "ShareRowExclusiveLock")
        works = not hard and not row[2].startswith("idle in transaction")
        if works or row[0] in busy or not holders.may_end(case, row[1]):
            continue
        end = f"select pg_terminate_backend({row[0]})"
        yield Idea(
            "database-lock", component,
            f"process {row[0]} ({row[1]}) holds {row[3]} on {row[4]}", 0.8 if hard else 0.62,
            f"pid {row[0]}, table {row[4]}", lines("|".join(row), spoken), (),
            (psql(place, end, user),), "its client begins the transaction again", prevent,
        )  # fmt: skip


def _limited(
    case: Case, service: str, place: Place, user: str,
    sessions: list[Session], spoken: str,
) -> Iterator[Idea]:  # fmt: skip
    """A role that has all the connections that it may have. What does nothing is ended; how many
    it may have is for people to say."""
    limit = re.search(r"too many connections for (role|database) \\?\"(\w+)\\?\"", spoken)
    if not limit:
        return
    kind, name = limit[1], limit[2]
    idle = [one for one in sessions if one.state.startswith("idle")]
    idle = [one for one in idle if one.user == name] if kind == "role" else idle
    whose = f"{'usename' if kind == 'role' else 'datname'} = '{name}'"
    end = (
        f"select count(pg_terminate_backend(pid)) from pg_stat_activity where {whose} and "
        "state like 'idle%' and pid <> pg_backend_pid()"
    )
    yield Idea(
        "pool-exhausted", case.database_of(place[1]) or service,
        f"{kind} {name} has all its connections, and nothing is done with {len(idle)} of them",
        0.9 if idle else 0.7, f"{kind} {name}" + (f", pid {idle[0].pid}" if idle else ""),
        lines(spoken, *(one.line for one in idle[:2])), (),
        (psql(place, end, user),) if idle else (), "its clients connect again",
        ("size limits of roles by the pools of their clients", "give connections back"),
        holders.fewer(place, user, whose, len(idle)) if idle else "",
    )  # fmt: skip


def _crowded(
    case: Case, service: str, place: Place, user: str,
    sessions: list[Session], spoken: str,
) -> Iterator[Idea]:  # fmt: skip
    """Who has the most connections, and does nothing with them."""
    if not _FULL.search(spoken):
        return
    yield from _waiting(case, place, user, sessions, spoken)
    idle: dict[str, list[Session]] = {}
    for one in sessions:
        if one.state.startswith("idle"):
            idle.setdefault(one.name or one.user, []).append(one)
    if not idle:
        return
    name, most = max(idle.items(), key=lambda item: len(item[1]))
    if not re.fullmatch(r"[\w .:@/-]+", name):
        return  # it goes into a query
    culprit = name if name in case.services else holders.owner(case, place, most)
    if culprit:
        yield from pool.resized(case, culprit, spoken, most[0].line)
    condition = "application_name" if most[0].name else "usename"
    end = (
        f"select count(pg_terminate_backend(pid)) from pg_stat_activity where {condition} = "
        f"'{name}' and state like 'idle%' and pid <> pg_backend_pid()"
    )
    twin = pool.given_up(case, culprit) if culprit else ""
    fix = case.restart(culprit) if culprit else psql(place, end, user)
    fix = pool.stopped(case, culprit) if twin else fix
    also = f", since {twin} took its place" if twin else ""
    yield Idea(
        "pool-exhausted", culprit or name or service,
        f"{name} holds {len(most)} of {len(sessions)} connections and does nothing with them{also}",
        0.65 + 0.2 * (len(most) * 2 >= len(sessions)) + 0.1 * bool(twin),
        f"{name}, pid {most[0].pid}",
        lines(spoken, most[0].line), pool.unseen(case, culprit) if culprit else (), (fix,),
        fix.replace(" stop ", " start ") if twin else "its client connects again",
        ("give connections back", "limit the connections of each role", "alert on their number"),
        holders.fewer(place, user, f"{condition} = '{name}'", len(most)),
    )  # fmt: skip


def _waiting(
    case: Case, place: Place, user: str, sessions: list[Session], spoken: str
) -> Iterator[Idea]:
    """Whoever has the most connections may wait for somebody else."""
    named = dict[str, list[Session]]()
    for one in sessions:
        named.setdefault(one.name or one.user, []).append(one)
    most = max(named.values(), key=len, default=[])
    if len(most) < awaited.LEAST:
        return
    if wants := case.missing((probes.CONNECTIONS,)):
        yield Idea("pool-exhausted", case.brief.service, "those connected may wait for another",
                   0.6, f"port {place[1]}", lines(spoken, most[0].line), wants)  # fmt: skip
        return
    name = postgres.literal(most[0].name or most[0].user)
    whose = f"{'application_name' if most[0].name else 'usename'} = {name}"
    proof = holders.fewer(place, user, whose, len(most))
    pids = [holders.client(case, place, one) for one in most]
    yield from awaited.kept_waiting(case, pids, place[1], len(most), spoken, proof)


RULES = (database,)
