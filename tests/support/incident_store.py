"""A store with an intake before it, and what came of signals."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes_agent.core.incidents import (
    Incident,
    IngestResult,
    MonitoredService,
    NewNotice,
    NoticeKind,
    Signal,
)
from hermes_agent.incidents.alerts.ingest import Intake
from hermes_agent.incidents.monitoring.config import Watched
from hermes_agent.incidents.notifications import notices_for
from hermes_agent.store.incidents.store import IncidentStore
from hermes_agent.store.store import Store
from tests.store.helpers import Clock


class Post:
    """Where signals come in."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store: IncidentStore = store.incidents
        self.clock = clock
        self.services: tuple[MonitoredService, ...] = ()
        self.checks: tuple[Watched, ...] = ()
        self.woken = 0
        self.secret = "hunter2-hunter2"
        self.webhook = ""
        self.intake = Intake(
            self.store,
            window=lambda: 300.0,
            topology=self._topology,
            checks=self._checks,
            notices=self.notices,
            redact=lambda text: text.replace(self.secret, "[secret]"),
            wake=self._wake,
            clock=clock,
        )

    async def _topology(self, _terminal: str) -> Sequence[MonitoredService]:
        return self.services

    async def _checks(self) -> Sequence[Watched]:
        return self.checks

    def _wake(self) -> None:
        self.woken += 1

    def notices(
        self, incident: Incident, kind: NoticeKind, number: int, text: str
    ) -> Sequence[NewNotice]:
        return notices_for(incident, kind, number, text, self.webhook)

    @property
    def raise_signal(self) -> Callable[[Signal], Awaitable[IngestResult]]:
        return self.intake.raise_signal

    async def titles(self) -> list[str]:
        return [one.title for one in await self.store.incidents()]


@asynccontextmanager
async def post(folder: Path, clock: Clock | None = None) -> AsyncIterator[Post]:
    time = clock or Clock()
    store = await Store.open(folder, clock=time)
    try:
        yield Post(store, time)
    finally:
        await store.close()
