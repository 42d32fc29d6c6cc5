"""Assigns signals to incidents: the same problem is one incident, and so are related services."""

from collections.abc import Callable, Sequence
from typing import Any

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
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.incidents import incidents
from hermes_agent.store.incidents.incidents import OPEN_STATES, encoded, number_of

Tell = Callable[[Incident], Sequence[NewNotice]]

SILENT_SECONDS = 172_800.0
"""A signal not raised for this long counts as over: people who took the incident over must hear of
the next one."""

MAX_OPEN = 50
"""Beyond this many open incidents, further signals are collected in one."""
UNCOUNTED = ("person", "drill")
"""Sources that do not count towards the limit and are not held to it."""
MANY = "many-signals"
"""The fingerprint of the incident that collects them."""

_signal = msgspec.json.Decoder(Signal)


def take_signal(
    db: Connection,
    signal: Signal,
    window: float,
    topology: Sequence[MonitoredService],
    tell: Tell = lambda _incident: (),
) -> IngestResult:
    """Store a signal. It joins the open incident with its fingerprint, else an escalated or closed
    one in which it never ceased (nor was silent for two days), else an open incident of a related
    service that had a signal in the last `window` seconds. Otherwise it opens an incident
    (`declared`, with a timeline entry and the notices from `tell`) or, if very many are open, joins
    the one that collects the rest. A signal that has ceased, or was seen (`at`) before its incident
    ended, opens nothing."""
    now = db.now()
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


def _same(db: Connection, fingerprint: str, since: float) -> Incident | None:
    """The incident with this signal: an open one, else one that people took over or closed while it
    was still raised."""
    found = db.rows(
        "select i.body from signals s join incidents i on i.number = s.incident "
        f"where s.fingerprint = ? and (i.state in ({OPEN_STATES}) "
        "or (i.state in ('escalated', 'closed') and s.firing and s.last >= ?)) "
        f"order by i.state in ({OPEN_STATES}) desc, i.number desc limit 1",
        (fingerprint, since),
    )
    return msgspec.json.decode(found[0][0], type=Incident) if found else None


def _ended_since(db: Connection, signal: Signal) -> str:
    """The incident that ended after this signal was seen, which is old news; empty if there is
    none."""
    found = db.rows(
        "select i.body from signals s join incidents i on i.number = s.incident "
        "where s.fingerprint = ? order by i.number desc limit 1",
        (signal.fingerprint,),
    )
    last = msgspec.json.decode(found[0][0], type=Incident) if found else None
    return last.id if last and last.ended is not None and signal.at < last.ended else ""


def _lately(db: Connection, since: float) -> list[Incident]:
    sql = f"select body from incidents where state in ({OPEN_STATES}) and last_signal >= ? "
    return [
        msgspec.json.decode(body, type=Incident)
        for (body,) in db.rows(sql + "order by number desc", (since,))
    ]


def relation(incident: Incident, signal: Signal, topology: Sequence[MonitoredService]) -> str:
    """Why a signal belongs to an incident; empty if it does not. Signals of a drill belong only to
    incidents of the same terminal."""
    drills = [incident.source == "drill", signal.source == "drill"]
    if any(drills) and (not all(drills) or incident.terminal != signal.terminal):
        return ""
    if not signal.service:
        return ""
    needs = {service.name: service.needs for service in topology}
    for service in filter(None, (incident.service, *incident.related)):
        if service == signal.service:
            return f"also about {service}"
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


def _open_now(db: Connection) -> int:
    """Open incidents that were not raised by a person or a drill."""
    found: int = db.execute(
        f"select count(*) from incidents where state in ({OPEN_STATES}) "
        f"and source not in {UNCOUNTED}"
    ).get
    return found


def _collected(db: Connection, signal: Signal, now: float, tell: Tell) -> IngestResult:
    """Collect signals beyond the limit in one incident."""
    sql = f"select body from incidents where fingerprint = ? and state in ({OPEN_STATES})"
    if found := db.rows(sql, (MANY,)):
        incident = msgspec.json.decode(found[0][0], type=Incident)
        return _joined(db, incident, signal, now, f"{MAX_OPEN} or more are open")
    heading = Signal(
        signal.source, MANY, "many signals at once", severity=signal.severity, check=signal.check
    )
    return _opened(db, signal, now, tell, heading)


