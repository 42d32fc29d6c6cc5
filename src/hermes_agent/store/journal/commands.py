"""What the writer does besides adding events: sessions, messages in, turns."""

import hashlib
from collections.abc import Callable, Sequence

import apsw
import msgspec

from hermes_agent.core.errors import Fenced, NotFound, UsageError
from hermes_agent.core.events import (
    Event,
    MessageTaken,
    Recorded,
    SessionOpened,
    TurnStarted,
)
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, SessionMessage, Turn
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.engine.database import rows
from hermes_agent.store.journal.append import AppendCursor, add_events, place_of
from hermes_agent.store.knowledge.documents import drop as drop_docs

LIST_HINT = "`hermes sessions list` shows them"


def session_key(db: apsw.Connection, id: str) -> int:
    row = db.execute("select key from sessions where id = ?", (id,)).fetchone()
    if row is None:
        raise NotFound(f"no session {id!r}", LIST_HINT)
    return int(row[0])


def _place(db: apsw.Connection, bodies: BlobStore, session: str, now: float) -> AppendCursor:
    key = session_key(db, session)
    source, last = db.execute("select source, last from sessions where key = ?", (key,)).get
    return AppendCursor(db, bodies, key, session, source, last, now)


def _free_name(db: apsw.Connection, name: str, key: int | None = None) -> None:
    row = db.execute("select key, id from sessions where name = ?", (name,)).fetchone()
    if name and row is not None and row[0] != key:
        raise UsageError(f"the name {name!r} is taken by session {row[1]}", "choose another name")


def open_session(
    db: apsw.Connection,
    bodies: BlobStore,
    new: NewSession,
    prompt: Prompt,
    now: float,
    new_id: Callable[[], str],
) -> str:
    if new.once:
        row = db.execute("select id from sessions where belongs = ?", (new.key,)).fetchone()
        if row is not None:
            return str(row[0])
    _free_name(db, new.name)
    body = msgspec.json.encode(prompt)
    digest = hashlib.sha256(body).hexdigest()
    db.execute("insert or ignore into prompts values (?, ?)", (digest, body.decode()))
    id = new_id()
    while db.execute("select 1 from sessions where id = ?", (id,)).fetchone() is not None:
        id = new_id()
    db.execute(
        "insert into sessions (id, name, belongs, source, workspace, policy, model, prompt, "
        "created, updated, terminals, effort, parent, depth, share) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, "
        "coalesce((select depth + 1 from sessions where id = ?12), 0), ?13)",
        (
            id, new.name, new.key, new.source, new.workspace, new.policy, new.model, digest, now,
            ",".join(new.terminals), new.effort, new.parent,
            msgspec.json.encode(new.share).decode(),
        ),
    )  # fmt: skip
    opened = SessionOpened(
        new.workspace, new.policy, new.model, digest, new.source, new.terminals, new.effort,
        new.parent,
    )  # fmt: skip
    add_events(_place(db, bodies, id, now), [opened])
    return id


def note(
    db: apsw.Connection, bodies: BlobStore, session: str, events: Sequence[Event], now: float
) -> list[Recorded]:
    return add_events(_place(db, bodies, session, now), events)


def rename_session(db: apsw.Connection, id: str, name: str) -> None:
    key = session_key(db, id)
    _free_name(db, name, key)
    db.execute("update sessions set name = ? where key = ?", (name, key))


def delete_session(db: apsw.Connection, bodies: BlobStore, id: str) -> None:
    """Everything but its costs, which count towards budgets whoever is gone, its part of the
    audit log, and what was learned from it."""
    key = session_key(db, id)
    prompt = db.execute("select prompt from sessions where key = ?", (key,)).get
    db.execute(
        "delete from words where rowid in (select message from events where session = ? "
        "and message is not null)",
        (key,),
    )
    db.execute(
        "delete from messages where id in (select message from events where session = ? "
        "and message is not null)",
        (key,),
    )
    for table in ("events", "queued_messages", "turns", "effects", "questions"):
        db.execute(f"delete from {table} where session = ?", (key,))
    drop_docs(db, "session", [id])
    db.execute("delete from tasks where session = ?", (id,))
    db.execute("delete from sessions where key = ?", (key,))
    db.execute(
        "delete from prompts where hash = ?1 "
        "and not exists (select 1 from sessions where prompt = ?1)",
        (prompt,),
    )
    bodies.release(db, key)


def receive(
    db: apsw.Connection, bodies: BlobStore, session: str, message: SessionMessage, now: float
) -> bool:
    key = session_key(db, session)
    known = "select 1 from queued_messages where session = ? and key = ?"
    if db.execute(known, (key, message.key)).fetchone() is not None:
        return False
    body = bodies.pack(db, key, msgspec.json.encode(message))
    db.execute(
        "insert into queued_messages (session, key, time, body) values (?, ?, ?, ?)",
        (key, message.key, now, body),
    )
    return True


def cancel_message(db: apsw.Connection, session: str, key: str) -> bool:
    db.execute(
        "update queued_messages set body = null where session = ? and key = ? and body is not null",
        (session_key(db, session), key),
    )
    return db.changes() == 1


def _mail(place: AppendCursor, *, joining: bool = False) -> list[Event]:
    """What waits to be taken; of what comes into a turn, all that may join it."""
    waiting = rows(
        place.db,
        "select body from queued_messages where session = ? and body is not null order by id",
        (place.key,),
    )
    letters = [
        msgspec.json.decode(place.bodies.unpack(body), type=SessionMessage) for (body,) in waiting
    ]
    return [
        MessageTaken(
            letter.key,
            letter.text,
            letter.source,
            letter.interactive,
            letter.files,
            letter.recalled,
            letter.skills,
        )
        for letter in letters
        if not (joining and letter.waits)
    ]


def start_turn(
    db: apsw.Connection, bodies: BlobStore, session: str, fence: int, now: float
) -> Turn | None:
    place = _place(db, bodies, session, now)
    current = fence_of(db)
    if current > fence:
        raise Fenced("another runtime has taken this home over")
    unfinished = "select 1 from turns where session = ? and ended is null"
    if db.execute(unfinished, (place.key,)).fetchone() is not None:
        return None
    mail = _mail(place)
    if not mail:
        return None
    db.execute(
        "insert into turns (session, fence, state, started) values (?, ?, 'running', ?)",
        (place.key, current, now),
    )
    place.turn = db.last_insert_rowid()
    add_events(place, [TurnStarted(place.turn), *mail])
    db.execute("update sessions set turns = turns + 1 where key = ?", (place.key,))
    return Turn(place.turn, session, current)


def take_queued_messages(
    db: apsw.Connection, bodies: BlobStore, turn: Turn, now: float
) -> list[Recorded]:
    place = place_of(db, bodies, turn, now)
    mail = _mail(place, joining=True)
    return add_events(place, mail) if mail else []


def fence_of(db: apsw.Connection) -> int:
    return int(db.execute("select value from meta where name = 'fence'").get)


def claim_unfinished(db: apsw.Connection) -> tuple[int, list[Turn]]:
    fence = fence_of(db) + 1
    db.execute("update meta set value = ? where name = 'fence'", (fence,))
    db.execute("update turns set fence = ? where ended is null", (fence,))
    unfinished = rows(
        db,
        "select t.id, s.id from turns t join sessions s on s.key = t.session "
        "where t.ended is null order by t.id",
    )
    return fence, [Turn(id, session, fence, resumed=True) for id, session in unfinished]
