"""Incidents: `core.incidents.Incidents` in the same database, with the same writer and readers."""

from collections.abc import Callable, Sequence
from typing import Any

from hermes_agent.core.incidents import (
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
from hermes_agent.store.incidents import incidents, ingest
from hermes_agent.store.knowledge.store import ReadFn, WriteFn


class StoredIncidents(IncidentStore):
    """Made by the store, which hands in its writer and its readers."""

    def __init__(self, write: WriteFn, read: ReadFn, clock: Clock) -> None:
        self._write = write
        self._read = read
        self._clock = clock

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
        return await self._read(lambda db: ingest.signals(db, incident, limit))

    async def firing(self, incident: str) -> Sequence[Signal]:
        return await self._read(lambda db: ingest.firing(db, incident))

    async def notices(self, *, incident: str = "", due: float | None = None) -> Sequence[Notice]:
        return await self._read(lambda db: incidents.notices(db, incident, due))

    async def notice_sent(self, id: int) -> None:
        await self._write("notice_sent", lambda db: incidents.notice_sent(db, id, self._clock()))

    async def notice_failed(self, id: int, error: str, due: float) -> None:
        await self._write("notice_failed", lambda db: incidents.notice_failed(db, id, error, due))

    async def check_states(self) -> Sequence[CheckState]:
        return await self._read(incidents.check_states)

    async def save_check(self, state: CheckState) -> None:
        await self._write("keep_check", lambda db: incidents.save_check(db, state))

    async def drop_check(self, name: str) -> None:
        await self._write(
            "drop_check", lambda db: db.execute("delete from checks where name = ?", (name,))
        )

    async def check_hours(self, since: float) -> Sequence[CheckHourStats]:
        return await self._read(lambda db: incidents.check_hours(db, since))

    async def log_cursors(self) -> Sequence[LogCursor]:
        return await self._read(incidents.log_cursors)

    async def save_log_cursor(self, place: LogCursor) -> None:
        await self._write("keep_log_place", lambda db: incidents.save_log_cursor(db, place))

    async def services(self) -> Sequence[MonitoredService]:
        return await self._read(incidents.services)

    async def learn_service(self, service: MonitoredService) -> None:
        await self._write("learn_service", lambda db: incidents.learn_service(db, service))
