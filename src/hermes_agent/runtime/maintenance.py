"""Looking after a runtime while it lives."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

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
"""How often the runtime looks after itself; a degraded store is tried again as often."""


class Maintenance:
    """Runs what goes on beside turns. Each part is a task of its own: a remote terminal that does
    not answer must not keep the store from being probed."""

    def __init__(
        self,
        context: RuntimeContext,
        resume: Callable[[], Awaitable[None]],
        tidy: Callable[[], Awaitable[None]],
        sessions: SessionService,
        learning: Learning,
        incidents: IncidentService,
        jobs: JobScheduler,
    ) -> None:
        self._context = context
        self._resume = resume
        self._tidy = tidy
        self._sessions = sessions
        self._learning = learning
        self._incidents = incidents
        self._jobs = jobs
        self._health = Health()
        """What was said of the store last."""
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def start(self) -> None:
        self._tasks = (
            asyncio.create_task(supervise("the store's check", self._check_store, every(SECONDS))),
            asyncio.create_task(supervise("the clean-up", self._tidy, every(SECONDS))),
            asyncio.create_task(self._learning.tasks.run()),
            asyncio.create_task(self._incidents.run()),
            asyncio.create_task(self._jobs.run()),
        )

    @property
    def busy(self) -> bool:
        """Background work is under way, something is watched, or a job is due some time."""
        return self._learning.tasks.busy or self._incidents.busy or self._jobs.busy

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _check_store(self) -> None:
        """Say when the store cannot write any more, and when it is healthy again."""
        known = self._health
        store = self._context.store
        if store.health.state == "degraded":
            await store.probe()
        now = store.health
        if now != known:
            log.warning("the store is %s: %s", now.state, now.reason)
            change = ev.RuntimeChanged(now.state, now.reason)
            self._context.bus.publish(ev.Recorded("", 0, self._context.clock(), change))
        if now != known or not self._sessions.has_taken_over:
            await self._resume()
        self._health = now
