"""Compares the times schedules held for with the rows of their slots: a slot without a row, a row
without a slot and a slot with two rows are named. It trusts nothing that the planner noted."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.jobs import Jobs, JobSpan
from hermes_agent.work.schedules import shown_time
from hermes_agent.work.slots import slots

PATIENCE = 60.0
"""Seconds after which a slot without a row is amiss."""
PAGE = 500
"""Jobs looked at together."""


class Faults(Struct, frozen=True):
    job: str
    zone: str
    lost: tuple[float, ...] = ()
    """Slots without a row."""
    extra: tuple[float, ...] = ()
    """Rows without a slot."""
    doubled: tuple[float, ...] = ()
    trouble: str = ""

    def __bool__(self) -> bool:
        return bool(self.lost or self.extra or self.doubled or self.trouble)

    def sentences(self) -> list[str]:
        said = [f"{self.job} cannot be checked: {self.trouble}"] if self.trouble else []
        for found, what in (
            (self.lost, "without a row"),
            (self.extra, "with a row that no schedule asked for"),
            (self.doubled, "with more than one row"),
        ):
            if found:
                slots = "slots" if len(found) > 1 else "slot"
                first = shown_time(found[0], self.zone)
                said.append(f"{self.job} has {len(found)} {slots} {what}, the first at {first}")
        return said


async def check(jobs: Jobs, now: float) -> list[str]:
    """What is amiss with the rows of all jobs, a sentence each; nothing when all is well."""
    return [line for faults in await faults_of(jobs, now) for line in faults.sentences()]


async def faults_of(jobs: Jobs, now: float) -> list[Faults]:
    found: list[Faults] = []
    after = ""
    while spans := await jobs.spans(after=after, count=PAGE):
        after = spans[-1].job
        for job, theirs in groupby(spans, key=lambda span: span.job):
            if not await _check_job(jobs, job, list(theirs), now):
                continue
            # Whoever tidied up or changed the job meanwhile is no fault: look again.
            if again := await _check_job(jobs, job, await jobs.spans(job), now):
                found.append(again)
    return found


async def _check_job(jobs: Jobs, job: str, spans: Sequence[JobSpan], now: float) -> Faults:
    if not spans:
        return Faults(job, "UTC")
    zone = spans[-1].schedule.zone
    wanted: Counter[float] = Counter()
    since, until = math.inf, -math.inf
    for span in spans:
        end = now - PATIENCE if span.end is None else span.end
        if end <= span.begin:
            continue
        since, until = min(since, span.begin), max(until, end)
        try:
            wanted.update(slots(span.schedule, span.begin, end))
        except HermesError as trouble:
            return Faults(job, "UTC", trouble=trouble.message)
    if since >= until:
        return Faults(job, zone)
    rows = Counter(await jobs.slots(job, since, until))
    return Faults(
        job,
        zone,
        tuple(sorted(wanted.keys() - rows.keys())),
        tuple(sorted(rows.keys() - wanted.keys())),
        tuple(sorted(slot for slot, count in rows.items() if count > 1)),
    )
