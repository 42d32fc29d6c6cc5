"""Incidents, their timelines, the notices that go with them, and what is known of checks, logs and
services, as rows."""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.incidents import (
    NEVER,
    OPEN,
    CheckHourStats,
    CheckState,
    Incident,
    IncidentState,
    LogCursor,
    MonitoredService,
    NewEntry,
    NewNotice,
    Notice,
    TimelineEntry,
)
from hermes_agent.store.engine.database import rows

HOUR = 3_600.0
KEPT_HOURS = 90 * 24
"""How long what a check came to is known, hour by hour."""
OPEN_STATES = ", ".join(f"'{state}'" for state in sorted(OPEN))

_decoder = msgspec.json.Decoder(Incident)
_service = msgspec.json.Decoder(MonitoredService)
_NOTICE = (
    "select id, 'inc-' || incident, kind, number, channel, text, created, sent, attempts, due, "
    "error from incident_notices "
)


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def number_of(id: str) -> int:
    """The number of an incident by its id; `NotFound` where it is none."""
    digits = id.removeprefix("inc-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return int(digits)


def incident(db: apsw.Connection, id: str) -> Incident:
    found = rows(db, "select body from incidents where number = ?", (number_of(id),))
    if not found:
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return _decoder.decode(found[0][0])


def incidents(db: apsw.Connection, open: bool | None, limit: int, source: str) -> list[Incident]:
    wanted = "1" if open is None else f"state {'' if open else 'not '}in ({OPEN_STATES})"
    ask = f"select body from incidents where {wanted} and (?1 = '' or source = ?1) "
    found = rows(db, ask + "order by number desc limit ?2", (source, limit))
    return [_decoder.decode(body) for (body,) in found]


def keep(db: apsw.Connection, new: Incident) -> None:
    """Write an incident as it is now. What is no incident is not written."""
    body = msgspec.json.encode(new)
    _decoder.decode(body)
    db.execute(
        "update incidents set state = ?, body = ? where number = ?",
        (new.state, body.decode(), number_of(new.id)),
    )


def change(
    db: apsw.Connection,
    id: str,
    now: float,
    entries: Sequence[NewEntry],
    notices: Sequence[NewNotice],
    expect: frozenset[IncidentState] | None,
    fields: dict[str, Any],
) -> Incident:
    before = incident(db, id)
    if expect is not None and before.state not in expect:
        wanted = " or ".join(sorted(expect))
        raise HermesError(f"incident {id} is {before.state}, not {wanted}", "look at it again")
    if fields.get("state") in ("resolved", "closed") and before.ended is None:
        fields.setdefault("ended", now)
    after = msgspec.structs.replace(before, **{"changed": now, **fields})
    keep(db, after)
    add_entries(db, id, now, entries)
    add_notices(db, id, now, notices)
    return after


def add_entries(
    db: apsw.Connection,
    id: str,
    now: float,
    entries: Sequence[NewEntry],
) -> None:
    number = number_of(id)
    ask = "select coalesce(max(number), 0) from incident_entries where incident = ?"
    last: int = db.execute(ask, (number,)).get
    for place, (kind, text, data) in enumerate(entries, last + 1):
        db.execute(
            "insert into incident_entries values (?, ?, ?, ?, ?, ?)",
            (number, place, now, kind, text, encoded(dict(data))),
        )


def timeline(db: apsw.Connection, id: str, after: int) -> list[TimelineEntry]:
    incident(db, id)
    found = rows(
        db,
        "select number, time, kind, text, data from incident_entries "
        "where incident = ? and number > ? order by number",
        (number_of(id), after),
    )
    return [
        TimelineEntry(id, number, time, kind, text, msgspec.json.decode(data))
        for number, time, kind, text, data in found
    ]


def add_notices(db: apsw.Connection, id: str, now: float, notices: Sequence[NewNotice]) -> None:
    for kind, number, channel, text in notices:
        db.execute(
            "insert or ignore into incident_notices "
            "(incident, kind, number, channel, text, created, due) values (?, ?, ?, ?, ?, ?, ?)",
            (number_of(id), kind, number, channel, text, now, now),
        )


def notices(db: apsw.Connection, incident: str, due: float | None) -> list[Notice]:
    """What was given up is never due."""
    wanted, values = ["1"], []
    if incident:
        wanted.append("incident = ?")
        values.append(float(number_of(incident)))
    if due is not None:
        wanted.append("sent is null and due <= ?")
        values.append(min(due, NEVER - 1))
    ask = f"{_NOTICE} where {' and '.join(wanted)} order by id"
    return [Notice(*row) for row in rows(db, ask, values)]


def notice_sent(db: apsw.Connection, id: int, now: float) -> None:
    db.execute(
        "update incident_notices set sent = ?, attempts = attempts + 1, error = '' "
        "where id = ? and sent is null",
        (now, id),
    )


def notice_failed(db: apsw.Connection, id: int, error: str, due: float) -> None:
    db.execute(
        "update incident_notices set attempts = attempts + 1, error = ?, due = ? "
        "where id = ? and sent is null",
        (error, due, id),
    )


def check_states(db: apsw.Connection) -> list[CheckState]:
    ask = "select name, ok, since, last, failures, detail, seconds from checks order by name"
    return [
        CheckState(row[0], None if row[1] is None else bool(row[1]), *row[2:])
        for row in rows(db, ask)
    ]


def save_check(db: apsw.Connection, state: CheckState) -> None:
    db.execute(
        "insert or replace into checks values (?, ?, ?, ?, ?, ?, ?)",
        (
            state.name, state.ok, state.since, state.last, state.failures, state.detail,
            state.seconds,
        ),
    )  # fmt: skip
    hour = state.last // HOUR * HOUR
    db.execute(
        "insert into check_hours values (?, ?, 1, ?, ?) on conflict (name, hour) do update set "
        "runs = runs + 1, failures = failures + excluded.failures, "
        "seconds = seconds + excluded.seconds",
        (state.name, hour, int(state.ok is False), state.seconds),
    )
    db.execute(
        "delete from check_hours where name = ? and hour < ?",
        (state.name, hour - KEPT_HOURS * HOUR),
    )


def check_hours(db: apsw.Connection, since: float) -> list[CheckHourStats]:
    ask = "select name, hour, runs, failures, seconds from check_hours "
    found = rows(db, ask + "where hour >= ? order by name, hour", (since // HOUR * HOUR,))
    return [CheckHourStats(*row) for row in found]


def log_cursors(db: apsw.Connection) -> list[LogCursor]:
    return [LogCursor(*row) for row in rows(db, "select path, file, offset from log_cursors")]


def save_log_cursor(db: apsw.Connection, place: LogCursor) -> None:
    db.execute(
        "insert or replace into log_cursors values (?, ?, ?)",
        (place.path, place.file, place.offset),
    )


def services(db: apsw.Connection) -> list[MonitoredService]:
    return [
        _service.decode(body) for (body,) in rows(db, "select body from services order by name")
    ]


def learn_service(db: apsw.Connection, new: MonitoredService) -> None:
    """What is said of it now counts; what it needs is added to what was known."""
    found = rows(db, "select body from services where name = ?", (new.name,))
    before = _service.decode(found[0][0]) if found else MonitoredService(new.name)
    kept = MonitoredService(
        new.name,
        tuple(dict.fromkeys((*before.needs, *new.needs))),
        new.owner or before.owner,
        new.about or before.about,
        new.terminal or before.terminal,
        True,
    )
    db.execute("insert or replace into services values (?, ?)", (new.name, encoded(kept)))
