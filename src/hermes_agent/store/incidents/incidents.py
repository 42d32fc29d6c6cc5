"""Incidents with their timelines and notices; the state of checks, logs and services."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.incidents import (
    NEVER,
    OPEN,
    CheckHourStats,
    CheckState,
    EntryKind,
    Incident,
    IncidentState,
    LogCursor,
    MonitoredService,
    NewNotice,
    Notice,
    TimelineEntry,
)
from hermes_agent.core.text.format import hour_of
from hermes_agent.store.engine.connection import Connection

HOUR = 3_600.0
KEPT_HOURS = 90 * 24
"""How long hourly check results are stored."""
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
    """The number in an incident id; `NotFound` if it is not one."""
    digits = id.removeprefix("inc-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return int(digits)


def incident(db: Connection, id: str) -> Incident:
    found = db.rows("select body from incidents where number = ?", (number_of(id),))
    if not found:
        raise NotFound(f"no incident {id!r}", "`hermes incidents` lists them")
    return _decoder.decode(found[0][0])


def incidents(
    db: Connection, *, open: bool | None = None, limit: int = 50, source: str = ""
) -> list[Incident]:
    """Newest first."""
    wanted = "1" if open is None else f"state {'' if open else 'not '}in ({OPEN_STATES})"
    sql = f"select body from incidents where {wanted} and (?1 = '' or source = ?1) "
    found = db.rows(sql + "order by number desc limit ?2", (source, limit))
    return [_decoder.decode(body) for (body,) in found]


def save(db: Connection, new: Incident) -> None:
    """Save an incident; raises if it is not valid."""
    body = msgspec.json.encode(new)
    _decoder.decode(body)
    db.execute(
        "update incidents set state = ?, body = ? where number = ?",
        (new.state, body.decode(), number_of(new.id)),
    )


def change_incident(
    db: Connection,
    /,
    id: str,
    entries: Sequence[tuple[EntryKind, str, Mapping[str, Any]]],
    notices: Sequence[NewNotice] = (),
    expect: frozenset[IncidentState] | None = None,
    **fields: Any,
) -> Incident:
    """Change an incident, its timeline and its notices in one transaction. A notice that exists
    stays as it is. `ended` defaults to now if it becomes `resolved` or `closed`. `HermesError`,
    with nothing done, if it is in none of the states in `expect`."""
    before, now = incident(db, id), db.now()
    if expect is not None and before.state not in expect:
        wanted = " or ".join(sorted(expect))
        raise HermesError(
            f"incident {id} is {before.state}, not {wanted}", "reload it and try again"
        )
    if fields.get("state") in ("resolved", "closed") and before.ended is None:
        fields.setdefault("ended", now)
    after = msgspec.structs.replace(before, **{"changed": now, **fields})
    save(db, after)
    add_entries(db, id, now, entries)
    add_notices(db, id, now, notices)
    return after


def add_entries(
    db: Connection, id: str, now: float, entries: Sequence[tuple[EntryKind, str, Mapping[str, Any]]]
) -> None:
    number = number_of(id)
    sql = "select coalesce(max(number), 0) from incident_entries where incident = ?"
    last: int = db.execute(sql, (number,)).get
    for place, (kind, text, data) in enumerate(entries, last + 1):
        db.execute(
            "insert into incident_entries values (?, ?, ?, ?, ?, ?)",
            (number, place, now, kind, text, encoded(dict(data))),
        )


def timeline(db: Connection, id: str, after: int = 0) -> list[TimelineEntry]:
    incident(db, id)
    found = db.rows(
        "select number, time, kind, text, data from incident_entries "
        "where incident = ? and number > ? order by number",
        (number_of(id), after),
    )
    return [
        TimelineEntry(id, number, time, kind, text, msgspec.json.decode(data))
        for number, time, kind, text, data in found
    ]


def add_notices(db: Connection, id: str, now: float, notices: Sequence[NewNotice]) -> None:
    for kind, number, channel, text in notices:
        db.execute(
            "insert or ignore into incident_notices "
            "(incident, kind, number, channel, text, created, due) values (?, ?, ?, ?, ?, ?, ?)",
            (number_of(id), kind, number, channel, text, now, now),
        )


def notices(db: Connection, *, incident: str = "", due: float | None = None) -> list[Notice]:
    """All notices, or the unsent ones due by then, oldest first. One that was given up is never
    due."""
    wanted, values = ["1"], []
    if incident:
        wanted.append("incident = ?")
        values.append(float(number_of(incident)))
    if due is not None:
        wanted.append("sent is null and due <= ?")
        values.append(min(due, NEVER - 1))
    sql = f"{_NOTICE} where {' and '.join(wanted)} order by id"
    return [Notice(*row) for row in db.rows(sql, values)]


def notice_sent(db: Connection, id: int) -> None:
    db.execute(
        "update incident_notices set sent = ?, attempts = attempts + 1, error = '' "
        "where id = ? and sent is null",
        (db.now(), id),
    )


def notice_failed(db: Connection, id: int, error: str, due: float) -> None:
    db.execute(
        "update incident_notices set attempts = attempts + 1, error = ?, due = ? "
        "where id = ? and sent is null",
        (error, due, id),
    )


def check_states(db: Connection) -> list[CheckState]:
    sql = "select name, ok, since, last, failures, detail, seconds from checks order by name"
    return [
        CheckState(row[0], None if row[1] is None else bool(row[1]), *row[2:])
        for row in db.rows(sql)
    ]


def save_check(db: Connection, state: CheckState) -> None:
    """Save the result of a run, and add it to its hour."""
    db.execute(
        "insert or replace into checks values (?, ?, ?, ?, ?, ?, ?)",
        (
            state.name, state.ok, state.since, state.last, state.failures, state.detail,
            state.seconds,
        ),
    )  # fmt: skip
    hour = hour_of(state.last)
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


def drop_check(db: Connection, name: str) -> None:
    """Its file is gone; its hourly results stay."""
    db.execute("delete from checks where name = ?", (name,))


def check_hours(db: Connection, since: float) -> list[CheckHourStats]:
    sql = "select name, hour, runs, failures, seconds from check_hours "
    found = db.rows(sql + "where hour >= ? order by name, hour", (hour_of(since),))
    return [CheckHourStats(*row) for row in found]


def log_cursors(db: Connection) -> list[LogCursor]:
    return [LogCursor(*row) for row in db.rows("select path, file, offset from log_cursors")]


def save_log_cursor(db: Connection, place: LogCursor) -> None:
    db.execute(
        "insert or replace into log_cursors values (?, ?, ?)",
        (place.path, place.file, place.offset),
    )


def services(db: Connection) -> list[MonitoredService]:
    """What was learned about the topology."""
    return [_service.decode(body) for (body,) in db.rows("select body from services order by name")]


def learn_service(db: Connection, service: MonitoredService) -> None:
    """Save a service; its dependencies are added to the known ones."""
    found = db.rows("select body from services where name = ?", (service.name,))
    before = _service.decode(found[0][0]) if found else MonitoredService(service.name)
    merged = MonitoredService(
        service.name,
        tuple(dict.fromkeys((*before.needs, *service.needs))),
        service.owner or before.owner,
        service.about or before.about,
        service.terminal or before.terminal,
        True,
    )
    db.execute("insert or replace into services values (?, ?)", (service.name, encoded(merged)))
