"""What waits: proposals for a person's word, chores for a runtime; and counters."""

from collections.abc import Mapping
from typing import Any

import apsw
import msgspec

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import BackgroundTask, Proposal
from hermes_agent.store.engine.database import rows

_PROPOSAL = "select id, kind, title, body, evidence, time, model, state, by from proposals "
_DECISIONS = ("accepted", "rejected")


def _encoded(body: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(body)).decode()


def _proposal(row: tuple[Any, ...]) -> Proposal:
    return Proposal(*[*row[:3], msgspec.json.decode(row[3]), *row[4:]])


def propose(
    db: apsw.Connection,
    kind: str,
    title: str,
    body: Mapping[str, Any],
    evidence: str,
    now: float,
    model: str,
) -> Proposal:
    db.execute(
        "insert into proposals (kind, title, body, evidence, time, model) "
        "values (?, ?, ?, ?, ?, ?)",
        (kind, title, _encoded(body), evidence, now, model),
    )
    return proposal(db, db.last_insert_rowid())


def proposal(db: apsw.Connection, id: int) -> Proposal:
    found = rows(db, _PROPOSAL + "where id = ?", (id,))
    if not found:
        raise NotFound(f"no proposal {id}", "`hermes proposals list` shows them")
    return _proposal(found[0])


def proposals(db: apsw.Connection, state: str) -> list[Proposal]:
    ask = _PROPOSAL + "where ?1 = '' or state = ?1 order by id"
    return [_proposal(row) for row in rows(db, ask, (state,))]


def decide(db: apsw.Connection, id: int, state: str, by: str) -> Proposal:
    if state not in _DECISIONS:
        raise UsageError(f"a proposal cannot become {state!r}", f"one of: {', '.join(_DECISIONS)}")
    before = proposal(db, id)
    if before.state != "open":
        raise UsageError(
            f"proposal {id} was {before.state} by {before.by}",
            "`hermes proposals list` shows what is open",
        )
    db.execute("update proposals set state = ?, by = ? where id = ?", (state, by, id))
    return proposal(db, id)


def reopen(db: apsw.Connection, id: int) -> None:
    db.execute("update proposals set state = 'open', by = '' where id = ?", (id,))


def want(db: apsw.Connection, chore: BackgroundTask) -> bool:
    before = db.total_changes()
    db.execute(
        "insert or ignore into tasks (key, kind, body, due, tries, state, result) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        (
            chore.key, chore.kind, _encoded(chore.body), chore.due, chore.tries, chore.state,
            chore.result,
        ),
    )  # fmt: skip
    return db.total_changes() > before


def chores(db: apsw.Connection, now: float) -> list[BackgroundTask]:
    found = rows(
        db,
        "select key, kind, body, due, tries, state, result from tasks "
        "where state = 'due' and due <= ? order by due, rowid",
        (now,),
    )
    return [BackgroundTask(*[*row[:2], msgspec.json.decode(row[2]), *row[3:]]) for row in found]


def given_up(db: apsw.Connection, since: float) -> list[BackgroundTask]:
    found = rows(
        db,
        "select key, kind, body, due, tries, state, result from tasks "
        "where state = 'given-up' and due >= ? order by due desc limit 20",
        (since,),
    )
    return [BackgroundTask(*[*row[:2], msgspec.json.decode(row[2]), *row[3:]]) for row in found]


def drop(db: apsw.Connection, key: str) -> None:
    db.execute("delete from tasks where key = ?", (key,))


def forget(db: apsw.Connection, before: float) -> None:
    db.execute("delete from tasks where state <> 'due' and due < ?", (before,))


def postpone(db: apsw.Connection, key: str, until: float, why: str, tried: bool) -> None:
    """One that went with its session stays gone, and one that is closed stays closed."""
    db.execute(
        "update tasks set due = ?, tries = tries + ?, result = ? where key = ? and state = 'due'",
        (until, tried, why, key),
    )


def close(db: apsw.Connection, key: str, state: str, result: str) -> None:
    db.execute("update tasks set state = ?, result = ? where key = ?", (state, result, key))


def count(db: apsw.Connection, name: str, add: int) -> int:
    found: int = db.execute(
        "insert into counters values (?, ?) on conflict (name) do update "
        "set value = value + excluded.value returning value",
        (name, add),
    ).get
    return found


def counted(db: apsw.Connection, name: str) -> int:
    found = rows(db, "select value from counters where name = ?", (name,))
    return int(found[0][0]) if found else 0
