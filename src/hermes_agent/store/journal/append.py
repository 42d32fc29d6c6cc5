"""Appends events to a session. The rows that follow from an event change in the same transaction,
by one function per type of event."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from hermes_agent.core.errors import Fenced
from hermes_agent.core.events import (
    CallFinished,
    CallIntended,
    CallParked,
    CommandEnded,
    Compacted,
    CostCharged,
    Event,
    MessageTaken,
    ModelChosen,
    ParkDecided,
    QuestionAnswered,
    QuestionAsked,
    Recorded,
    Replied,
    Rewound,
    SessionTitled,
    TurnFinished,
    encode,
    kind_of,
)
from hermes_agent.core.knowledge import AFTER_TURN, TRIALS, BackgroundTask, turn_task
from hermes_agent.core.messages import Usage
from hermes_agent.core.records import Turn
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.journal import audit, background
from hermes_agent.store.knowledge import tasks
from hermes_agent.store.search.index import index, spoken

TITLE_CHARS = 80


class AppendCursor(Struct):
    """A session, perhaps a turn in it, and the number of its last event."""

    db: Connection
    key: int
    session: str
    source: str
    last: int
    now: float
    turn: int | None = None
    imported: bool = False
    """Another agent held the conversation, earlier: nothing follows from it here."""


def append(db: Connection, turn: Turn, *events: Event) -> list[Recorded]:
    """Add events to the turn's session in one transaction, with the rows that follow from them
    (effects, questions, the turn's state). `Fenced` if the turn was taken over."""
    return add_events(cursor_of(db, turn), events)


def cursor_of(db: Connection, turn: Turn) -> AppendCursor:
    """`Fenced` if the turn is no longer the caller's to write."""
    row = db.execute(
        "select s.key, s.id, s.source, s.last, t.fence, t.ended from turns t "
        "join sessions s on s.key = t.session where t.id = ?",
        (turn.id,),
    ).fetchone()
    if row is None:
        raise Fenced(f"turn {turn.id} is gone: its session was deleted")
    key, session, source, last, fence, ended = row
    if fence != turn.fence:
        raise Fenced(f"turn {turn.id} of session {session} was taken over by another runtime")
    if ended is not None:
        raise Fenced(f"turn {turn.id} of session {session} has ended")
    return AppendCursor(db, key, session, source, last, db.now(), turn.id)


def add_events(cursor: AppendCursor, events: Sequence[Event]) -> list[Recorded]:
    recorded = []
    messages = 0
    for event in events:
        cursor.last += 1
        messages += _insert(cursor, event)
        project = _PROJECTIONS.get(type(event))
        if project is not None:
            project(cursor, event)
        audit.note(cursor.db, cursor.session, cursor.last, cursor.now, event)
        recorded.append(Recorded(cursor.session, cursor.last, cursor.now, event))
    cursor.db.execute(
        "update sessions set last = ?, updated = ?, messages = messages + ? where key = ?",
        (cursor.last, cursor.now, messages, cursor.key),
    )
    return recorded


def _insert(cursor: AppendCursor, event: Event) -> int:
    """Write the event; 1 if it is a message of the conversation."""
    db = cursor.db
    db.execute(
        "insert into events (id, session, number, kind, turn, time, body) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        (
            _earlier_id(db) if cursor.imported else None, cursor.key, cursor.last, kind_of(event),
            cursor.turn, cursor.now, db.blobs.pack(db, cursor.key, encode(event)),
        ),
    )  # fmt: skip
    message = spoken(event)
    if message is not None:
        index(db, db.last_insert_rowid(), cursor.key, cursor.source, message)
    return int(message is not None and message.role != "summary")


def _earlier_id(db: Connection) -> int:
    return int(db.execute("select min(0, coalesce(min(id), 0)) - 1 from events").get)


def _take_message(cursor: AppendCursor, event: MessageTaken) -> None:
    cursor.db.execute(
        "insert into queued_messages (session, key) values (?, ?) "
        "on conflict (session, key) do update set body = null",
        (cursor.key, event.key),
    )
    lines = event.text.strip().splitlines() or [""]
    cursor.db.execute(
        "update sessions set title = ? where key = ? and title = ''",
        (lines[0].strip()[:TITLE_CHARS], cursor.key),
    )


def _spend(cursor: AppendCursor, model: str, use: str, usage: Usage, cost: float | None) -> None:
    if not cost and not usage.total:
        return
    add = (
        "set input = input + ?, output = output + ?, cached = cached + ?, "
        "cost = case when ?4 is null then cost else coalesce(cost, 0) + ?4 end"
    )
    figures = (usage.input, usage.output, usage.cached, cost)
    cursor.db.execute(f"update sessions {add} where key = ?5", (*figures, cursor.key))
    cursor.db.execute(f"update turns {add} where id = ?5", (*figures, cursor.turn))
    belongs = cursor.db.execute("select belongs from sessions where key = ?", (cursor.key,)).get
    add_cost(cursor.db, (cursor.session, belongs), model, use, usage, cost)


def charge(db: Connection, model: str, use: str, usage: Usage, cost: float | None) -> int:
    """Record the cost of a call that belongs to no session; returns the number of the charge."""
    return add_cost(db, ("", ""), model, use, usage, cost)


def add_cost(
    db: Connection, owner: tuple[str, str], model: str, use: str, usage: Usage, cost: float | None
) -> int:
    """Add what was spent and return its number; `owner` is the session and whose it is."""
    db.execute(
        "insert into costs (time, session, belongs, model, use, input, output, cached, written, "
        "reasoning, cost) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            db.now(), *owner, model, use, usage.input, usage.output, usage.cached, usage.written,
            usage.reasoning, cost,
        ),
    )  # fmt: skip
    return db.last_insert_rowid()


