"""Writes other than appending events: sessions, queued messages, turns."""

import hashlib

import msgspec

from hermes_agent.core.errors import Fenced, UsageError
from hermes_agent.core.events import (
    Branched,
    Event,
    MessageTaken,
    Recorded,
    SessionOpened,
    TurnStarted,
    decode,
)
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, Session, SessionMessage, Turn
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.journal import queries
from hermes_agent.store.journal.append import AppendCursor, add_events, cursor_of
from hermes_agent.store.knowledge.documents import drop_docs
from hermes_agent.store.search.index import SPOKEN, index, spoken


def probe(db: Connection) -> None:
    db.execute("insert or replace into meta values ('probed', ?)", (db.now(),))


def cursor_at(db: Connection, session: str) -> AppendCursor:
    """The end of a session that no turn is working on."""
    key = queries.session_key(db, session)
    source, last = db.execute("select source, last from sessions where key = ?", (key,)).get
    return AppendCursor(db, key, session, source, last, db.now())


def _free_name(db: Connection, name: str, key: int | None = None) -> None:
    row = db.execute("select key, id from sessions where name = ?", (name,)).fetchone()
    if name and row is not None and row[0] != key:
        raise UsageError(f"the name {name!r} is taken by session {row[1]}", "choose another name")


def open_session(db: Connection, new: NewSession, prompt: Prompt) -> Session:
    if (opened_before := _known(db, new)) is not None:
        return opened_before
    body = msgspec.json.encode(prompt)
    digest = hashlib.sha256(body).hexdigest()
    db.execute("insert or ignore into prompts values (?, ?)", (digest, body.decode()))
    id = _insert_session(db, new, digest)
    opened = SessionOpened(
        new.workspace, new.policy, new.model, digest, new.source, new.terminals, new.effort,
        new.parent,
    )  # fmt: skip
    add_events(cursor_at(db, id), [opened])
    return queries.session(db, id)


def _known(db: Connection, new: NewSession) -> Session | None:
    row = db.execute("select id from sessions where belongs = ?", (new.key,)).fetchone()
    return queries.session(db, str(row[0])) if new.once and row is not None else None


def _insert_session(db: Connection, new: NewSession, prompt: str) -> str:
    """The id of a new session without events."""
    _free_name(db, new.name)
    id = db.context.new_id()
    while db.execute("select 1 from sessions where id = ?", (id,)).fetchone() is not None:
        id = db.context.new_id()
    db.execute(
        "insert into sessions (id, name, belongs, source, workspace, policy, model, prompt, "
        "created, updated, terminals, effort, parent, depth, share) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, "
        "coalesce((select depth + 1 from sessions where id = ?12), 0), ?13)",
        (
            id, new.name, new.key, new.source, new.workspace, new.policy, new.model, prompt,
            db.now(), ",".join(new.terminals), new.effort, new.parent,
            msgspec.json.encode(new.share).decode(),
        ),
    )  # fmt: skip
    return id


def note(db: Connection, session: str, *events: Event) -> list[Recorded]:
    """Add events to a session that no turn is working on."""
    return add_events(cursor_at(db, session), events)


def branch(db: Connection, of: str, at: int, new: NewSession, by: str) -> Session:
    """Open a session that begins with a copy of the first `at` events of another. The copies count
    nowhere: not as costs or effects, not in the audit log, not in the search index."""
    if (opened_before := _known(db, new)) is not None:
        return opened_before
    key = queries.session_key(db, of)
    prompt = str(db.execute("select prompt from sessions where key = ?", (key,)).get)
    id = _insert_session(db, new, prompt)
    copy = queries.session_key(db, id)
    db.execute(
        "insert into events (session, number, kind, time, body) "
        "select ?1, number, kind, time, body from events where session = ?2 and number <= ?3 "
        "order by number",
        (copy, key, at),
    )
    kinds = "select count(*) from events where session = ?1 and kind"
    db.execute(
        "update sessions set last = ?2, branch_of = ?3, branch_at = ?2, "
        "title = (select title from sessions where key = ?4), "
        f"turns = ({kinds} = 'turn_started'), "
        f"messages = ({kinds} in ('message_taken', 'replied', 'call_finished')) where key = ?1",
        (copy, at, of, key),
    )
    db.execute(
        "insert or ignore into blobs (hash, session) select hash, ? from blobs where session = ?",
        (copy, key),
    )
    add_events(cursor_at(db, id), [Branched(of, by)])
    return queries.session(db, id)


def rename_session(db: Connection, id: str, name: str) -> None:
    key = queries.session_key(db, id)
    _free_name(db, name, key)
    db.execute("update sessions set name = ? where key = ?", (name, key))


