"""Schedules jobs: slots become rows, rows are claimed and worked, people are notified. Nothing is
created before there is a job."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.gateway import Chat
from hermes_agent.core.jobs import ENDED, JOB_KEY, Job, JobSpec, Run, RunState
from hermes_agent.core.ports import RaiseSignal, Sessions
from hermes_agent.core.records import Session
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import OutboundMessages
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.jobs.alerts import JobAlerts
from hermes_agent.jobs.messages import missed_text, title
from hermes_agent.jobs.notifier import JobNotifier
from hermes_agent.learning.service import Learning

if TYPE_CHECKING:
    from hermes_agent.jobs.planner import Outage
    from hermes_agent.jobs.runner import RunWorker
    from hermes_agent.jobs.scripts import Scripts

log = logging.getLogger("hermes.jobs")

REST_SECONDS = 30.0
"""The longest pause: by then a changed clock is noticed."""
BACK_SECONDS = 60.0
"""A clock that goes back by more than this was set back."""
HOUR, DAY = 3_600.0, 86_400.0
MANY = 1_000
MISSED: frozenset[RunState] = frozenset({"missed"})
SOME = 16
"""More than the built-in jobs."""


class JobScheduler:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        shells: PolicyShells,
        outbound: OutboundMessages,
        learning: Learning,
        raise_signal: RaiseSignal,
        builtins: Callable[[], Mapping[str, Callable[[], Awaitable[str]]]],
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._shells = shells
        self.notifier = JobNotifier(context, outbound)
        self._learning = learning
        self.alerts = JobAlerts(raise_signal, context.clock)
        self._builtins = builtins
        self._woken = asyncio.Event()
        self._wanted = False
        self._taken = False
        self._seen = 0.0
        """The latest time seen."""
        self._checked = float("-inf")
        self._next: float | None = None
        self._awake = False
        """Whether a job other than the built-in ones is active."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._workers: dict[int, RunWorker] = {}
        self._own: set[int] = set()
        """Runs of built-in jobs, which do not count towards the limit."""
        self._kinds: dict[str, bool] = {}
        """Whether a job is built in, by id."""
        self._unsure = True
        """Whether an earlier runtime may have left missed runs unreported."""
        self._untold: set[str] = set()
        """Jobs with unreported missed runs."""
        self._ran: set[str] = set()
        """Jobs that may have too many rows."""
        self._faults: list[str] = []
        self._unplanned: list[str] = []
        self._broken: list[str] = []
        self._good = self._context.started
        """When the last pass succeeded."""
        self._held: Outage | None = None

    @property
    def zone(self) -> str:
        """The time zone of schedules that name none."""
        from hermes_agent.jobs.schedules.parse import machine_zone

        return self._context.settings.jobs.zone or machine_zone(self._context.environ)

    # parts

    async def name_of(self, session: Session) -> str:
        """The name of the job of this session, which rules can refer to."""
        id = session.key.removeprefix(JOB_KEY).partition("/")[0]
        try:
            return title(await self._context.store.jobs.job(id))
        except NotFound:
            return id

    async def asked(self, session: Session) -> list[Chat]:
        """Where to ask the people of the job of this session."""
        id = session.key.removeprefix(JOB_KEY).partition("/")[0]
        try:
            return self.notifier.asked(await self._context.store.jobs.job(id))
        except NotFound:
            return []

    @cached_property
    def scripts(self) -> "Scripts":
        from hermes_agent.jobs.scripts import Scripts

        return Scripts(self._context, self._shells, self._builtins())

    # life

    async def have(self, wanted: Mapping[str, tuple[str, str]]) -> None:
        """Add the built-in jobs: names of builtins, with their schedules and targets. What people
        changed or removed stays so."""
        from hermes_agent.jobs.schedules.parse import parse
        from hermes_agent.jobs.schedules.slots import next_slot

        store, now = self._context.store.jobs, self._context.clock()
        for script, (when, target) in wanted.items():
            name = f"watch-{script.partition(':')[2]}"
            spec = JobSpec(
                name=name, script=script, script_only=True, deliver=(target,), overlap="skip"
            )
            schedule = parse(when, now, zone=self.zone)
            first = next_slot(schedule, now)
            try:
                await store.add(spec, schedule, "hermes", "", first, script)
            except UsageError as error:
                log.warning("%s was not created: %s", script, error.message)
        self.want()

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                well = await self._look()
                await self._rest(well)
        finally:
            if "scripts" in self.__dict__:
                self.scripts.leave()
            for task in self._tasks.values():
                task.cancel()

    def wake(self) -> None:
        """A job was added or changed, a run was requested or has ended."""
        self._woken.set()

    def want(self) -> None:
        """There is work, whether or not a job is due."""
        self._wanted = True
        self.wake()

    async def _look(self) -> bool:
        try:
            if not self._wanted and await self._is_wanted():  # `want` may be called meanwhile
                self._wanted = True
            if self._wanted and not self._sessions.has_resumed:
                # Runs claimed now would have the fence of the runtime before.
                self._hold(self._context.store.health.reason)
                return False
            if self._wanted:
                await self.advance()
        except HermesError as error:  # the store is degraded, which is said elsewhere
            self._hold(error.message)
            return False
        except Exception as error:
            log.exception("the job scheduler failed; it continues")
            self._broken = [f"jobs are not running: {type(error).__name__}: {error}"]
            return False
        self._broken = []
        self._good, self._held = self._context.clock(), None
        return True

    def _hold(self, why: str) -> None:
        from hermes_agent.jobs.planner import Outage

        if self._held is None:
            log.warning("jobs wait: %s", why)
            self._held = Outage(self._good, why)

    async def _is_wanted(self) -> bool:
        store = self._context.store.jobs
        return await store.first() is not None or bool(await store.open(limit=1))

    async def _rest(self, well: bool) -> None:
        if not self._wanted and well:
            await self._woken.wait()
            return
        rest = REST_SECONDS if well else 2.0
        if well and self._next is not None:
            rest = min(rest, max(0.0, self._next - self._context.clock()))
        with suppress(TimeoutError):
            async with asyncio.timeout(rest):
                await self._woken.wait()

    async def advance(self) -> None:
        """One pass: plan, start and report."""
        from hermes_agent.jobs.planner import plan_due

        store, now = self._context.store.jobs, self._context.clock()
        if not self._taken:
            for run in await store.claim_unfinished():
                if run.state != "parked" or run.session:
                    self._begin(run)
            self._taken = True
        if not self._seen or now < self._seen - BACK_SECONDS:
            await store.rewind(now, BACK_SECONDS)
        self._seen = now
        planned = await plan_due(store, now, held=self._held)
        self._untold.update(planned.jobs)
        self._unplanned = list(planned.troubles) or (self._unplanned if not planned.due else [])
        await self._begin_due()
        await self._tell_missed(now)
        if now - self._checked >= HOUR or now < self._checked:
            self._checked = now
            await self._trim_history(now)
        self._next = await store.first()
        some = await store.jobs(state="active", limit=SOME)
        self._awake = any(not job.spec.is_builtin for job in some)

    # runs

    async def _begin_due(self) -> None:
        store, room = self._context.store.jobs, self._context.settings.jobs.parallel
        found = await store.open(limit=MANY, each=room)
        busy = {run.job for run in found if run.state in ("claimed", "running")}
        for run in found:
            if run.state != "due":
                continue
            own = await self._is_own(run.job)
            if not own and len(self._tasks.keys() - self._own) >= room:
                continue  # whatever people's jobs do, the health of systems is looked at
            if run.job in busy and await self._must_wait(run):
                continue
            claimed = await store.claim(run.id, self._context.clock())
            if claimed is not None:
                busy.add(run.job)
                self._own |= {run.id} if own else set()
                self._begin(claimed)

    async def _is_own(self, id: str) -> bool:
        if id not in self._kinds:
            self._kinds[id] = (await self._context.store.jobs.job(id)).spec.is_builtin
        return self._kinds[id]

    async def _must_wait(self, run: Run) -> bool:
        """Whether it must wait for the previous run; with `skip` it is missed instead."""
        store = self._context.store.jobs
        overlap = (await store.job(run.job)).spec.overlap
        if overlap == "skip":
            why = "the previous run was still in progress"
            expect = frozenset[Any]({"due"})
            # That was asked for: nobody is alarmed.
            await store.change_run(run.id, expect, state="missed", error=why, told=("missed",))
        return overlap != "parallel"

    def _begin(self, run: Run) -> None:
        from hermes_agent.jobs.runner import RunWorker

        if run.id in self._tasks:
            return
        worker = RunWorker(
            self._context,
            self._sessions,
            self._learning,
            self.notifier,
            self.scripts,
            self.alerts,
            run,
        )
        self._workers[run.id] = worker
        task = asyncio.create_task(worker.work(), name=f"run {run.id}")
        self._tasks[run.id] = task
        self._ran.add(run.job)
        task.add_done_callback(lambda done: self._worked(run, done))

    def _worked(self, run: Run, task: asyncio.Task[None]) -> None:
        self._tasks.pop(run.id, None)
        self._workers.pop(run.id, None)
        self._own.discard(run.id)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("run %s crashed", run.id, exc_info=error)
        self.wake()

    async def stop_runs(self, job: str) -> None:
        """Stop the running and parked runs of a removed job."""
        from hermes_agent.jobs.runner import OPEN, REMOVED

        store = self._context.store.jobs
        for run in await store.open():
            if run.job == job and run.id in self._workers:
                self._workers[run.id].stop(REMOVED)
            elif run.job == job and run.state == "parked":
                why = f"{run.error}; {REMOVED} ended it"
                await store.change_run(run.id, OPEN, state="failed", error=why, said=False)

    # telling

    async def _tell_missed(self, now: float) -> None:
        """Report all missed runs of a job in one alert."""
        if self._unsure:
            store, since = self._context.store.jobs, now - 400 * DAY
            recent = await store.runs(states=MISSED, limit=MANY, since=since)
            newest = {run.job: run for run in reversed(recent)}
            self._untold.update(id for id, run in newest.items() if "missed" not in run.told)
            self._unsure = False
        for id in sorted(self._untold):
            await self._tell_missed_of(id)
            self._untold.discard(id)

    async def _tell_missed_of(self, id: str) -> None:
        store = self._context.store.jobs
        recent = await store.runs(job=id, states=MISSED, limit=MANY)
        untold = list(takewhile(lambda run: "missed" not in run.told, recent))
        job = await store.job(id)
        if untold and job.state != "removed":
            await self.notifier.alert(job, untold[0], "missed", missed_text(job, untold))
        for run in untold[:1]:
            await store.change_run(run.id, MISSED, told=(*run.told, "missed"))

    # upkeep

    async def _trim_history(self, now: float) -> None:
        from hermes_agent.jobs import consistency

        store, keep = self._context.store.jobs, self._context.settings.jobs.keep
        self._faults = list(await consistency.check(store, now))
        for fault in self._faults:
            log.error("%s", fault)
        for id in sorted(self._ran):
            old = (await store.runs(job=id, states=ENDED, limit=keep + 5 * MANY))[keep:]
            kept = {run.session for run in await store.runs(job=id, limit=keep)}
            for run in old:
                if run.session and run.session not in kept:
                    await self._drop_session(run.session)
        self._ran.clear()
        self._kinds.clear()
        await store.tidy(keep)

    async def _drop_session(self, session: str) -> None:
        try:
            await self._sessions.delete_session(await self._context.store.session(session))
        except HermesError as error:  # gone already, or at work for a person
            log.info("session %s was not deleted: %s", session, error.message)

    # how it is

    @property
    def busy(self) -> bool:
        """Whether the runtime is needed: a job is active, or a run under way."""
        return self._wanted and (self._awake or bool(self._tasks))

    async def status(self) -> dict[str, Any]:
        store, now = self._context.store.jobs, self._context.clock()
        jobs = await store.jobs(limit=MANY)
        if not jobs:
            return {"active": 0, "paused": 0, "troubles": []}
        names = {job.id: title(job) for job in jobs}
        recent = [run for run in await store.runs(limit=MANY, since=now - DAY) if run.job in names]
        open = [run for run in await store.open() if run.job in names]
        return {
            "active": sum(job.state == "active" for job in jobs),
            "paused": sum(job.state == "paused" for job in jobs),
            "next": await store.first(),
            "running": [_brief(run, names) for run in open if run.state in ("claimed", "running")],
            "parked": [_brief(run, names) for run in open if run.state == "parked"],
            "failing": [title(job) for job in jobs if job.failures],
            "late": [_brief(run, names) for run in recent if "late" in run.told],
            "missed": [_brief(run, names) for run in recent if run.state == "missed"],
            "troubles": self.troubles(jobs),
        }

    def troubles(self, jobs: Sequence[Job]) -> list[str]:
        """Current problems, in sentences."""
        wrong = [
            f"job {title(job)}: {why}"
            for job in jobs if job.state == "active" for why in self.notifier.troubles(job)
        ]  # fmt: skip
        return [*wrong, *self._unplanned, *self._faults, *self._broken]


def _brief(run: Run, names: dict[str, str]) -> dict[str, Any]:
    brief = {"run": run.id, "job": run.job, "name": names[run.job], "slot": run.slot}
    waits = run.error if run.state == "running" else ""
    return {**brief, "session": run.session, "waits": waits}
