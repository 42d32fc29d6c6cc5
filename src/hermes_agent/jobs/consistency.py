"""Compares the spans of schedules with the rows of their slots, and reports slots without a row,
rows without a slot and duplicates. It trusts nothing that the planner noted."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.jobs import JobSpan, NewRun
from hermes_agent.jobs.schedules.parse import shown_time
from hermes_agent.jobs.schedules.slots import slots
from hermes_agent.store.jobs.store import JobStore

PATIENCE = 60.0
"""Seconds after which a slot without a row is a fault."""
PAGE = 200
"""Jobs checked at once."""


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
            (self.extra, "with a row outside the schedule"),
            (self.doubled, "with more than one row"),
        ):
            if found:
                slots = "slots" if len(found) > 1 else "slot"
                first = shown_time(found[0], self.zone)
                said.append(f"{self.job} has {len(found)} {slots} {what}, the first at {first}")
        return said


async def check(jobs: JobStore, now: float) -> list[str]:
    """Faults in the rows of all jobs, a sentence each."""
    return [line for faults in await faults_of(jobs, now) for line in faults.sentences()]


async def faults_of(jobs: JobStore, now: float) -> list[Faults]:
    found: list[Faults] = []
    after = ""
    while spans := await jobs.spans(after=after, count=PAGE):
        after = spans[-1].job
        ends = [_end(span, now) for span in spans]
        rows = await jobs.all_slots(spans[0].job, after, min(s.begin for s in spans), max(ends))
        for job, theirs in groupby(spans, key=lambda span: span.job):
            if not _compare(job, list(theirs), rows.get(job, ()), now):
                continue
            # Whoever tidied up or changed the job meanwhile is no fault: look again.
            fresh = await jobs.spans(job)
            there = (await jobs.all_slots(job, job, -math.inf, now)).get(job, ())
            if again := _compare(job, fresh, there, now):
                found.append(again)
    return found


def _end(span: JobSpan, now: float) -> float:
    return now - PATIENCE if span.end is None else span.end


def _compare(
    job: str, spans: Sequence[JobSpan], rows: Sequence[NewRun], now: float
) -> Faults:  # fmt: skip
    held = [span for span in spans if _end(span, now) > span.begin]
    if not held:
        return Faults(job, "UTC")
    since, until = min(span.begin for span in held), max(_end(span, now) for span in held)
    wanted: set[float] = set()
    try:
        for span in held:
            wanted.update(slots(span.schedule, span.begin, _end(span, now)))
    except HermesError as trouble:
        return Faults(job, "UTC", trouble=trouble.message)
    there = Counter(run.slot for run in rows if since < run.slot <= until)
    for run in rows:
        if run.since is not None and since < run.slot <= until:
            wanted -= {slot for slot in wanted if run.since < slot < run.slot} - there.keys()
    return Faults(
        job,
        spans[-1].schedule.zone,
        tuple(sorted(wanted - there.keys())),
        tuple(sorted(there.keys() - wanted)),
        tuple(sorted(slot for slot, count in there.items() if count > 1)),
    )
