"""Known people, which session each chat is bound to, and the health of channels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.gateway import ChannelHealth, ChatBinding, Identity, Pairing, QueueDepths
from hermes_agent.store.engine.connection import Connection

_identity = msgspec.json.Decoder(Identity)
_pairing = msgspec.json.Decoder(Pairing)
_bond = msgspec.json.Decoder(ChatBinding)
_proof = msgspec.json.Decoder(ChannelHealth)

MAX_STRANGERS = 10_000
"""Per channel; more are not counted."""


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def identity(db: Connection, channel: str, hash: str) -> Identity | None:
    sql = "select body from gateway_identities where channel = ? and hash = ?"
    found = db.rows(sql, (channel, hash))
    return _identity.decode(found[0][0]) if found else None


def identities(db: Connection, channel: str = "") -> Sequence[Identity]:
    sql = "select body from gateway_identities where ?1 in ('', channel) order by channel, hash"
    return [_identity.decode(body) for (body,) in db.rows(sql, (channel,))]


def save_identity(db: Connection, identity: Identity) -> None:
    db.execute(
        "delete from gateway_strangers where channel = ? and hash = ?",
        (identity.channel, identity.hash),
    )
    db.execute(
        "insert or replace into gateway_identities values (?, ?, ?)",
        (identity.channel, identity.hash, _text(identity)),
    )


def drop_identity(db: Connection, channel: str, hash: str) -> bool:
    db.execute("delete from gateway_identities where channel = ? and hash = ?", (channel, hash))
    return db.changes() > 0


def stranger(db: Connection, channel: str, hash: str) -> None:
    """Count an unknown sender; one who is let in later is no longer counted."""
    db.execute(
        "insert or ignore into gateway_strangers select ?1, ?2 "
        "where (select count(*) from gateway_strangers where channel = ?1) < ?3",
        (channel, hash, MAX_STRANGERS),
    )


def strangers(db: Connection) -> Mapping[str, int]:
    """Unknown senders by channel, up to a bound."""
    return dict(db.rows("select channel, count(*) from gateway_strangers group by channel"))


def save_pairing(db: Connection, pairing: Pairing) -> None:
    """The code itself is not stored."""
    digest = db.context.pseudonyms("code", pairing.channel, pairing.code)
    db.execute(
        "insert or replace into gateway_pairings values (?, ?, ?, ?)",
        (digest, pairing.channel, pairing.expires, _text(replace(pairing, code=""))),
    )


def redeem_pairing(
    db: Connection, channel: str, code: str, now: float, let_in: Callable[[Pairing], Identity]
) -> Pairing | None:
    """Use up the pairing of a code and save the identity it admits; None if there is none or it has
    expired."""
    db.execute("delete from gateway_pairings where expires <= ?", (now,))
    digest = db.context.pseudonyms("code", channel, code)
    found = db.rows("delete from gateway_pairings where hash = ? returning body", (digest,))
    if not found:
        return None
    pairing = replace(_pairing.decode(found[0][0]), code=code)
    save_identity(db, let_in(pairing))
    return pairing


_BOND = "b.body, b.session, b.told"


def _bonds(found: Sequence[tuple[Any, ...]]) -> list[ChatBinding]:
    return [
        replace(_bond.decode(body), session=session, told=told) for body, session, told in found
    ]


def binding(db: Connection, key: str) -> ChatBinding | None:
    found = _bonds(db.rows(f"select {_BOND} from gateway_bindings b where key = ?", (key,)))
    return found[0] if found else None


def bindings(db: Connection, *, behind: bool = False) -> Sequence[ChatBinding]:
    """All bindings, or those whose session has new events."""
    sql = f"select {_BOND} from gateway_bindings b "
    if behind:
        sql += "join sessions s on s.id = b.session where s.last > b.told "
    return _bonds(db.rows(sql + "order by b.key"))


def binding_of(db: Connection, session: str) -> ChatBinding | None:
    sql = f"select {_BOND} from gateway_bindings b where session = ? order by key limit 1"
    found = _bonds(db.rows(sql, (session,)))
    return found[0] if found else None


def save_binding(db: Connection, binding: ChatBinding) -> None:
    """Bind a session to this chat and no other. A chat that moves to another session still hears
    how the previous one ends."""
    sql = f"select {_BOND} from gateway_bindings b where key = ? and session <> ?"
    for before in _bonds(db.rows(sql, (binding.key, binding.session))):
        _put_bond(db, replace(before, key=f"{before.key}/{before.session}"))
    gone = db.rows(
        "delete from gateway_bindings where session = ? returning told", (binding.session,)
    )
    _put_bond(db, replace(binding, told=max([binding.told, *(told for (told,) in gone)])))


def _put_bond(db: Connection, binding: ChatBinding) -> None:
    db.execute(
        "insert or replace into gateway_bindings values (?, ?, ?, ?)",
        (binding.key, binding.session, binding.told, _text(binding)),
    )


def drop_deleted_bindings(db: Connection) -> None:
    """Bindings of deleted sessions have nothing more to deliver."""
    db.execute("delete from gateway_bindings where session not in (select id from sessions)")


def proofs(db: Connection) -> Mapping[str, ChannelHealth]:
    found = db.rows("select channel, body from gateway_health order by channel")
    return {channel: _proof.decode(body) for channel, body in found}


def save_health(db: Connection, proof: ChannelHealth) -> None:
    db.execute("insert or replace into gateway_health values (?, ?)", (proof.channel, _text(proof)))


_COUNTS = """
select channel, sum(new), sum(aside), sum(waiting), sum(dead), min(oldest) from (
  select channel, state = 'new' as new, state = 'dead' as aside, 0 as waiting, 0 as dead,
    null as oldest
  from gateway_inbox where state in ('new', 'dead')
  union all
  select channel, 0, 0, 1, 0, created from gateway_outbox where state in ('waiting', 'sending')
  union all
  select channel, 0, 0, 0, 1, null from gateway_outbox where state = 'dead'
) group by channel
"""


def counts(db: Connection) -> Mapping[str, QueueDepths]:
    return {channel: QueueDepths(*figures) for channel, *figures in db.rows(_COUNTS)}
