"""Adding events to a session. What follows from an event changes in the same transaction: one
small function per kind of event says how."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from hermes_agent.core.errors import Fenced
from hermes_agent.core.events import (
    CallFinished,
    CallIntended,
    CallParked,
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
    SessionTitled,
    TurnFinished,
    encode,
    kind_of,
)
from hermes_agent.core.knowledge import AFTER_TURN, TRIALS, BackgroundTask, turn_chore
from hermes_agent.core.messages import Usage
from hermes_agent.core.records import Turn
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.journal import audit
from hermes_agent.store.knowledge import tasks
from hermes_agent.store.search.index import index, spoken

TITLE_CHARS = 80


@dataclass
class AppendCursor:
    """Where events go: a session, perhaps a turn in it, and the number of the last event."""

    db: apsw.Connection
    bodies: BlobStore
    key: int
    session: str
    source: str
    last: int
    now: float
    turn: int | None = None


def place_of(db: apsw.Connection, bodies: BlobStore, turn: Turn, now: float) -> AppendCursor:
    """The place of a turn that may be written to; `Fenced` when it is no longer the caller's."""
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
    return AppendCursor(db, bodies, key, session, source, last, now, turn.id)


def add_events(place: AppendCursor, events: Sequence[Event]) -> list[Recorded]:
    recorded = []
    messages = 0
    for event in events:
        place.last += 1
        messages += _insert(place, event)
        project = _PROJECTIONS.get(type(event))
        if project is not None:
            project(place, event)
        audit.note(place.db, place.session, place.last, place.now, event)
        recorded.append(Recorded(place.session, place.last, place.now, event))
    place.db.execute(
        "update sessions set last = ?, updated = ?, messages = messages + ? where key = ?",
        (place.last, place.now, messages, place.key),
    )
    return recorded


def _insert(place: AppendCursor, event: Event) -> int:
    """Write the event; 1 when it is a message of the conversation."""
    db = place.db
    body: str | bytes | None = place.bodies.pack(db, place.key, encode(event))
    id = None
    message = spoken(event)
    if message is not None:
        db.execute(
            "insert into messages (session, number, role, tool, ok, time, body) "
            "values (?, ?, ?, ?, ?, ?, ?)",
            (place.key, place.last, message.role, message.tool, message.ok, place.now, body),
        )
        id, body = db.last_insert_rowid(), None
        index(db, id, place.key, place.source, message)
    db.execute(
        "insert into events values (?, ?, ?, ?, ?, ?, ?)",
        (place.key, place.last, kind_of(event), place.turn, place.now, body, id),
    )
    return int(message is not None and message.role != "summary")


def _take_message(place: AppendCursor, event: MessageTaken) -> None:
    place.db.execute(
        "insert into queued_messages (session, key, time) values (?, ?, ?) "
        "on conflict (session, key) do update set body = null",
        (place.key, event.key, place.now),
    )
    lines = event.text.strip().splitlines() or [""]
    place.db.execute(
        "update sessions set title = ? where key = ? and title = ''",
        (lines[0].strip()[:TITLE_CHARS], place.key),
    )


def _spend(place: AppendCursor, model: str, use: str, usage: Usage, cost: float | None) -> None:
    if not cost and not usage.total:
        return
    add = (
        "set input = input + ?, output = output + ?, cached = cached + ?, "
        "cost = case when ?4 is null then cost else coalesce(cost, 0) + ?4 end"
    )
    figures = (usage.input, usage.output, usage.cached, cost)
    place.db.execute(f"update sessions {add} where key = ?5", (*figures, place.key))
    place.db.execute(f"update turns {add} where id = ?5", (*figures, place.turn))
    belongs = place.db.execute("select belongs from sessions where key = ?", (place.key,)).get
    add_cost(place.db, place.now, (place.session, belongs), model, use, usage, cost)


def add_cost(
    db: apsw.Connection,
    now: float,
    owner: tuple[str, str],
    model: str,
    use: str,
    usage: Usage,
    cost: float | None,
) -> int:
    """A row of what was spent, by its number; `owner` is the session and whose it is."""
    db.execute(
        "insert into costs (time, session, belongs, model, use, input, output, cached, written, "
        "reasoning, cost) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            now, *owner, model, use, usage.input, usage.output, usage.cached, usage.written,
            usage.reasoning, cost,
        ),
    )  # fmt: skip
    return db.last_insert_rowid()