def delete_session(db: Connection, id: str) -> None:
    """Delete everything except its costs (budgets count them), its audit entries, and what was
    learned from it."""
    key = queries.session_key(db, id)
    prompt = db.execute("select prompt from sessions where key = ?", (key,)).get
    _index_branch(db, id, key)
    db.execute(
        "delete from words where rowid in (select id from events where session = ? "
        f"and kind in {SPOKEN})",
        (key,),
    )
    of_session = "events queued_messages turns effects questions background_commands"
    for table in of_session.split():
        db.execute(f"delete from {table} where session = ?", (key,))
    drop_docs(db, "session", [id])
    db.execute("delete from tasks where session = ?", (id,))
    db.execute("delete from sessions where key = ?", (key,))
    db.execute(
        "delete from prompts where hash = ?1 "
        "and not exists (select 1 from sessions where prompt = ?1)",
        (prompt,),
    )
    db.blobs.release(db, key)


def _index_branch(db: Connection, id: str, key: int) -> None:
    """Let the search find in the longest branch of a session what it found in the session."""
    row = db.execute(
        "select key, source, branch_at from sessions where branch_of = ? "
        "order by branch_at desc limit 1",
        (id,),
    ).fetchone()
    if row is None:
        return
    branch, source, at = row
    copies = db.rows(
        "select copy.id, copy.body from events mine join events copy "
        "on copy.session = ? and copy.number = mine.number where mine.session = ? "
        f"and mine.number <= ? and mine.kind in {SPOKEN} "
        "and exists (select 1 from words where rowid = mine.id)",
        (branch, key, at),
    )
    for event, body in copies:
        message = spoken(decode(db.blobs.unpack(body)))
        if message is not None:
            index(db, event, branch, source, message)


def receive(db: Connection, session: str, message: SessionMessage) -> bool:
    """Queue a message. False if its key is known: a message is stored once."""
    key = queries.session_key(db, session)
    known = "select 1 from queued_messages where session = ? and key = ?"
    if db.execute(known, (key, message.key)).fetchone() is not None:
        return False
    body = db.blobs.pack(db, key, msgspec.json.encode(message))
    db.execute(
        "insert into queued_messages (session, key, place, body) select ?, ?, "
        "coalesce(max(place), 0) + 1, ? from queued_messages where body is not null",
        (key, message.key, body),
    )
    return True


def cancel_message(db: Connection, session: str, key: str) -> bool:
    """Remove a queued message. False if a turn has taken it, or there is none."""
    db.execute(
        "update queued_messages set body = null where session = ? and key = ? and body is not null",
        (queries.session_key(db, session), key),
    )
    return db.changes() == 1


def _mail(cursor: AppendCursor, *, joining: bool = False) -> list[Event]:
    """The queued messages; with `joining`, those that may join a turn under way."""
    waiting = cursor.db.rows(
        "select body from queued_messages where session = ? and body is not null order by place",
        (cursor.key,),
    )
    letters = [
        msgspec.json.decode(cursor.db.blobs.unpack(body), type=SessionMessage)
        for (body,) in waiting
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


def start_turn(db: Connection, session: str) -> Turn | None:
    """Start a turn with the queued messages (`TurnStarted`, then a `MessageTaken` each, in one
    transaction). None if none are queued or a turn is unfinished."""
    cursor = cursor_at(db, session)
    current = fence_of(db)
    if current > db.context.fence:
        raise Fenced("another runtime has taken this home over")
    unfinished = "select 1 from turns where session = ? and ended is null"
    if db.execute(unfinished, (cursor.key,)).fetchone() is not None:
        return None
    mail = _mail(cursor)
    if not mail:
        return None
    db.execute(
        "insert into turns (session, fence, state, started) values (?, ?, 'running', ?)",
        (cursor.key, current, cursor.now),
    )
    cursor.turn = db.last_insert_rowid()
    add_events(cursor, [TurnStarted(cursor.turn), *mail])
    db.execute("update sessions set turns = turns + 1 where key = ?", (cursor.key,))
    return Turn(cursor.turn, session, current)


def take_queued_messages(db: Connection, turn: Turn) -> list[Recorded]:
    """Add the queued messages to the conversation (`MessageTaken`)."""
    cursor = cursor_of(db, turn)
    mail = _mail(cursor, joining=True)
    return add_events(cursor, mail) if mail else []


def fence_of(db: Connection) -> int:
    return int(db.execute("select value from meta where name = 'fence'").get)


def claim_unfinished(db: Connection) -> list[Turn]:
    # The writer knows it at once: a turn may be started in the same transaction.
    """Claim all unfinished turns for this process, under a new fence: earlier owners can no longer
    write to them."""
    db.context.fence = fence = fence_of(db) + 1
    db.execute("update meta set value = ? where name = 'fence'", (fence,))
    db.execute("update turns set fence = ? where ended is null", (fence,))
    unfinished = db.rows(
        "select t.id, s.id from turns t join sessions s on s.key = t.session "
        "where t.ended is null order by t.id",
    )
    return [Turn(id, session, fence, resumed=True) for id, session in unfinished]
