"""Jobs: `core.jobs.Jobs` in the same database, with the same writer and readers."""

from collections.abc import Callable, Mapping, Sequence

import apsw

from hermes_agent.core.jobs import (
    Job,
    JobSpan,
    JobSpec,
    JobState,
    JobStore,
    NewRun,
    Outdated,
    Run,
    RunState,
    Schedule,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.store.jobs import jobs, runs
from hermes_agent.store.knowledge.store import ReadFn, WriteFn


class StoredJobs(JobStore):
    """Made by the store, which hands in its writer, its readers and its fence."""

    def __init__(
        self, write: WriteFn, read: ReadFn, clock: Clock, fence: Callable[[], int]
    ) -> None:
        self._write = write
        self._read = read
        self._clock = clock
        self._fence = fence

    async def add(
        self,
        spec: JobSpec,
        schedule: Schedule,
        by: str,
        origin: str,
        next: float | None,
        key: str = "",
    ) -> Job:
        return await self._write(
            "add_job",
            lambda db: jobs.add(db, spec, schedule, by, origin, next, key, self._clock()),
        )

    async def job(self, reference: str) -> Job:
        return await self._read(lambda db: jobs.job(db, reference))

    async def jobs(self, *, state: JobState | None = None, limit: int = 1_000) -> Sequence[Job]:
        return await self._read(lambda db: jobs.jobs(db, state, limit))

    async def change(
        self,
        id: str,
        version: int,
        *,
        spec: JobSpec | None = None,
        schedule: Schedule | None = None,
        state: JobState | None = None,
        next: float | None = None,
    ) -> Job:
        def work(db: apsw.Connection) -> Job:
            before = jobs.job(db, id)
            if before.version != version:
                raise Outdated(f"{id} was changed meanwhile", "look at it again")
            now = self._clock()
            after = jobs.change(db, before, spec, schedule, state, next, now)
            if after.state == "removed":
                runs.miss_unbegun(db, id, "the job was removed before it began", now)
            return after

        return await self._write("change_job", work)

    async def due(self, now: float, limit: int = 1_000) -> Sequence[Job]:
        return await self._read(lambda db: jobs.due(db, now, limit))

    async def first(self) -> float | None:
        return await self._read(jobs.first)

    async def plan(self, job: Job, new: Sequence[NewRun], until: float, next: float | None) -> bool:
        return await self._write(
            "plan", lambda db: runs.plan(db, job, new, until, next, self._clock())
        )

    async def rewind(self, now: float, tolerance: float) -> Sequence[Job]:
        return await self._write("rewind", lambda db: runs.rewind(db, now, now + tolerance))

    async def ask(self, job: str, now: float) -> Run:
        return await self._write("ask", lambda db: runs.ask(db, jobs.job(db, job), now))

    async def run(self, id: int) -> Run:
        return await self._read(lambda db: runs.run(db, id))

    async def runs(
        self,
        *,
        job: str = "",
        states: frozenset[RunState] | None = None,
        limit: int = 50,
        since: float | None = None,
    ) -> Sequence[Run]:
        def work(db: apsw.Connection) -> Sequence[Run]:
            id = jobs.job(db, job).id if job else ""
            return runs.runs(db, id, states, limit, since)

        return await self._read(work)

    async def open(self, limit: int = 1_000, each: int | None = None) -> Sequence[Run]:
        return await self._read(lambda db: runs.open_runs(db, limit, each))

    async def claim(self, run: int, now: float) -> Run | None:
        return await self._write("claim", lambda db: runs.claim(db, run, self._fence(), now))

    async def change_run(
        self,
        id: int,
        expect: frozenset[RunState],
        *,
        state: RunState | None = None,
        **fields: object,
    ) -> Run | None:
        return await self._write(
            "change_run",
            lambda db: runs.change(
                db, id, expect, state, dict(fields), self._fence(), self._clock()
            ),
        )

    async def claim_unfinished(self) -> Sequence[Run]:
        return await self._write(
            "take_over_runs", lambda db: runs.claim_unfinished(db, self._fence())
        )

    async def spans(
        self, job: str = "", *, after: str = "", count: int = 1_000
    ) -> Sequence[JobSpan]:
        return await self._read(lambda db: jobs.spans(db, job, after, count))

    async def slots(self, job: str, since: float, until: float) -> Sequence[float]:
        found = await self.all_slots(job, job, since, until)
        return found.get(job, [])

    async def all_slots(
        self, first: str, last: str, since: float, until: float
    ) -> Mapping[str, Sequence[float]]:
        return await self._read(lambda db: runs.all_slots(db, first, last, since, until))

    async def tidy(self, keep: int) -> int:
        gone = 0
        while some := await self._write("tidy_jobs", lambda db: runs.tidy(db, max(1, keep))):
            gone += some
        return gone
