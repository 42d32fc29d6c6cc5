"""Gives every slot that has passed exactly one row: due if it is to be run, else missed, with the
reason. When very many were missed, all but the newest share a row."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.jobs import Job, JobSpec, JobState, NewRun, Outdated, Schedule
from hermes_agent.core.protocols import Clock
from hermes_agent.jobs.schedules.parse import shown_time
from hermes_agent.jobs.schedules.slots import next_slot, slots
from hermes_agent.store.jobs.store import JobStore

MAX_CAUGHT_UP = 100
"""With `all`, the newest so many missed slots are run; the rest are missed."""
MAX_MISSED = 100
"""So many missed slots have a row each."""
CHUNK = 5_000
"""Slots computed at a time: a year of minutes must not hold up everything else."""
TOGETHER = 250
"""Jobs planned at the same time: they share a wait for the disk."""
TROUBLE_SECONDS = 3_600.0
"""When to retry a job whose schedule cannot be computed."""
TRIES = 8

Reason = Callable[[float], str]


class PlanSummary(Struct, frozen=True):
    """How many slots are due, and how many were missed."""

    due: int = 0
    missed: int = 0
    troubles: tuple[str, ...] = ()
    jobs: frozenset[str] = frozenset()
    """Jobs with missed slots."""

    def __add__(self, other: "PlanSummary") -> "PlanSummary":
        return PlanSummary(
            self.due + other.due,
            self.missed + other.missed,
            self.troubles + other.troubles,
            self.jobs | other.jobs,
        )


class Outage(Struct, frozen=True):
    """A time in which the runtime was up but could not write, for example because the disk was
    full."""

    since: float
    why: str


async def plan_due(
    jobs: JobStore, now: float, since: float | None = None, held: Outage | None = None
) -> PlanSummary:
    """Write the rows of all slots up to now. `since`: when the runtime was last known to be up, if
    it was down after that; `held`: an outage that delayed this."""
    total = PlanSummary()
    seen: set[tuple[str, int, float]] = set()
    while True:
        found = await jobs.due(now)
        fresh = [job for job in found if (job.id, job.version, job.planned) not in seen]
        if not fresh:
            return total
        seen.update((job.id, job.version, job.planned) for job in fresh)
        for place in range(0, len(fresh), TOGETHER):
            some = fresh[place : place + TOGETHER]
            for planned in await asyncio.gather(
                *(_plan(jobs, job, now, since, held) for job in some)
            ):
                total += planned


async def _plan(
    jobs: JobStore, job: Job, now: float, since: float | None, held: Outage | None
) -> PlanSummary:
    try:
        return await plan_job(jobs, job, now, since, held)
    except HermesError as trouble:
        # One whose zone is not known any more, say, must not keep the others waiting.
        await jobs.plan(job, (), job.planned, now + TROUBLE_SECONDS)
        return PlanSummary(troubles=(f"{job.id}: {trouble.message}",))
    except (ArithmeticError, ValueError, OSError) as trouble:  # a time that no calendar has
        await jobs.plan(job, (), job.planned, now + TROUBLE_SECONDS)
        return PlanSummary(troubles=(f"{job.id}: {type(trouble).__name__}: {trouble}",))


async def plan_job(
    jobs: JobStore, job: Job, now: float, since: float | None = None, held: Outage | None = None
) -> PlanSummary:
    """Write the rows of one job."""
    kept = MAX_CAUGHT_UP if job.spec.catch_up == "all" else 1
    # Of more than these, the oldest are in one row; the first of `found` is the last of those.
    found: deque[float] = deque(maxlen=MAX_MISSED + kept + 1)
    count, first, last = 0, now, job.planned
    while some := slots(job.schedule, last, now, CHUNK):
        first = first if count else some[0]
        count, last = count + len(some), some[-1]
        found.extend(some)
        await asyncio.sleep(0)
    reason = _reason(job, first, now, since, held)
    runs = _runs(job, list(found), kept, now, reason)
    shared = count - len(found) + 1
    if shared > 1:
        why = f"missed {shared:,} slots: {reason(found[0])}"
        runs[0] = NewRun(found[0], "missed", why, slots=shared, since=job.planned)
    if not await jobs.plan(job, runs, now, next_slot(job.schedule, now)):
        return PlanSummary()  # whoever was quicker has planned it, or it has changed
    missed = sum(run.slots for run in runs if run.state == "missed")
    return PlanSummary(count - missed, missed, jobs=frozenset({job.id} if missed else ()))


def _missed(found: Sequence[float], reason: Reason) -> list[NewRun]:
    return [NewRun(slot, "missed", reason(slot)) for slot in found]


def _runs(
    job: Job, found: Sequence[float], kept: int, now: float, reason: Reason
) -> list[NewRun]:  # fmt: skip
    """Run the newest; with `none`, only one that is hardly late."""
    split = max(0, len(found) - kept)
    runs = _missed(found[:split], reason)
    for slot in found[split:]:
        late = job.spec.catch_up == "none" and now - slot > job.spec.grace
        runs.append(NewRun(slot, "missed", reason(slot)) if late else NewRun(slot))
    return runs


def _reason(job: Job, first: float, now: float, since: float | None, held: Outage | None) -> Reason:
    """The reason for a missed slot: the runtime was down, or could not write."""

    def span(begin: float, end: float) -> str:
        zone = job.schedule.zone
        return f"from {shown_time(int(begin), zone)} to {shown_time(int(end), zone)}"

    begin = first if since is None else min(since, first)
    back = now if held is None else max(held.since, begin)
    away = f"the runtime was down {span(begin, back)}"
    if held is None:
        return lambda _slot: away
    kept = f"the runtime was up but could not write {span(held.since, now)}: {held.why}"
    return lambda slot: away if slot < held.since else kept


async def change_job(
    jobs: JobStore,
    reference: str,
    clock: Clock,
    *,
    spec: JobSpec | None = None,
    schedule: Schedule | None = None,
    state: JobState | None = None,
) -> Job:
    """Change, pause, resume or remove a job. Slots that are due by now get their rows first, so
    that the change loses none."""
    for _ in range(TRIES):
        now = clock()
        job = await jobs.job(reference)
        wanted = state
        if job.state == "done" and schedule is not None and state is None:
            wanted = "active"
        ends = wanted not in (None, job.state) or schedule is not None
        if ends and job.state == "active" and job.next is not None and job.next <= now:
            await plan_job(jobs, job, now)
            continue
        holds = schedule or job.schedule
        next = next_slot(holds, now)
        if ends and next is None and (wanted or job.state) == "active":
            raise UsageError(
                f"{job.id} was due at {shown_time(holds.start, holds.zone)}, which has passed",
                f"set another time: `hermes task edit {job.id} --at ...`",
            )
        try:
            return await jobs.change(
                job.id, job.version, spec=spec, schedule=schedule, state=wanted, next=next
            )
        except Outdated:
            continue
    raise HermesError(f"{reference} keeps changing", "try again in a moment")
