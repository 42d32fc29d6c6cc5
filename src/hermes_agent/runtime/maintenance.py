"""Looking after a runtime while it lives."""

import asyncio
import logging
from typing import TYPE_CHECKING

from hermes_agent.core import events as ev
from hermes_agent.core.records import Health

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime

log = logging.getLogger("hermes.runtime")

SECONDS = 2.0
"""How often the runtime looks after itself; a degraded store is tried again as often."""


class Maintenance:
    """Its parts go on apart: a far terminal that does not answer must not keep the store from being
    tried, nor a model that thinks for long."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def begin(self) -> None:
        self._tasks = (
            asyncio.create_task(self._keep_watch()),
            asyncio.create_task(self._keep_tidy()),
            asyncio.create_task(self._runtime.learning.chores.run()),
            asyncio.create_task(self._runtime.incidents.run()),
            asyncio.create_task(self._runtime.jobs.run()),
        )

    @property
    def busy(self) -> bool:
        """Background work is under way, something is watched, or a job is due some time."""
        runtime = self._runtime
        return runtime.learning.chores.busy or runtime.incidents.busy or runtime.jobs.busy

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _keep_watch(self) -> None:
        """Say when the store becomes unable to keep things, and when it is well again."""
        said = Health()
        while True:
            try:
                said = await self._look_after(said)
            except Exception:
                log.exception("looking after the runtime failed; it goes on")
            await asyncio.sleep(SECONDS)

    async def _look_after(self, said: Health) -> Health:
        store = self._runtime.store
        if store.health.state == "degraded":
            await store.probe()
        now = store.health
        if now != said:
            log.warning("the store is %s: %s", now.state, now.reason)
            change = ev.RuntimeChanged(now.state, now.reason)
            self._runtime.bus.publish(ev.Recorded("", 0, self._runtime.clock(), change))
        if now != said or not self._runtime.has_taken_over:
            await self._runtime.resume_all()
        return now

    async def _keep_tidy(self) -> None:
        """Let go of terminals and connections that nobody uses."""
        while True:
            try:
                await self._runtime.tidy()
            except Exception:
                log.exception("letting go of what nobody uses failed; it goes on")
            await asyncio.sleep(SECONDS)
