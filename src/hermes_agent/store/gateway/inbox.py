"""Inbound messages, stored before the platform is told that we have them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.gateway import ArrivedState, Chat, InboundMessage, InboxEntry, Person
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.gateway import media

_arrived = msgspec.json.Decoder(InboundMessage)
_COLUMNS = "number, channel, state, kept, tries, why, body"
MAX_BYTES = 32_000_000
"""Attachment bytes loaded at once, the first message excepted."""
MAX_IGNORED = 10_000
"""Ignored messages remembered per channel, so that strangers cannot fill the disk."""


def owner_of(number: int) -> int:
    return -2 * number


def add_inbound(db: Connection, arrived: InboundMessage, mark: str = "") -> InboxEntry | None:
    """Store a message; None if the channel has delivered this id before. `mark` is how far the
    channel has read (an offset or a token), saved with it."""
    channel = arrived.chat.channel
    if mark:
        save_cursor(db, channel, mark)
    digest, now = db.context.pseudonyms(channel, arrived.id), db.now()
    known = db.execute(
        "select 1 from gateway_inbox where channel = ? and hash = ?", (channel, digest)
    ).fetchone()
    if known is not None:
        return None
    db.execute(
        "insert into gateway_inbox (channel, hash, state, kept) values (?, ?, 'new', ?)",
        (channel, digest, now),
    )
    number = db.last_insert_rowid()
    owner = owner_of(number)
    media.put(db, owner, {"file": arrived.files, "voice": arrived.voice})
    bare = msgspec.json.encode(replace(arrived, files=(), voice=()))
    db.execute(
        "update gateway_inbox set body = ? where number = ?",
        (db.blobs.pack(db, owner, bare), number),
    )
    return InboxEntry(number, arrived, "new", now)


def mark(db: Connection, channel: str) -> str:
    found = db.rows("select mark from gateway_cursors where channel = ?", (channel,))
    return str(found[0][0]) if found else ""


def save_cursor(db: Connection, channel: str, mark: str) -> None:
    db.execute("insert or replace into gateway_cursors values (?, ?)", (channel, mark))


def new(db: Connection, limit: int, after: int) -> tuple[Sequence[InboxEntry], Mapping[int, str]]:
    """New messages; and, by number, why others cannot be read."""
    sql = (
        f"select {_COLUMNS} from gateway_inbox where state = 'new' and number > ? "
        "order by number limit ?"
    )
    found: list[InboxEntry] = []
    lost: dict[int, str] = {}
    size = 0
    for row in db.execute(sql, (after, limit)):
        try:
            kept = _kept(db, row, whole=True)
        except HermesError as error:
            lost[row[0]] = error.message
            continue
        size += sum(len(one.data) for one in (*kept.arrived.files, *kept.arrived.voice))
        if found and size > MAX_BYTES:
            break
        found.append(kept)
    return found, lost


def give_up_inbound(db: Connection, lost: Mapping[int, str]) -> None:
    for number, why in lost.items():
        db.execute(
            "update gateway_inbox set state = 'dead', why = ? where number = ? and state = 'new'",
            (why, number),
        )


def dead_letters(db: Connection, limit: int = 100) -> Sequence[InboxEntry]:
    """Newest first, files without content."""
    sql = f"select {_COLUMNS} from gateway_inbox where state = 'dead' order by number desc limit ?"
    return [_shown(db, row) for row in db.rows(sql, (limit,))]


def _shown(db: Connection, row: tuple[Any, ...]) -> InboxEntry:
    try:
        return _kept(db, row, whole=False)
    except HermesError as error:
        number, channel, state, kept, tries, why, _ = row
        arrived = InboundMessage("", Chat(channel, ""), Person(""), f"({error.message})")
        return InboxEntry(number, arrived, state, kept, tries, why)


def _kept(db: Connection, row: tuple[Any, ...], whole: bool) -> InboxEntry:
    number, _, state, kept, tries, why, body = row
    arrived = _arrived.decode(db.blobs.unpack(body))
    found = media.get(db, owner_of(number), whole)
    if found:
        files, voice = found.get("file", ()), found.get("voice", ())
        arrived = replace(arrived, files=tuple(files), voice=tuple(voice))
    return InboxEntry(number, arrived, state, kept, tries, why)


def dealt(db: Connection, number: int, state: ArrivedState, why: str) -> bool:
    """Set the state. Of an ignored message only the hash is stored, and only of the latest. True if
    files are left to sweep."""
    found = db.rows(
        "update gateway_inbox set state = ?, why = ? where number = ? returning channel",
        (state, why, number),
    )
    if state != "ignored" or not found:
        return False
    _drop(db, number)
    db.execute(
        "delete from gateway_inbox where number <= (select number from gateway_inbox "
        "where channel = ?1 and state = 'ignored' order by number desc limit 1 offset ?2) "
        "and channel = ?1 and state = 'ignored'",
        (found[0][0], MAX_IGNORED),
    )
    return bool(db.rows("select 1 from unused_blobs limit 1"))


def _drop(db: Connection, number: int) -> None:
    media.drop(db, owner_of(number))
    db.execute("update gateway_inbox set body = null where number = ?", (number,))


def drop_dead_letter(db: Connection, number: int) -> None:
    if not db.rows("select 1 from gateway_inbox where number = ? and state = 'dead'", (number,)):
        raise not_aside(number)
    dealt(db, number, "ignored", "dropped")


def not_aside(number: int) -> NotFound:
    return NotFound(f"no undeliverable message {number}", "`hermes gateway dead` lists them")


def failed_to_deal(db: Connection, number: int, why: str) -> int:
    """Count an attempt; returns how many there were."""
    found = db.rows(
        "update gateway_inbox set tries = tries + 1, why = ? where number = ? returning tries",
        (why, number),
    )
    return int(found[0][0]) if found else 0


def retry_dead_letter(db: Connection, number: int) -> InboxEntry:
    """Make a dead letter new again."""
    found = db.rows(
        "update gateway_inbox set state = 'new', tries = 0 "
        f"where number = ? and state = 'dead' returning {_COLUMNS}",
        (number,),
    )
    if not found:
        raise not_aside(number)
    return _kept(db, found[0], whole=True)


def tidy_inbox(db: Connection, before: float) -> int:
    found = db.rows(
        "select number from gateway_inbox "
        "where body is not null and kept < ? and state in ('done', 'ignored')",
        (before,),
    )
    for (number,) in found:
        _drop(db, number)
        db.execute("update gateway_inbox set why = '' where number = ?", (number,))
    return len(found)
