"""The audit log: what the gate was asked, what it decided, who agreed, what ran. Each entry is
hashed with the one before, so none can be changed, moved or removed unnoticed. Only the end can be
cut off, which an earlier head, kept elsewhere, reveals."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from hermes_agent.core.events import (
    ApprovalGiven,
    CallFinished,
    CallIntended,
    CallJudged,
    Event,
    ParkDecided,
    QuestionAnswered,
    QuestionAsked,
    encode,
    kind_of,
)
from hermes_agent.core.records import AuditEntry, AuditReport
from hermes_agent.store.engine.connection import Connection

START = bytes(32)
"""The hash before the first entry."""

_encoder = msgspec.json.Encoder(order="deterministic")


def _judged(event: CallJudged) -> dict[str, Any]:
    return {
        "effect": event.effect,
        "tool": event.tool,
        "call": event.text,
        "action": event.action,
        "rule": event.rule,
        "reason": event.reason,
        "terminal": event.facts.terminal,
        "actor": event.facts.actor,
        "audits": event.audits,
        "secrets": event.secrets,
        "runs": None if event.input is None else _encoder.encode(event.input)[:500].decode(),
    }


def _consent(answer: str | None) -> str | None:
    """An answer in words belongs to the session and is deleted with it; the log only says
    'words'."""
    return answer if answer in {None, "yes", "no", "session", "always"} else "words"


_DETAILS: dict[type[Event], Callable[[Any], dict[str, Any]]] = {
    CallJudged: _judged,
    QuestionAsked: lambda asked: {"id": asked.id, "effect": asked.effect, "consent": asked.consent},
    ApprovalGiven: lambda agreed: {"id": agreed.id, "by": agreed.by},
    QuestionAnswered: lambda answered: {
        "id": answered.id, "answer": _consent(answered.answer), "by": answered.by,
    },
    CallIntended: lambda call: {
        "effect": call.effect, "tool": call.tool, "attempt": call.attempt,
    },
    CallFinished: lambda call: {"effect": call.effect, "tool": call.tool, "ok": call.ok},
    ParkDecided: lambda park: {
        "effect": park.effect, "decision": park.decision, "by": park.by,
    },
}  # fmt: skip


def note(db: Connection, session: str, number: int, now: float, event: Event) -> None:
    """Add an entry if the event belongs in the log."""
    details_of = _DETAILS.get(type(event))
    if details_of is None:
        return
    row = db.execute("select number, hash from audit order by number desc limit 1").fetchone()
    last, before = row or (0, START)
    digest = hashlib.sha256(encode(event)).digest()
    details = _encoder.encode({"kind": kind_of(event), **details_of(event)}).decode()
    entry = _entry(last + 1, now, session, number, digest, details)
    db.execute(
        "insert into audit values (?, ?, ?, ?, ?, ?, ?)",
        (last + 1, now, session, number, digest, details, _chained(before, entry)),
    )


def _entry(
    number: int, time: float, session: str, event: int, digest: bytes, details: str
) -> bytes:
    """The whole entry as one JSON object: what is shown and hashed."""
    facts = {"number": number, "time": time, "session": session, "event": event}
    head = msgspec.json.encode({**facts, "digest": digest.hex()})
    return head[:-1] + b"," + details.encode()[1:]


def _chained(before: bytes, entry: bytes) -> bytes:
    return hashlib.sha256(before.hex().encode() + b"\n" + entry).digest()


def audit(
    db: Connection, since: float = 0.0, session: str = "", limit: int = 1000, after: int = 0
) -> list[AuditEntry]:
    """The newest matching entries, oldest first."""
    found = db.rows(
        "select number, time, session, event, digest, details, hash from audit where time >= ?1 "
        "and number > ?2 and (?3 = '' or session = ?3) order by number desc limit ?4",
        (since, after, session, limit),
    )
    return [
        AuditEntry(number, time, of, _entry(number, time, of, *rest).decode(), hash.hex())
        for number, time, of, *rest, hash in reversed(found)
    ]


def verify_audit(db: Connection, head: str = "") -> AuditReport:
    """Recompute the chain and compare it with the journal, both ways, as far as the sessions still
    exist. `head`, from an earlier report, must be in it."""
    troubles: list[str] = []
    before, last = START, 0
    found_head = not head
    for number, time, session, event, digest, details, hash in db.rows(
        "select number, time, session, event, digest, details, hash from audit order by number"
    ):
        if number != last + 1:
            troubles.append(f"entries {last + 1} to {number - 1} are missing")
        if _chained(before, _entry(number, time, session, event, digest, details)) != hash:
            troubles.append(f"entry {number} was changed, or the one before it")
        elif (trouble := _against_journal(db, session, event, digest)) != "":
            troubles.append(f"entry {number}: {trouble}")
        found_head = found_head or f"{number}:{hash.hex()}" == head
        before, last = hash, number
    if not found_head:
        troubles.append(f"the log does not contain {head}: its end was cut off or it was rewritten")
    troubles += _not_in_the_log(db)
    return AuditReport(last, f"{last}:{before.hex()}", tuple(troubles))


def _not_in_the_log(db: Connection) -> list[str]:
    """Events that should have an entry and have none."""
    kinds = ", ".join(f"'{kind.__struct_config__.tag}'" for kind in _DETAILS)
    found = db.rows(
        "select s.id, e.number from events e join sessions s on s.key = e.session "
        f"where e.kind in ({kinds}) and e.number > s.branch_at "
        "and e.time >= (select value from meta where name = 'audit_since') "
        "and not exists (select 1 from audit a where a.session = s.id and a.event = e.number) "
        "limit 20",
    )
    return [f"event {number} of session {id} has no entry" for id, number in found]


def _against_journal(db: Connection, session: str, event: int, digest: bytes) -> str:
    """How the journal differs from an entry; empty when they agree."""
    row = db.execute(
        "select e.body from sessions s join events e on e.session = s.key "
        "where s.id = ? and e.number = ?",
        (session, event),
    ).fetchone()
    if row is None:
        gone = db.execute("select 1 from sessions where id = ?", (session,)).fetchone() is None
        return "" if gone else f"event {event} of session {session} is gone"
    stored = db.blobs.unpack(row[0])
    data = stored.encode() if isinstance(stored, str) else stored
    if hashlib.sha256(data).digest() != digest:
        return f"event {event} of session {session} was changed"
    return ""
