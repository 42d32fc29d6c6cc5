"""Background tasks of a runtime."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hermes_agent.core import events as ev
from hermes_agent.core.records import Health
from hermes_agent.core.supervise import every, supervise
from hermes_agent.host.context import RuntimeContext
from hermes_agent.incidents.service import IncidentService
from hermes_agent.jobs.scheduler import JobScheduler
from hermes_agent.learning.service import Learning
from hermes_agent.runtime.sessions import SessionService

log = logging.getLogger("hermes.runtime")

SECONDS = 2.0
"""How often to clean up and check the store."""


@dataclass(eq=False, repr=False)
class Maintenance:
    """Runs work besides turns. Each part is its own task, so that an unresponsive remote terminal
    does not delay the store's check."""

    _context: RuntimeContext
    _resume: Callable[[], Awaitable[None]]
    _tidy: Callable[[], Awaitable[None]]
    _sessions: SessionService
    _learning: Learning
    _incidents: IncidentService
    _jobs: JobScheduler
    _health: Health = field(default_factory=Health, init=False)
    """The last published state of the store."""
    _tasks: tuple[asyncio.Task[None], ...] = field(default=(), init=False)

    def start(self) -> None:
        self._tasks = (
            asyncio.create_task(supervise("the store's check", self._check_store, every(SECONDS))),
            asyncio.create_task(supervise("the clean-up", self._tidy, every(SECONDS))),
            asyncio.create_task(self._learning.chores.run()),
            asyncio.create_task(self._incidents.run()),
            asyncio.create_task(self._jobs.run()),
        )

    @property
    def busy(self) -> bool:
        """Whether background work runs, something is monitored, or a job is scheduled."""
        return self._learning.chores.busy or self._incidents.busy or self._jobs.busy

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _check_store(self) -> None:
        """Publish when the store becomes degraded or healthy, and resume work."""
        known = self._health
        store = self._context.store
        if store.health.state == "degraded":
            await store.probe()
        now = store.health
        if now != known:
            log.warning("the store is %s: %s", now.state, now.reason)
            change = ev.RuntimeChanged(now.state, now.reason)
            self._context.bus.publish(ev.Recorded("", 0, self._context.clock(), change))
        if now != known or not self._sessions.has_resumed:
            await self._resume()
        self._health = now
