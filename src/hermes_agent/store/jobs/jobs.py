"""Jobs, and the spans of time in which each of their schedules applied."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.jobs import Job, JobSpan, JobSpec, JobState, Outdated, Schedule
from hermes_agent.store.engine.connection import Connection

_specs = msgspec.json.Decoder(JobSpec)
_schedules = msgspec.json.Decoder(Schedule)
_JOB = (
    "select number, spec, schedule, state, created, by, origin, planned, next, failures, version "
    "from jobs "
)


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def number_of(id: str) -> int | None:
    """The number in a job id, with or without `job-`; None if it is not one."""
    digits = id.removeprefix("job-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        return None
    return int(digits)


def _of(row: tuple[Any, ...]) -> Job:
    number, spec, schedule, *rest = row
    return Job(f"job-{number}", _specs.decode(spec), _schedules.decode(schedule), *rest)


def _jobs(db: Connection, rest: str, values: Sequence[Any] = ()) -> list[Job]:
    return [_of(row) for row in db.rows(_JOB + rest, values)]


def job(db: Connection, reference: str) -> Job:
    """By id or name; a removed job by its name only if no other has it. `NotFound` with a hint."""
    if (number := number_of(reference)) is not None:
        found = _jobs(db, "where number = ?", (number,))
    else:
        found = _jobs(
            db,
            "where name = ? and name <> '' order by state = 'removed', number desc limit 1",
            (reference,),
        )
    if not found:
        raise NotFound(f"no job {reference!r}", "`hermes task list` lists them")
    return found[0]


def jobs(db: Connection, *, state: JobState | None = None, limit: int = 1_000) -> list[Job]:
    """Newest last; removed jobs only when asked for."""
    wanted = "state <> 'removed'" if state is None else "state = ?2"
    values = (limit,) if state is None else (limit, state)
    return _jobs(db, f"where {wanted} order by number desc limit ?1", values)[::-1]


def due(db: Connection, now: float, limit: int = 1_000) -> list[Job]:
    """Active jobs whose `next` has passed, earliest first."""
    return _jobs(
        db,
        "where state = 'active' and next is not null and next <= ? order by next limit ?",
        (now, limit),
    )


def first(db: Connection) -> float | None:
    """When the next job is due."""
    sql = "select min(next) from jobs where state = 'active' and next is not null"
    found: float | None = db.execute(sql).get
    return found


def add_job(
    db: Connection, spec: JobSpec, schedule: Schedule, by: str, origin: str, next: float | None,
    key: str = "", paused: bool = False,
) -> Job:  # fmt: skip
    """Add a job, planned up to now; an active one with its first span. The same `key` returns the
    same job."""
    if key and (known := db.rows("select number from jobs where key = ?", (key,))):
        return job(db, f"job-{known[0][0]}")
    refuse_name(db, spec.name, 0)
    now = db.now()
    begin = _beginning(now, next)
    db.execute(
        "insert into jobs (key, name, state, spec, schedule, created, by, origin, planned, next) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key, spec.name, "paused" if paused else "active", encoded(spec), encoded(schedule), now,
            by, origin, begin, None if paused else next,
        ),
    )  # fmt: skip
    number = db.last_insert_rowid()
    if not paused:
        _begin_span(db, number, schedule, begin)
    return job(db, f"job-{number}")


def key_known(db: Connection, key: str) -> bool:
    """Whether a job was ever added under this key; it may be removed by now."""
    return bool(db.rows("select 1 from jobs where key = ?", (key,)))


def refuse_name(db: Connection, name: str, number: int) -> None:
    """Refuse a name that is taken or that looks like an id."""
    if number_of(name) is not None:
        raise UsageError(f"{name!r} is a job id, not a name", "choose another name")
    sql = "select number from jobs where name = ? and name <> '' and state <> 'removed'"
    if name and (taken := [one for (one,) in db.rows(sql, (name,)) if one != number]):
        raise UsageError(
            f"job-{taken[0]} is already called {name!r}",
            f"choose another name, or edit that one: `hermes task edit {name}`",
        )


def _beginning(now: float, next: float | None) -> float:
    """Where the span begins, so that a first slot that has just passed is not lost."""
    return now if next is None or next > now else math.nextafter(next, -math.inf)


def _begin_span(db: Connection, number: int, schedule: Schedule, begin: float) -> None:
    db.execute(
        "insert into job_spans (job, begin, schedule) values (?, ?, ?)",
        (number, begin, encoded(schedule)),
    )


def end_span(db: Connection, number: int, now: float) -> None:
    db.execute(
        "update job_spans set end = max(begin, ?) where job = ? and end is null", (now, number)
    )


def change(
    db: Connection,
    before: Job,
    spec: JobSpec | None,
    schedule: Schedule | None,
    state: JobState | None,
    next: float | None,
    now: float,
) -> Job:
    """Change a job. If its schedule ends, every slot of the old schedule must have its row
    already."""
    number = int(before.id.removeprefix("job-"))
    if before.state == "removed":
        raise UsageError(f"{before.id} was removed", "add it again: `hermes task add`")
    after = msgspec.structs.replace(
        before,
        spec=spec or before.spec,
        schedule=schedule or before.schedule,
        state=state or before.state,
        version=before.version + 1,
    )
    refuse_name(db, after.spec.name, number)
    if after.schedule != before.schedule or after.state != before.state:
        if before.state == "active" and before.next is not None and before.next <= now:
            raise Outdated(f"{before.id} is due and not planned yet", "try again in a moment")
        after = _turn(db, number, before, after, next, now)
    db.execute(
        "update jobs set name = ?, state = ?, spec = ?, schedule = ?, planned = ?, next = ?, "
        "version = ? where number = ?",
        (
            after.spec.name, after.state, encoded(after.spec), encoded(after.schedule),
            after.planned, after.next, after.version, number,
        ),
    )  # fmt: skip
    return after


def _turn(
    db: Connection, number: int, before: Job, after: Job, next: float | None, now: float
) -> Job:
    """End the span of the old schedule and begin that of the new one, if there is one."""
    if before.state == "active":
        end_span(db, number, max(now, before.planned))
    if after.state != "active":
        return msgspec.structs.replace(after, next=None)
    begin = _beginning(now, next)
    _begin_span(db, number, after.schedule, begin)
    return msgspec.structs.replace(after, planned=begin, next=next)


def spans(db: Connection, job: str = "", *, after: str = "", count: int = 1_000) -> list[JobSpan]:
    """The spans of one job, or of the `count` jobs after `after`, in order."""
    wanted, values = "job = ?", [number_of(job)]
    if not job:
        wanted = "job in (select distinct job from job_spans where job > ? order by job limit ?)"
        values = [number_of(after) or 0, count]
    sql = f"select job, schedule, begin, end from job_spans where {wanted} order by job, begin, id"
    return [
        JobSpan(f"job-{number}", _schedules.decode(schedule), begin, end)
        for number, schedule, begin, end in db.rows(sql, values)
    ]
