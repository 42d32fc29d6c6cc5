"""Outbound messages: one row each, from `waiting` to `sent` or `dead`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.gateway import (
    Chat,
    ChatBinding,
    DeliveryState,
    NewDelivery,
    OutboundMessage,
    OutboxEntry,
)
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.gateway import inbox, media
from hermes_agent.store.gateway.identities import drop_deleted_bindings

_outgoing = msgspec.json.Decoder(OutboundMessage)
_COLUMNS = (
    "id, key, state, created, attempts, due, receipt, sent, error, doubtful, part, tried, unsure, "
    "channel, body"
)
_UNSENT = "state in ('waiting', 'sending')"
MAX_BYTES = 32_000_000
"""Attachment bytes loaded at once, the first message excepted."""

MAX_WAIT = 3_600.0
"""A message that waits longer waits because the clock was set back."""

# One step per chat that has something unsent, however much that is.
_DUE = f"""
with recursive chats (chat) as (
  select min(chat) from gateway_outbox where channel = ?1 and {_UNSENT}
  union all
  select (select min(chat) from gateway_outbox
    where channel = ?1 and {_UNSENT} and chat > chats.chat)
  from chats where chats.chat is not null
), firsts (id) as (
  select (select id from gateway_outbox
    where channel = ?1 and {_UNSENT} and chat = chats.chat order by id limit 1)
  from chats where chats.chat is not null
)
select {_COLUMNS} from gateway_outbox join firsts using (id)
where due <= ?2 or due <= created or due > ?2 + {MAX_WAIT} order by id limit ?3
"""


def owner_of(id: int) -> int:
    return -2 * id - 1


def enqueue(db: Connection, *deliveries: NewDelivery) -> list[OutboxEntry]:
    """Add messages; a key that exists already returns its row unchanged."""
    return [_enqueue(db, one) for one in deliveries]


def tell(
    db: Connection, binding: ChatBinding, told: int, *deliveries: NewDelivery
) -> list[OutboxEntry]:
    """Enqueue what a session's events say and record how far they were delivered, in one
    transaction. Nothing is recorded for a chat that has moved to another session."""
    db.execute(
        "update gateway_bindings set told = max(told, ?) where session = ?",
        (told, binding.session),
    )
    return enqueue(db, *deliveries)


def _enqueue(db: Connection, new: NewDelivery) -> OutboxEntry:
    hashed, now = db.context.pseudonyms, db.now()
    digest = hashed("delivery", new.key)
    found = db.rows(f"select {_COLUMNS} from gateway_outbox where hash = ?", (digest,))
    if found:
        return _delivery(db, found[0], new)
    outgoing = new.outgoing
    db.execute(
        "insert into gateway_outbox (hash, key, channel, chat, state, created, due) "
        "values (?, ?, ?, ?, 'waiting', ?, ?)",
        (digest, new.key, outgoing.chat.channel, hashed(outgoing.chat.target), now, now),
    )
    id = db.last_insert_rowid()
    owner = owner_of(id)
    media.put(db, owner, {"file": outgoing.files})
    bare = msgspec.json.encode(replace(outgoing, files=()))
    db.execute(
        "update gateway_outbox set body = ? where id = ?", (db.blobs.pack(db, owner, bare), id)
    )
    return OutboxEntry(id, new.key, outgoing, "waiting", now, due=now)


def due(
    db: Connection, channel: str, now: float, limit: int
) -> tuple[Sequence[OutboxEntry], Mapping[int, str]]:
    """Due messages; and, by id, why others cannot be read."""
    found: list[OutboxEntry] = []
    lost: dict[int, str] = {}
    size = 0
    for row in db.rows(_DUE, (channel, now, limit)):
        try:
            delivery = _delivery(db, row, whole=True)
        except HermesError as error:
            lost[row[0]] = error.message
            continue
        size += sum(len(one.data) for one in delivery.outgoing.files)
        if found and size > MAX_BYTES:
            break
        found.append(delivery)
    return found, lost


def give_up_outbound(db: Connection, lost: Mapping[int, str]) -> None:
    for id, why in lost.items():
        not_sent(db, id, why, None, doubtful=False)


def _delivery(
    db: Connection,
    row: tuple[Any, ...],
    new: NewDelivery | None = None,
    whole: bool = False,
) -> OutboxEntry:
    """`new` replaces content that was forgotten or lost."""
    id, key, *_, channel, body = row
    if body is None and new is not None:
        return _made(row, new.key, new.outgoing)
    try:
        outgoing = _outgoing.decode(db.blobs.unpack(body))
        found = media.get(db, owner_of(id), whole)
    except HermesError as error:
        if whole:
            raise
        lost = OutboundMessage(Chat(channel, ""), f"({error.message})")
        return _made(row, key, new.outgoing if new else lost)
    return _made(row, key, replace(outgoing, files=tuple(found["file"])) if found else outgoing)


def _made(row: tuple[Any, ...], key: str, outgoing: OutboundMessage) -> OutboxEntry:
    id, _, state, created, attempts, due, receipt, sent, error, doubtful, part, *times = row
    return OutboxEntry(
        id, key, outgoing, state, created, attempts, due, receipt, sent, error, bool(doubtful),
        part, *times[:2],
    )  # fmt: skip


def sending(db: Connection, id: int, attempts: int, doubtful: bool = False) -> bool:
    """Begin an attempt. False if it was sent or tried since it was read with this count of
    attempts. `doubtful`: the previous attempt may have arrived."""
    db.execute(
        "update gateway_outbox set attempts = attempts + 1, doubtful = max(doubtful, ?), "
        "unsure = coalesce(unsure, iif(state = 'sending', tried, null)), tried = ?, "
        f"state = 'sending' where id = ? and attempts = ? and {_UNSENT}",
        (int(doubtful), db.now(), id, attempts),
    )
    return db.changes() > 0


def partly_sent(db: Connection, id: int, part: int) -> None:
    """The first `part` pieces of a long message were sent; the next is due."""
    db.execute(
        "update gateway_outbox set state = 'waiting', part = ?, attempts = 0, error = '', "
        "unsure = null where id = ?",
        (part, id),
    )


def sent(db: Connection, id: int, receipt: str) -> None:
    db.execute(
        "update gateway_outbox set state = 'sent', receipt = ?, sent = ?, error = '' where id = ?",
        (receipt, db.now(), id),
    )


def not_sent(
    db: Connection, id: int, error: str, due: float | None, doubtful: bool, counted: bool = True,
    unsure: bool = False,
) -> None:  # fmt: skip
    """An attempt failed; without `due` the message is given up (`dead`). An attempt that is not
    `counted` was not the fault of the message. `unsure`: it may have arrived."""
    state = "dead" if due is None else "waiting"
    db.execute(
        f"update gateway_outbox set state = ?, error = ?, due = coalesce(?, due), "
        f"doubtful = max(doubtful, ?), attempts = attempts - ?, "
        f"unsure = coalesce(unsure, iif(?, tried, null)) where id = ? and {_UNSENT}",
        (state, error, due, int(doubtful), int(not counted), int(unsure), id),
    )


def deliveries(
    db: Connection, *, channel: str = "", state: DeliveryState | None = None, key: str = "",
    limit: int = 100,
) -> list[OutboxEntry]:  # fmt: skip
    """Newest first, files without content; `key` is a prefix. A message whose content is lost has
    no chat, and says so in its text."""
    wanted, values = ["body is not null"], []
    for column, value in (("channel", channel), ("state", state)):
        if value:
            wanted.append(f"{column} = ?")
            values.append(value)
    if key:
        wanted.append("key >= ? and key < ?")
        values += [key, key + "\U0010ffff"]
    where = " and ".join(wanted)
    sql = f"select {_COLUMNS} from gateway_outbox where {where} order by id desc limit ?"
    return [_delivery(db, row) for row in db.rows(sql, (*values, limit))]


def again(db: Connection, id: int, now: float) -> OutboxEntry:
    """Retry a message that was given up."""
    found = db.rows(
        "update gateway_outbox set state = 'waiting', attempts = 0, due = ? "
        f"where id = ? and state = 'dead' returning {_COLUMNS}",
        (now, id),
    )
    if not found:
        raise NotFound(f"no undeliverable message {id}", "`hermes gateway dead` lists them")
    return _delivery(db, found[0])


def drop(db: Connection, id: int) -> None:
    found = db.rows(
        "update gateway_outbox set state = 'dropped' "
        f"where id = ? and (state = 'dead' or {_UNSENT}) returning id",
        (id,),
    )
    if not found:
        raise NotFound(f"no undeliverable message {id}", "`hermes gateway dead` lists them")
    _forget(db, id)


def _forget(db: Connection, id: int) -> None:
    media.drop(db, owner_of(id))
    db.execute(
        "update gateway_outbox set body = null, key = null, receipt = '', error = '' where id = ?",
        (id,),
    )


def _tidy_outbox(db: Connection, before: float) -> int:
    found = db.rows(
        "select id from gateway_outbox where body is not null and state = 'sent' and sent < ?",
        (before,),
    )
    for (id,) in found:
        _forget(db, id)
    return len(found)


def tidy_gateway(db: Connection, before: float) -> int:
    drop_deleted_bindings(db)
    return inbox.tidy_inbox(db, before) + _tidy_outbox(db, before)