def _reply(place: AppendCursor, event: Replied) -> None:
    use = TRIALS if place.source == TRIALS else "main"
    _spend(place, event.model, use, event.usage, event.cost)


def _compact(place: AppendCursor, event: Compacted) -> None:
    _spend(place, event.model, "compaction", event.usage, event.cost)


def _charge(place: AppendCursor, event: CostCharged) -> None:
    _spend(place, event.model, event.use, event.usage, event.cost)


def _choose_model(place: AppendCursor, event: ModelChosen) -> None:
    place.db.execute(
        "update sessions set model = ?, effort = ? where key = ?",
        (event.model, event.effort, place.key),
    )


def _title(place: AppendCursor, event: SessionTitled) -> None:
    title = event.title[:TITLE_CHARS]
    place.db.execute("update sessions set title = ? where key = ?", (title, place.key))


def _intend(place: AppendCursor, event: CallIntended) -> None:
    place.db.execute(
        "insert into effects (id, session, turn, call_id, tool, state, attempt, intended) "
        "values (?, ?, ?, ?, ?, 'intended', ?, ?) on conflict (id) do update set "
        "state = 'intended', attempt = excluded.attempt, intended = excluded.intended, "
        "settled = null, reason = ''",
        (event.effect, place.key, place.turn, event.call_id, event.tool, event.attempt, place.now),
    )


def _finish_call(place: AppendCursor, event: CallFinished) -> None:
    # A call that a person had skipped stays skipped: its result only tells the model so.
    place.db.execute(
        "update effects set state = case state when 'skipped' then state else ? end, settled = ? "
        "where id = ? and session = ?",
        ("done" if event.ok else "failed", place.now, event.effect, place.key),
    )


def _park(place: AppendCursor, event: CallParked) -> None:
    place.db.execute(
        "insert into effects (id, session, turn, call_id, tool, state, attempt, intended, settled, "
        "reason) values (?1, ?2, ?3, ?4, ?5, 'parked', 1, ?6, ?6, ?7) on conflict (id) do update "
        "set state = 'parked', settled = excluded.settled, reason = excluded.reason",
        (
            event.effect, place.key, place.turn, event.call_id, event.tool, place.now, event.reason,
        ),
    )  # fmt: skip


def _decide(place: AppendCursor, event: ParkDecided) -> None:
    state = {"retry": "intended", "skip": "skipped", "it-happened": "done"}[event.decision]
    place.db.execute(
        "update effects set state = ?, settled = ? where id = ? and session = ?",
        (state, place.now, event.effect, place.key),
    )


def _ask(place: AppendCursor, event: QuestionAsked) -> None:
    place.db.execute(
        "insert or replace into questions values (?, ?, ?, ?)",
        (event.id, place.key, place.turn, place.last),
    )
    place.db.execute("update turns set state = 'waiting' where id = ?", (place.turn,))


def _answer(place: AppendCursor, event: QuestionAnswered) -> None:
    place.db.execute("delete from questions where id = ? and session = ?", (event.id, place.key))
    place.db.execute(
        "update turns set state = 'running' where id = ?1 and ended is null "
        "and not exists (select 1 from questions where turn = ?1)",
        (place.turn,),
    )


def _finish_turn(place: AppendCursor, event: TurnFinished) -> None:
    place.db.execute(
        "update turns set state = ?, ended = ? where id = ?",
        (event.reason, place.now, place.turn),
    )
    place.db.execute("delete from questions where turn = ?", (place.turn,))
    # Nobody can decide them any more: the turn that would act on it is over.
    place.db.execute(
        "update effects set state = 'skipped', settled = ? "
        "where session = ? and turn = ? and state = 'parked'",
        (place.now, place.key, place.turn),
    )
    if place.source != TRIALS and place.turn is not None:
        chore = BackgroundTask(
            turn_chore(place.turn), "turn", {"session": place.session, "turn": place.turn},
            place.now + AFTER_TURN,
        )  # fmt: skip
        tasks.want(place.db, chore)


_PROJECTIONS: dict[type[Event], Callable[[AppendCursor, Any], None]] = {
    MessageTaken: _take_message,
    Replied: _reply,
    Compacted: _compact,
    CostCharged: _charge,
    ModelChosen: _choose_model,
    SessionTitled: _title,
    CallIntended: _intend,
    CallFinished: _finish_call,
    CallParked: _park,
    ParkDecided: _decide,
    QuestionAsked: _ask,
    QuestionAnswered: _answer,
    TurnFinished: _finish_turn,
}
