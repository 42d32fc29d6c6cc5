"""Creates, changes and lists jobs, for the command line and the agent's tool."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.agent.completions import Completions
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.jobs import JOBS, Job, JobSpec, Run, Schedule
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import PHONE, OutboundMessages
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.jobs.delivery_words import PromptDelivery, read_delivery
from hermes_agent.jobs.messages import title
from hermes_agent.jobs.prerequisites import JobPrerequisites
from hermes_agent.jobs.runner import OPEN
from hermes_agent.jobs.scheduler import JobScheduler
from hermes_agent.learning.service import Learning

LAST = 10
"""Runs shown with a job."""
MAX_COUNT = 1_000
OFTEN = 60.0
"""A model asked more often than this costs more than most people expect."""

Decision = Literal["done", "again", "failed"]


class RunReport(Run, frozen=True, omit_defaults=True):
    """A run as shown to people."""

    results: str = ""
    """Where its result went, or why it did not."""


class JobView(Struct, frozen=True):
    """A job as shown to people: its meaning in words, and warnings."""

    job: Job
    meaning: str
    results: str = ""
    """Where its results go."""
    warnings: tuple[str, ...] = ()
    runs: tuple[RunReport, ...] = ()


class JobReading(Struct, frozen=True):
    """How a job that is about to be added is understood."""

    delivery: PromptDelivery
    results: str
    """Where its results would go."""


class JobService:
    def __init__(
        self,
        context: RuntimeContext,
        jobs: JobScheduler,
        shells: PolicyShells,
        completions: Completions,
        outbound: OutboundMessages,
        learning: Learning,
    ) -> None:
        self._context = context
        self._alerts = jobs.alerts
        self._shells = shells
        self._prerequisites = JobPrerequisites(
            context, jobs.notifier, completions, lambda: jobs.scripts
        )
        self._completions = completions
        self._outbound = outbound
        self._learning = learning
        self._jobs = jobs
        self._store = context.store.jobs

    # making and changing

    async def add(
        self, spec: JobSpec, when: str, zone: str, by: str, origin: str = "", key: str = "",
        *, paused: bool = False, reads_delivery: bool = False,
    ) -> JobView:  # fmt: skip
        """`reads_delivery`: the prompt says where results go, unless the spec does."""
        from hermes_agent.jobs.schedules.slots import next_slot

        self._context.refresh_settings()
        schedule = self._schedule(when, zone)
        now = self._context.clock()
        first = next_slot(schedule, now)
        if first is None:
            raise UsageError(f"{when!r} is never due", "name a time in the future")
        await self._check(spec, schedule, origin)
        if reads_delivery:
            spec, delivery = self._with_delivery(spec, origin)
            if by.startswith("agent:") and any(":" in target for target in delivery.deliver):
                # The agent may have pasted the words from elsewhere: an address is for people to
                # see, and for rules to judge, where it is one.
                raise UsageError(
                    f"the prompt says where results go: {', '.join(delivery.deliver)}",
                    "name that in `deliver`, or `origin` for this chat",
                )
        job = await self._store.add(spec, schedule, by, origin, first, key, paused)
        self._jobs.wake()
        return await self._shown(job)

    def read(self, spec: JobSpec, when: str, zone: str, origin: str = "") -> JobReading:
        """What `add` would understand, without adding it."""
        spec, delivery = self._with_delivery(spec, origin)
        schedule = self._schedule(when, zone)
        results = self._jobs.notifier.results(Job("", spec, schedule, "active", 0.0, "", origin))
        return JobReading(delivery, results)

    def _with_delivery(self, spec: JobSpec, origin: str) -> tuple[JobSpec, PromptDelivery]:
        """The job with what its prompt says about results, if the job itself does not."""
        nothing = spec, PromptDelivery()
        if spec.deliver or spec.script_only:
            return nothing
        delivery = read_delivery(spec.prompt, {PHONE: PHONE, **self._outbound.titles()})
        if not delivery.deliver or delivery.deliver == (origin.partition(":")[0],):
            return nothing  # the chat where it is made is the one that is meant
        quiet = spec.quiet or delivery.quiet
        return msgspec.structs.replace(spec, deliver=delivery.deliver, quiet=quiet), delivery

    def foresee(self, when: str, zone: str) -> str:
        """What a schedule means, in words; a `UsageError` if it is never due."""
        from hermes_agent.jobs.schedules.parse import meaning
        from hermes_agent.jobs.schedules.slots import next_slot

        schedule = self._schedule(when, zone)
        if next_slot(schedule, self._context.clock()) is None:
            raise UsageError(f"{when!r} is never due", "name a time in the future")
        return meaning(schedule, self._context.clock(), active=True)

    def _schedule(self, when: str, zone: str) -> Schedule:
        from hermes_agent.jobs.schedules.parse import parse

        if not when.strip():
            raise UsageError(
                "no schedule given", "for example 'weekdays at 8', 'every 2h' or a date"
            )
        return parse(when, self._context.clock(), zone=zone or self._jobs.zone)

    async def edit(
        self, reference: str, changes: Mapping[str, Any], when: str, zone: str
    ) -> JobView:
        """Change fields of a job, or its schedule."""
        from hermes_agent.jobs.planner import change_job

        self._context.refresh_settings()
        before = await self._there(reference)
        spec = _changed(before.spec, changes)
        schedule = None
        if when or zone:
            kept = before.schedule
            schedule = self._schedule(when or kept.given, zone or kept.zone)
        await self._check(spec, schedule or before.schedule, before.origin, before)
        clock = self._context.clock
        job = await change_job(self._store, before.id, clock, spec=spec, schedule=schedule)
        if not spec.incident:
            await self._alerts.over(before, "it no longer raises alerts")
        self._jobs.wake()
        return await self._shown(job)

    async def set_state(self, reference: str, state: Literal["active", "paused"]) -> JobView:
        from hermes_agent.jobs.planner import change_job

        job = await self._there(reference)
        if job.state == "done":
            raise UsageError(
                f"{title(job)} was due once, and that time has passed",
                f"`hermes task edit {job.id} --when …` sets another time",
            )
        if job.state != state:
            job = await change_job(self._store, job.id, self._context.clock, state=state)
            self._jobs.wake()
        return await self._shown(job)

    async def remove(self, reference: str) -> Job:
        from hermes_agent.jobs.planner import change_job

        job = await self._there(reference)
        job = await change_job(self._store, job.id, self._context.clock, state="removed")
        await self._jobs.stop_runs(job.id)
        await self._alerts.over(job, "it was removed")
        self._jobs.wake()
        return job

    # runs

    async def ask(self, reference: str) -> Run:
        """Run a job now."""
        job = await self._there(reference)
        run = await self._store.ask(job.id, self._context.clock())
        self._jobs.want()
        return run

    async def decide(self, id: int, decision: Decision, by: str) -> Run:
        """Settle a parked run whose outcome is unknown."""
        run = await self._store.run(id)
        if run.state != "parked":
            raise UsageError(f"run {id} is {run.state}", "only parked runs need a decision")
        if run.session:
            raise UsageError(
                f"run {id} is waiting for a parked call of its session {run.session}",
                "`hermes parked` lists parked calls and settles them",
            )
        said = f"decided by {by}"
        fields: dict[str, dict[str, Any]] = {
            "done": {"state": "done", "output": f"[{said}: it was done]", "error": ""},
            "failed": {"state": "failed", "error": f"{said}: it failed", "said": False},
            "again": {"state": "due", "error": "", "began": None},
        }
        if decision not in fields:
            raise UsageError(f"not a valid decision: {decision!r}", "use done, again or failed")
        changed = await self._store.change_run(id, OPEN, **fields[decision])
        if changed is None:
            raise NotFound(f"run {id} is no longer parked", "`hermes task history` shows it")
        self._jobs.wake()
        return changed

    # looking

    async def all(self, *, removed: bool = False) -> Sequence[JobView]:
        jobs = [*await self._store.jobs(limit=MAX_COUNT)]
        if removed:
            jobs += await self._store.jobs(state="removed", limit=MAX_COUNT)
        results = self._jobs.notifier.results
        return [
            JobView(job, self._meaning(job), results(job), tuple(await self._warnings(job)))
            for job in jobs
        ]

    async def show(self, reference: str) -> JobView:
        return await self._shown(await self._store.job(reference))

    async def history(self, reference: str, limit: int) -> Sequence[RunReport]:
        id = (await self._store.job(reference)).id if reference else ""
        return [await self.report(run) for run in await self._store.runs(job=id, limit=limit)]

    async def report(self, run: Run) -> RunReport:
        results = await self._jobs.notifier.report(run)
        return RunReport(**msgspec.structs.asdict(run), results=results)

    async def check(self) -> Sequence[str]:
        """Faults in the rows of jobs, and targets that lead nowhere."""
        from hermes_agent.jobs import consistency

        faults = await consistency.check(self._store, self._context.clock())
        jobs = await self._store.jobs(state="active", limit=MAX_COUNT)
        troubles = [f"job {title(job)}: {why}" for job in jobs for why in await self._troubles(job)]
        return [*faults, *troubles]

    async def _shown(self, job: Job) -> JobView:
        warnings = await self._warnings(job)
        runs = await self.history(job.id, LAST)
        results = self._jobs.notifier.results(job)
        return JobView(job, self._meaning(job), results, tuple(warnings), tuple(runs))

    async def _warnings(self, job: Job) -> list[str]:
        warnings, schedule = await self._troubles(job), job.schedule
        if job.state in ("removed", "done"):
            return warnings
        if schedule.kind == "every" and schedule.seconds < OFTEN and not job.spec.script_only:
            warnings.append(f"a model is called {86_400 / schedule.seconds:,.0f} times a day")
        return warnings + await self._prerequisites.lacking(job)

    async def _troubles(self, job: Job) -> list[str]:
        """Targets and jobs it names that do not exist."""
        found = self._jobs.notifier.troubles(job)
        for name in job.spec.after:
            try:
                await self._there(name)
            except NotFound as gone:
                found.append(f"it runs after {name!r}: {gone.message}")
        return found

    def _meaning(self, job: Job) -> str:
        from hermes_agent.jobs.schedules.parse import meaning

        return meaning(job.schedule, self._context.clock(), active=job.state in ("active", "done"))

    async def _there(self, reference: str) -> Job:
        job = await self._store.job(reference)
        if job.state == "removed":
            raise NotFound(f"{title(job)} was removed", "`hermes task list` lists all jobs")
        return job

    # what is wrong is said at once, not at night

    async def _check(
        self, spec: JobSpec, schedule: Schedule, origin: str, before: Job | None = None
    ) -> None:
        old = before.spec if before is not None else JobSpec()
        _check_words(spec)
        for target in (*spec.deliver, *spec.on_failure):
            if target not in (*old.deliver, *old.on_failure):
                self._outbound.chats([target], origin)
        for name in spec.terminals:
            self._shells.terminals.place(name)
        for name in spec.skills:
            await self._learning.opened(name, "", SessionPlace(JOBS))
        await self._check_after(spec, before)
        if spec.model and spec.model != old.model:
            self._completions.full_name(spec.model)
        folder, new = Path(spec.folder), spec.folder not in ("", old.folder)
        if new and not (folder.is_absolute() and folder.is_dir()):
            raise NotFound(
                f"no folder at {spec.folder!r}", "give the full path of an existing folder"
            )
        id = before.id if before is not None else "job-0"
        await self._jobs.scripts.foresee(Job(id, spec, schedule, "active", 0.0))

    async def _check_after(self, spec: JobSpec, before: Job | None) -> None:
        """Check that the jobs it depends on exist and do not depend on it."""
        seen: set[str] = set()
        ahead = [(await self._there(name)).id for name in spec.after]
        while ahead:
            id = ahead.pop()
            if before is not None and id == before.id:
                raise UsageError(f"{title(before)} would run after itself", "leave one of them out")
            if id not in seen:
                seen.add(id)
                ahead += await self._follows(id)

    async def _follows(self, id: str) -> list[str]:
        found = []
        for name in (await self._store.job(id)).spec.after:
            with suppress(NotFound):
                found.append((await self._store.job(name)).id)
        return found


def _check_words(spec: JobSpec) -> None:
    if spec.script_only and not spec.script:
        raise UsageError("a script-only job needs a script", "name it with --script")
    if not spec.prompt.strip() and not spec.script_only:
        raise UsageError("the job has nothing to do", "give it a prompt, or only a script")
    if spec.timeout <= 0 or spec.grace < 0:
        raise UsageError("timeout must be above 0 seconds, grace at least 0", "3600 is usual")
    if (spec.dollars is not None and spec.dollars <= 0) or (
        spec.tokens is not None and spec.tokens <= 0
    ):
        raise UsageError("a budget must be above 0", "leave it out for no limit")
    name = spec.name
    if "/" in name or not name.isprintable() or name != name.strip() or len(name) > 100:
        raise UsageError(f"not a valid name: {name!r}", "a few plain words, without slashes")


def _changed(spec: JobSpec, changes: Mapping[str, Any]) -> JobSpec:
    if unknown := changes.keys() - set(JobSpec.__struct_fields__):
        raise UsageError(
            f"a job has no field {min(unknown)!r}", f"known: {', '.join(JobSpec.__struct_fields__)}"
        )
    return msgspec.convert({**msgspec.structs.asdict(spec), **changes}, JobSpec)