def _reply(cursor: AppendCursor, event: Replied) -> None:
    use = TRIALS if cursor.source == TRIALS else "main"
    _spend(cursor, event.model, use, event.usage, event.cost)


def _compact(cursor: AppendCursor, event: Compacted) -> None:
    _spend(cursor, event.model, "compaction", event.usage, event.cost)


def _charge(cursor: AppendCursor, event: CostCharged) -> None:
    _spend(cursor, event.model, event.use, event.usage, event.cost)


def _choose_model(cursor: AppendCursor, event: ModelChosen) -> None:
    cursor.db.execute(
        "update sessions set model = ?, effort = ? where key = ?",
        (event.model, event.effort, cursor.key),
    )


def _title(cursor: AppendCursor, event: SessionTitled) -> None:
    title = event.title[:TITLE_CHARS]
    cursor.db.execute("update sessions set title = ? where key = ?", (title, cursor.key))


def _intend(cursor: AppendCursor, event: CallIntended) -> None:
    cursor.db.execute(
        "insert into effects (id, session, turn, call_id, tool, state, attempt, intended) "
        "values (?, ?, ?, ?, ?, 'intended', ?, ?) on conflict (id) do update set "
        "state = 'intended', attempt = excluded.attempt, intended = excluded.intended, "
        "settled = null, reason = ''",
        (
            event.effect,
            cursor.key,
            cursor.turn,
            event.call_id,
            event.tool,
            event.attempt,
            cursor.now,
        ),
    )


def _finish_call(cursor: AppendCursor, event: CallFinished) -> None:
    # A call that a person had skipped stays skipped: its result only tells the model so.
    cursor.db.execute(
        "update effects set state = case state when 'skipped' then state else ? end, settled = ? "
        "where id = ? and session = ?",
        ("done" if event.ok else "failed", cursor.now, event.effect, cursor.key),
    )
    background.note_call(cursor.db, cursor.key, event)


def _end_command(cursor: AppendCursor, event: CommandEnded) -> None:
    background.note_end(cursor.db, event)


def _park(cursor: AppendCursor, event: CallParked) -> None:
    cursor.db.execute(
        "insert into effects (id, session, turn, call_id, tool, state, attempt, intended, settled, "
        "reason) values (?1, ?2, ?3, ?4, ?5, 'parked', 1, ?6, ?6, ?7) on conflict (id) do update "
        "set state = 'parked', settled = excluded.settled, reason = excluded.reason",
        (
            event.effect, cursor.key, cursor.turn, event.call_id, event.tool, cursor.now,
            event.reason,
        ),
    )  # fmt: skip


def _decide(cursor: AppendCursor, event: ParkDecided) -> None:
    state = {"retry": "intended", "skip": "skipped", "it-happened": "done"}[event.decision]
    cursor.db.execute(
        "update effects set state = ?, settled = ? where id = ? and session = ?",
        (state, cursor.now, event.effect, cursor.key),
    )


def _ask(cursor: AppendCursor, event: QuestionAsked) -> None:
    cursor.db.execute(
        "insert or replace into questions values (?, ?, ?, ?)",
        (event.id, cursor.key, cursor.turn, cursor.last),
    )
    cursor.db.execute("update turns set state = 'waiting' where id = ?", (cursor.turn,))


def _answer(cursor: AppendCursor, event: QuestionAnswered) -> None:
    cursor.db.execute("delete from questions where id = ? and session = ?", (event.id, cursor.key))
    cursor.db.execute(
        "update turns set state = 'running' where id = ?1 and ended is null "
        "and not exists (select 1 from questions where turn = ?1)",
        (cursor.turn,),
    )


def _finish_turn(cursor: AppendCursor, event: TurnFinished) -> None:
    cursor.db.execute(
        "update turns set state = ?, ended = ? where id = ?",
        (event.reason, cursor.now, cursor.turn),
    )
    cursor.db.execute("delete from questions where turn = ?", (cursor.turn,))
    # Nobody can decide them any more: the turn that would act on it is over.
    cursor.db.execute(
        "update effects set state = 'skipped', settled = ? "
        "where session = ? and turn = ? and state = 'parked'",
        (cursor.now, cursor.key, cursor.turn),
    )
    if cursor.source != TRIALS and cursor.turn is not None and not cursor.imported:
        task = BackgroundTask(
            turn_task(cursor.turn), "turn", {"session": cursor.session, "turn": cursor.turn},
            cursor.now + AFTER_TURN,
        )  # fmt: skip
        tasks.add_task(cursor.db, task)


def _rewind(cursor: AppendCursor, _event: Rewound) -> None:
    """A turn that paused at a limit is not continued from there any more."""
    cursor.db.execute(
        "update turns set state = 'rewound' where session = ? and state = 'budget'", (cursor.key,)
    )


_PROJECTIONS: dict[type[Event], Callable[[AppendCursor, Any], None]] = {
    MessageTaken: _take_message,
    Replied: _reply,
    Compacted: _compact,
    CostCharged: _charge,
    ModelChosen: _choose_model,
    SessionTitled: _title,
    CallIntended: _intend,
    CallFinished: _finish_call,
    CommandEnded: _end_command,
    CallParked: _park,
    ParkDecided: _decide,
    QuestionAsked: _ask,
    QuestionAnswered: _answer,
    TurnFinished: _finish_turn,
    Rewound: _rewind,
}
