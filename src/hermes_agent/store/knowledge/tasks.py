"""Proposals that wait for a decision, background tasks, and counters."""

from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import BackgroundTask, Proposal
from hermes_agent.store.engine.connection import Connection

_PROPOSAL = "select id, kind, title, body, evidence, time, model, state, by from proposals "
_DECISIONS = ("accepted", "rejected")


def _encoded(body: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(body)).decode()


def _decoded(row: tuple[Any, ...]) -> Proposal:
    return Proposal(*[*row[:3], msgspec.json.decode(row[3]), *row[4:]])


def propose(
    db: Connection,
    kind: str,
    title: str,
    body: Mapping[str, Any],
    evidence: str,
    model: str = "",
) -> Proposal:
    db.execute(
        "insert into proposals (kind, title, body, evidence, time, model) "
        "values (?, ?, ?, ?, ?, ?)",
        (kind, title, _encoded(body), evidence, db.now(), model),
    )
    return _proposal(db, db.last_insert_rowid())


def _proposal(db: Connection, id: int) -> Proposal:
    found = db.rows(_PROPOSAL + "where id = ?", (id,))
    if not found:
        raise NotFound(f"no proposal {id}", "`hermes proposals list` shows them")
    return _decoded(found[0])


def proposals(db: Connection, *, state: str = "open") -> list[Proposal]:
    sql = _PROPOSAL + "where ?1 = '' or state = ?1 order by id"
    return [_decoded(row) for row in db.rows(sql, (state,))]


def decide_proposal(db: Connection, id: int, state: str, by: str) -> Proposal:
    """A proposal is decided once; again raises `UsageError`."""
    if state not in _DECISIONS:
        raise UsageError(f"a proposal cannot become {state!r}", f"one of: {', '.join(_DECISIONS)}")
    before = _proposal(db, id)
    if before.state != "open":
        raise UsageError(
            f"proposal {id} was {before.state} by {before.by}",
            "`hermes proposals list` shows what is open",
        )
    db.execute("update proposals set state = ?, by = ? where id = ?", (state, by, id))
    return _proposal(db, id)


def reopen_proposal(db: Connection, id: int) -> None:
    """An accepted proposal could not be carried out: it is open again."""
    db.execute("update proposals set state = 'open', by = '' where id = ?", (id,))


def add_task(db: Connection, task: BackgroundTask) -> bool:
    """Add a task. False if its key is known: a task is done once."""
    before = db.total_changes()
    db.execute(
        "insert or ignore into tasks (key, kind, body, due, tries, state, result) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        (
            task.key, task.kind, _encoded(task.body), task.due, task.tries, task.state,
            task.result,
        ),
    )  # fmt: skip
    return db.total_changes() > before


def _tasks(db: Connection, rest: str, when: float) -> list[BackgroundTask]:
    sql = "select key, kind, body, due, tries, state, result from tasks where " + rest
    return [
        BackgroundTask(*[*row[:2], msgspec.json.decode(row[2]), *row[3:]])
        for row in db.rows(sql, (when,))
    ]


def due_tasks(db: Connection, now: float) -> list[BackgroundTask]:
    """Due tasks, oldest first."""
    return _tasks(db, "state = 'due' and due <= ? order by due, rowid", now)


def given_up(db: Connection, since: float) -> list[BackgroundTask]:
    """Tasks that were given up and were due since then, newest first."""
    return _tasks(db, "state = 'given-up' and due >= ? order by due desc limit 20", since)


def proofs_of(db: Connection, skill: str) -> list[dict[str, Any]]:
    """The bodies of the proofs of a skill, the newest first."""
    found = db.rows(
        "select body from tasks where kind = 'proof' and body ->> '$.skill' = ? order by due desc",
        (skill,),
    )
    return [msgspec.json.decode(body) for (body,) in found]


def drop_task(db: Connection, key: str) -> None:
    """Delete a task that is done."""
    db.execute("delete from tasks where key = ?", (key,))


def forget_tasks(db: Connection, before: float) -> None:
    """Delete finished tasks that were due before."""
    db.execute("delete from tasks where state <> 'due' and due < ?", (before,))


def postpone(db: Connection, key: str, until: float, why: str, *, tried: bool = True) -> None:
    """Postpone a task that is still due; `tried` counts a failed attempt."""
    db.execute(
        "update tasks set due = ?, tries = tries + ?, result = ? where key = ? and state = 'due'",
        (until, tried, why, key),
    )


def close_task(db: Connection, key: str, state: str, result: str = "") -> None:
    db.execute("update tasks set state = ?, result = ? where key = ?", (state, result, key))


def add_to_counter(db: Connection, name: str, add: int) -> int:
    found: int = db.execute(
        "insert into counters values (?, ?) on conflict (name) do update "
        "set value = value + excluded.value returning value",
        (name, add),
    ).get
    return found


def counter(db: Connection, name: str) -> int:
    found = db.rows("select value from counters where name = ?", (name,))
    return int(found[0][0]) if found else 0
