"""A runtime whose clock the test moves, and the jobs in it."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes_agent.core.gateway import OutboxEntry
from hermes_agent.core.jobs import Job, JobSpec, Run, RunState
from hermes_agent.core.settings.root import JobSettings
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.store.jobs.store import JobStore
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, until

MONDAY = 1_577_000_000.0 // 604_800 * 604_800 + 4 * 86_400
"""A Monday at midnight, UTC. Long ago: commands are begun by the real clock, and must not seem to
have run for years."""
HOUR, DAY = 3_600.0, 86_400.0


class Clock:
    """`now` is moved when time passes; a clock that is `set` moves while none does."""

    def __init__(self, now: float = MONDAY) -> None:
        self.now = now
        self._ahead = 0.0

    def __call__(self) -> float:
        return self.now

    def set(self, seconds: float) -> None:
        self.now += seconds
        self._ahead += seconds

    def ticks(self) -> float:
        return self.now - self._ahead


class RealClock(Clock):
    """For commands that are to take too long."""

    def __call__(self) -> float:
        return time.time()

    def ticks(self) -> float:
        return time.monotonic()


class Workplace:
    def __init__(self, fixture: RuntimeFixture, clock: Clock) -> None:
        self.fixture = fixture
        self.clock = clock

    @property
    def runtime(self) -> Runtime:
        return self.fixture.runtime

    @property
    def jobs(self) -> JobStore:
        return self.runtime.context.store.jobs

    async def add(self, when: str = "every 1h", **fields: Any) -> Job:
        fields.setdefault("prompt", "go")
        fields.setdefault("policy", "sandbox")
        fields.setdefault("deliver", ("post",))
        shown = await self.runtime.job_service.add(JobSpec(**fields), when, "UTC", "test")
        return shown.job

    async def pass_time(self, seconds: float) -> None:
        """Later: what has come due meanwhile has its rows."""
        self.clock.now += seconds
        self.runtime.jobs.wake()

        async def planned() -> bool:
            first = await self.jobs.first()
            return first is None or first > self.clock.now

        await until(planned)

    async def runs(self, *states: RunState) -> list[Run]:
        """Oldest first."""
        found = await self.jobs.runs(states=frozenset(states) or None, limit=1_000)
        return list(reversed(found))

    async def ended(self, count: int = 1) -> list[Run]:
        """Runs that are done or failed, once there are so many."""

        async def there() -> bool:
            return len(await self.runs("done", "failed")) >= count

        await until(there)
        return await self.runs("done", "failed")

    async def by_hand(self, job: Job) -> Run:
        """A run from beginning to end."""
        asked = await self.runtime.job_service.ask(job.id)

        async def over() -> bool:
            run = await self.jobs.run(asked.id)
            return run.state in ("done", "failed", "missed", "parked")

        await until(over)
        return await self.jobs.run(asked.id)

    async def in_state(self, run: int, state: RunState) -> Run:
        async def there() -> bool:
            return (await self.jobs.run(run)).state == state

        await until(there)
        return await self.jobs.run(run)

    async def sent(self, key: str = "run:") -> Sequence[OutboxEntry]:
        """What is in the ledger, oldest first."""
        found = await self.runtime.context.store.gateway.deliveries(key=key, limit=1_000)
        return list(reversed(found))

    async def texts(self, key: str = "run:") -> list[str]:
        return [one.outgoing.text for one in await self.sent(key)]


@asynccontextmanager
async def workplace(
    folder: Path, model: str = "", *, clock: Clock | None = None, **more: Any
) -> AsyncIterator[Workplace]:
    now = clock or Clock()
    more.setdefault("channels", {"post": {"home": "people"}})
    more.setdefault("jobs", JobSettings(zone="UTC"))
    async with open_runtime(folder, clock=now, ticks=now.ticks, model=model, **more) as made:
        yield Workplace(made, now)
