"""Stores a signal: in the incident that it belongs to, or in a new one."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw
import msgspec
from msgspec.structs import replace

from hermes_agent.core.incidents import (
    Incident,
    IngestResult,
    MonitoredService,
    NewNotice,
    Severity,
    Signal,
)
from hermes_agent.store.engine.database import rows
from hermes_agent.store.incidents import incidents
from hermes_agent.store.incidents.incidents import OPEN_STATES, encoded, number_of

Tell = Callable[[Incident], Sequence[NewNotice]]

SILENT_SECONDS = 172_800.0
"""A signal that was not raised for so long counts as over: a new one opens a new incident."""

MAX_OPEN = 50
"""When so many are open, further signals are collected in one incident."""
UNCOUNTED = ("person", "drill")
"""Sources that do not count towards that limit, nor are held back by it."""
MANY = "many-signals"
"""The fingerprint of the incident that collects them."""

SIGNAL = "select id, body from signals"

_signal = msgspec.json.Decoder(Signal)


def take(
    db: apsw.Connection,
    signal: Signal,
    now: float,
    window: float,
    topology: Sequence[MonitoredService],
    tell: Tell,
) -> IngestResult:
    signal = replace(signal, at=signal.at or now)
    if not signal.firing:
        return _over(db, signal, now)
    if (same := _same(db, signal.fingerprint, now - SILENT_SECONDS)) is not None:
        return _again(db, same, signal, now)
    if stale := _ended_since(db, signal):
        return IngestResult(0, stale, False, repeated=True)
    for incident in _lately(db, now - window):
        if why := relation(incident, signal, topology):
            return _joined(db, incident, signal, now, why)
    if signal.source not in UNCOUNTED and _open_now(db) >= MAX_OPEN:
        return _collected(db, signal, now, tell)
    return _opened(db, signal, now, tell, signal)


def _same(db: apsw.Connection, fingerprint: str, since: float) -> Incident | None:
    """The incident of this signal: an open one, else one that was escalated or closed while it was
    firing, if it was raised since."""
    found = rows(
        db,
        "select i.body from signals s join incidents i on i.number = s.incident "
        f"where s.fingerprint = ? and (i.state in ({OPEN_STATES}) "
        "or (i.state in ('escalated', 'closed') and s.firing and s.last >= ?)) "
        f"order by i.state in ({OPEN_STATES}) desc, i.number desc limit 1",
        (fingerprint, since),
    )
    return msgspec.json.decode(found[0][0], type=Incident) if found else None


def _ended_since(db: apsw.Connection, signal: Signal) -> str:
    """The incident that ended after this signal was seen, which is then out of date; else empty."""
    found = rows(
        db,
        "select i.body from signals s join incidents i on i.number = s.incident "
        "where s.fingerprint = ? order by i.number desc limit 1",
        (signal.fingerprint,),
    )
    last = msgspec.json.decode(found[0][0], type=Incident) if found else None
    return last.id if last and last.ended is not None and signal.at < last.ended else ""


def _lately(db: apsw.Connection, since: float) -> list[Incident]:
    ask = f"select body from incidents where state in ({OPEN_STATES}) and last_signal >= ? "
    return [
        msgspec.json.decode(body, type=Incident)
        for (body,) in rows(db, ask + "order by number desc", (since,))
    ]


def relation(incident: Incident, signal: Signal, topology: Sequence[MonitoredService]) -> str:
    """Why a signal belongs to an incident; empty if it does not. Signals of a drill belong only to
    incidents on its terminal."""
    drills = [incident.source == "drill", signal.source == "drill"]
    if any(drills) and (not all(drills) or incident.terminal != signal.terminal):
        return ""
    if not signal.service:
        return ""
    needs = {service.name: service.needs for service in topology}
    for service in filter(None, (incident.service, *incident.related)):
        if service == signal.service:
            return f"it is of {service}, too"
        if signal.service in _below(service, needs):
            return f"{service} needs {signal.service}"
        if service in _below(signal.service, needs):
            return f"{signal.service} needs {service}"
        shared = set(needs.get(service, ())) & set(needs.get(signal.service, ()))
        if shared:
            return f"{service} and {signal.service} both need {min(shared)}"
    return ""


def _below(service: str, needs: dict[str, tuple[str, ...]]) -> set[str]:
    """All direct and indirect dependencies of a service."""
    found: set[str] = set()
    waiting = list(needs.get(service, ()))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needs.get(name, ())
    return found


def _open_now(db: apsw.Connection) -> int:
    """How many incidents are open, without those of people and drills."""
    found: int = db.execute(
        f"select count(*) from incidents where state in ({OPEN_STATES}) "
        f"and source not in {UNCOUNTED}"
    ).get
    return found


def _collected(db: apsw.Connection, signal: Signal, now: float, tell: Tell) -> IngestResult:
    """Add a signal to the incident that collects a storm of them."""
    ask = f"select body from incidents where fingerprint = ? and state in ({OPEN_STATES})"
    if found := rows(db, ask, (MANY,)):
        incident = msgspec.json.decode(found[0][0], type=Incident)
        return _joined(db, incident, signal, now, f"{MAX_OPEN} or more are open")
    heading = Signal(
        signal.source, MANY, "many signals at once", severity=signal.severity, check=signal.check
    )
    return _opened(db, signal, now, tell, heading)


def _opened(
    db: apsw.Connection, signal: Signal, now: float, tell: Tell, heading: Signal
) -> IngestResult:
    """`heading`: the signal that gives the incident its title and terminal."""
    db.execute(
        "insert into incidents (state, source, fingerprint, opened, last_signal, body) "
        "values ('declared', ?, ?, ?, ?, '')",
        (heading.source, heading.fingerprint, now, now),
    )
    incident = Incident(
        f"inc-{db.last_insert_rowid()}", heading.title, heading.severity, "declared",
        heading.source, heading.fingerprint, heading.service, heading.owner, now, now,
        terminal=heading.terminal, policy=heading.policy,
        checks=(heading.check,) if heading.check is not None else (),
    )  # fmt: skip
    incidents.keep(db, incident)
    id = _keep(db, incident, signal, now)
    text = f"{incident.severity} {incident.title}"
    incidents.add_entries(db, incident.id, now, [("declared", text, _facts(signal))])
    incidents.add_notices(db, incident.id, now, tell(incident))
    return IngestResult(id, incident.id, True)


def _again(db: apsw.Connection, incident: Incident, signal: Signal, now: float) -> IngestResult:
    before = rows(
        db,
        "select firing from signals where incident = ? and fingerprint = ?",
        (number_of(incident.id), signal.fingerprint),
    )
    id = _keep(db, incident, signal, now)
    if not before[0][0]:
        text = f"again: {signal.title}"
        incidents.add_entries(db, incident.id, now, [("signal", text, _facts(signal))])
    _count(db, incident, signal, now)
    return IngestResult(id, incident.id, False, repeated=True)


def _joined(
    db: apsw.Connection, incident: Incident, signal: Signal, now: float, why: str
) -> IngestResult:
    id = _keep(db, incident, signal, now)
    text = f"also: {signal.title} ({why})"
    incidents.add_entries(db, incident.id, now, [("signal", text, _facts(signal))])
    known = (incident.service, *incident.related)
    if incident.fingerprint != MANY and signal.service not in known:
        incident = replace(incident, related=(*incident.related, signal.service))
    if signal.check is not None and signal.check not in incident.checks:
        incident = replace(incident, checks=(*incident.checks, signal.check))
    _count(db, incident, signal, now)
    return IngestResult(id, incident.id, False)


def _count(db: apsw.Connection, incident: Incident, signal: Signal, now: float) -> None:
    """Count a signal; the worst severity wins."""
    severity: Severity = min(incident.severity, signal.severity)
    if severity != incident.severity:
        text = f"severity {incident.severity} becomes {severity}: {signal.title}"
        incidents.add_entries(db, incident.id, now, [("note", text, {})])
    incidents.keep(
        db, replace(incident, signals=incident.signals + 1, severity=severity, changed=now)
    )
    db.execute(
        "update incidents set last_signal = ? where number = ?", (now, number_of(incident.id))
    )


def _over(db: apsw.Connection, signal: Signal, now: float) -> IngestResult:
    """Mark a signal as over in all incidents, and note it in the newest."""
    found = rows(
        db,
        "select id, incident, body from signals where fingerprint = ? and firing "
        "order by incident desc",
        (signal.fingerprint,),
    )
    for id, _number, body in found:
        over = replace(_signal.decode(body), firing=False)
        db.execute(
            "update signals set firing = 0, last = ?, body = ? where id = ?",
            (now, encoded(over), id),
        )
    if not found:
        return IngestResult(0, "", False)
    id, incident = found[0][0], f"inc-{found[0][1]}"
    text = f"over: {_signal.decode(found[0][2]).title}"
    incidents.add_entries(db, incident, now, [("signal", text, {"over": True})])
    return IngestResult(id, incident, False, repeated=True)


def _keep(db: apsw.Connection, incident: Incident, signal: Signal, now: float) -> int:
    found: int = db.execute(
        "insert into signals (incident, fingerprint, firing, first, last, count, body) "
        "values (?, ?, 1, ?, ?, 1, ?) on conflict (incident, fingerprint) do update set "
        "firing = 1, last = excluded.last, count = count + 1, body = excluded.body returning id",
        (number_of(incident.id), signal.fingerprint, now, now, encoded(signal)),
    ).get
    return found


def _facts(signal: Signal) -> dict[str, Any]:
    return {"source": signal.source, "service": signal.service, "detail": signal.detail}


def decoded(found: Iterable[tuple[Any, ...]]) -> list[Signal]:
    """Signals from rows of `SIGNAL`."""
    return [replace(_signal.decode(body), id=id) for id, body in found]