def _opened(
    db: Connection, signal: Signal, now: float, tell: Tell, heading: Signal
) -> IngestResult:
    """`heading` gives the incident its title and terminal."""
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
    incidents.save(db, incident)
    id = _save(db, incident, signal, now)
    text = f"{incident.severity} {incident.title}"
    incidents.add_entries(db, incident.id, now, [("declared", text, _facts(signal))])
    incidents.add_notices(db, incident.id, now, tell(incident))
    return IngestResult(id, incident.id, True)


def _again(db: Connection, incident: Incident, signal: Signal, now: float) -> IngestResult:
    before = db.rows(
        "select firing from signals where incident = ? and fingerprint = ?",
        (number_of(incident.id), signal.fingerprint),
    )
    id = _save(db, incident, signal, now)
    if not before[0][0]:
        text = f"again: {signal.title}"
        incidents.add_entries(db, incident.id, now, [("signal", text, _facts(signal))])
    _count(db, incident, signal, now)
    return IngestResult(id, incident.id, False, repeated=True)


def _joined(
    db: Connection, incident: Incident, signal: Signal, now: float, why: str
) -> IngestResult:
    id = _save(db, incident, signal, now)
    text = f"also: {signal.title} ({why})"
    incidents.add_entries(db, incident.id, now, [("signal", text, _facts(signal))])
    known = (incident.service, *incident.related)
    if incident.fingerprint != MANY and signal.service not in known:
        incident = replace(incident, related=(*incident.related, signal.service))
    if signal.check is not None and signal.check not in incident.checks:
        incident = replace(incident, checks=(*incident.checks, signal.check))
    _count(db, incident, signal, now)
    return IngestResult(id, incident.id, False)


def _count(db: Connection, incident: Incident, signal: Signal, now: float) -> None:
    """Count a signal; the worst severity wins."""
    severity: Severity = min(incident.severity, signal.severity)
    if severity != incident.severity:
        text = f"severity {incident.severity} becomes {severity}: {signal.title}"
        incidents.add_entries(db, incident.id, now, [("note", text, {})])
    incidents.save(
        db, replace(incident, signals=incident.signals + 1, severity=severity, changed=now)
    )
    db.execute(
        "update incidents set last_signal = ? where number = ?", (now, number_of(incident.id))
    )


def _over(db: Connection, signal: Signal, now: float) -> IngestResult:
    """Mark the signal as over in every incident; the newest one notes it."""
    found = db.rows(
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


def _save(db: Connection, incident: Incident, signal: Signal, now: float) -> int:
    found: int = db.execute(
        "insert into signals (incident, fingerprint, firing, first, last, count, body) "
        "values (?, ?, 1, ?, ?, 1, ?) on conflict (incident, fingerprint) do update set "
        "firing = 1, last = excluded.last, count = count + 1, body = excluded.body returning id",
        (number_of(incident.id), signal.fingerprint, now, now, encoded(signal)),
    ).get
    return found


def _facts(signal: Signal) -> dict[str, Any]:
    return {"source": signal.source, "service": signal.service, "detail": signal.detail}


def signals(db: Connection, *, incident: str = "", limit: int = 100) -> list[Signal]:
    """Newest first."""
    wanted = number_of(incident) if incident else 0
    sql = "select id, body from signals where ?1 = 0 or incident = ?1 order by last desc, id desc "
    return [
        replace(_signal.decode(body), id=id)
        for id, body in db.rows(sql + "limit ?2", (wanted, limit))
    ]


def firing(db: Connection, incident: str) -> list[Signal]:
    """Signals of an incident that are still raised, the last of each fingerprint."""
    sql = "select id, body from signals where incident = ? and firing order by id"
    found = db.rows(sql, (number_of(incident),))
    return [replace(_signal.decode(body), id=id) for id, body in found]
