"""The incident store: `IncidentStore` in the database, with its writer and readers."""

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import msgspec

from hermes_agent.core.incidents import (
    NEVER,
    CheckHourStats,
    CheckState,
    Incident,
    IncidentState,
    IncidentStore,
    IngestResult,
    LogCursor,
    MonitoredService,
    NewEntry,
    NewNotice,
    Notice,
    Signal,
    TimelineEntry,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.store.engine.database import rows
from hermes_agent.store.incidents import incidents, ingest
from hermes_agent.store.incidents.incidents import encoded, number_of
from hermes_agent.store.knowledge.store import ReadFn, WriteFn

HOUR = 3_600.0
KEPT_HOURS = 90 * 24
"""How long the hourly figures of a check are kept."""

_service = msgspec.json.Decoder(MonitoredService)
_NOTICE = (
    "select id, 'inc-' || incident, kind, number, channel, text, created, sent, attempts, due, "
    "error from incident_notices "
)


class StoredIncidents(IncidentStore):
    """Made by the store, which hands in its writer and its readers."""

    def __init__(self, write: WriteFn, read: ReadFn, clock: Clock) -> None:
        self._write = write
        self._read = read
        self._clock = clock

    async def _execute(self, name: str, sql: str, values: Sequence[Any]) -> None:
        await self._write(name, lambda db: db.execute(sql, values))

    async def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return await self._read(lambda db: rows(db, sql, values))

    # incidents

    async def take(
        self,
        signal: Signal,
        window: float,
        topology: Sequence[MonitoredService],
        tell: Callable[[Incident], Sequence[NewNotice]] = lambda _incident: (),
    ) -> IngestResult:
        return await self._write(
            "take_signal",
            lambda db: ingest.take(db, signal, self._clock(), window, topology, tell),
        )

    async def incident(self, id: str) -> Incident:
        return await self._read(lambda db: incidents.incident(db, id))

    async def incidents(
        self, *, open: bool | None = None, limit: int = 50, source: str = ""
    ) -> Sequence[Incident]:
        return await self._read(lambda db: incidents.incidents(db, open, limit, source))

    async def change(
        self,
        id: str,
        entries: Sequence[NewEntry],
        notices: Sequence[NewNotice] = (),
        expect: frozenset[IncidentState] | None = None,
        **fields: Any,
    ) -> Incident:
        return await self._write(
            "change_incident",
            lambda db: incidents.change(
                db, id, self._clock(), entries, notices, expect, dict(fields)
            ),
        )

    async def timeline(self, id: str, after: int = 0) -> Sequence[TimelineEntry]:
        return await self._read(lambda db: incidents.timeline(db, id, after))

    async def signals(self, *, incident: str = "", limit: int = 100) -> Sequence[Signal]:
        wanted = number_of(incident) if incident else 0
        where = "where ?1 = 0 or incident = ?1 order by last desc, id desc limit ?2"
        return ingest.decoded(await self._rows(f"{ingest.SIGNAL} {where}", (wanted, limit)))

    async def firing(self, incident: str) -> Sequence[Signal]:
        where = "where incident = ? and firing order by id"
        return ingest.decoded(await self._rows(f"{ingest.SIGNAL} {where}", (number_of(incident),)))

    # notices

    async def notices(self, *, incident: str = "", due: float | None = None) -> Sequence[Notice]:
        """What was given up is never due."""
        wanted, values = ["1"], []
        if incident:
            wanted.append("incident = ?")
            values.append(float(number_of(incident)))
        if due is not None:
            wanted.append("sent is null and due <= ?")
            values.append(min(due, NEVER - 1))
        ask = f"{_NOTICE} where {' and '.join(wanted)} order by id"
        return [Notice(*row) for row in await self._rows(ask, values)]

    async def notice_sent(self, id: int) -> None:
        await self._execute(
            "notice_sent",
            "update incident_notices set sent = ?, attempts = attempts + 1, error = '' "
            "where id = ? and sent is null",
            (self._clock(), id),
        )

    async def notice_failed(self, id: int, error: str, due: float) -> None:
        await self._execute(
            "notice_failed",
            "update incident_notices set attempts = attempts + 1, error = ?, due = ? "
            "where id = ? and sent is null",
            (error, due, id),
        )

    # checks and logs

    async def check_states(self) -> Sequence[CheckState]:
        ask = "select name, ok, since, last, failures, detail, seconds from checks order by name"
        return [
            CheckState(row[0], None if row[1] is None else bool(row[1]), *row[2:])
            for row in await self._rows(ask)
        ]

    async def save_check(self, state: CheckState) -> None:
        await self._write("keep_check", lambda db: _save_check(db, state))

    async def drop_check(self, name: str) -> None:
        await self._execute("drop_check", "delete from checks where name = ?", (name,))

    async def check_hours(self, since: float) -> Sequence[CheckHourStats]:
        ask = "select name, hour, runs, failures, seconds from check_hours "
        found = await self._rows(
            f"{ask} where hour >= ? order by name, hour", (since // HOUR * HOUR,)
        )
        return [CheckHourStats(*row) for row in found]

    async def log_cursors(self) -> Sequence[LogCursor]:
        return [LogCursor(*row) for row in await self._rows("select * from log_cursors")]

    async def save_log_cursor(self, place: LogCursor) -> None:
        await self._execute(
            "keep_log_place",
            "insert or replace into log_cursors values (?, ?, ?)",
            (place.path, place.file, place.offset),
        )

    # the topology

    async def services(self) -> Sequence[MonitoredService]:
        found = await self._rows("select body from services order by name")
        return [_service.decode(body) for (body,) in found]

    async def learn_service(self, service: MonitoredService) -> None:
        await self._write("learn_service", lambda db: _learn_service(db, service))


def _save_check(db: apsw.Connection, state: CheckState) -> None:
    db.execute(
        "insert or replace into checks values (?, ?, ?, ?, ?, ?, ?)",
        msgspec.structs.astuple(state),
    )
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


def _learn_service(db: apsw.Connection, new: MonitoredService) -> None:
    """Newer facts replace older ones; what it needs is added to what was known."""
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
