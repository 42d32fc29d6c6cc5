"""Runs of jobs: every slot of a schedule has exactly one row, which many missed ones may share."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.jobs import (
    ENDED,
    Job,
    JobSpec,
    JobState,
    NewRun,
    Outdated,
    Run,
    RunState,
    Schedule,
)
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.jobs import jobs

TIDY_ROWS = 5_000
"""Rows deleted in one transaction, so that other writes are not held up."""
OPEN_STATES = "('due', 'claimed', 'running', 'parked')"

_FIELDS = frozenset(Run.__struct_fields__) - {"id", "job", "slot", "trigger", "created", "state"}
_RUN = (
    "select r.id, 'job-' || r.job, r.slot, r.state, r.hand, r.created, r.claimed, r.fence, "
    "r.heartbeat, r.attempts, r.began, r.ended, r.session, r.after, r.output, r.said, "
    "coalesce(e.text, ''), r.cost, r.tokens, r.late, r.told, r.slots, r.sent_to, r.unsent "
    "from job_runs r left join job_reasons e on e.id = r.reason "
)


def _of(row: tuple[Any, ...]) -> Run:
    run = Run(*row)
    return msgspec.structs.replace(
        run,
        trigger="hand" if row[4] else "schedule",
        said=bool(run.said),
        told=tuple(row[20].split()),
        sent_to=tuple(filter(None, row[22].split("\n"))),
    )


def _runs(db: Connection, rest: str, values: Sequence[Any] = ()) -> list[Run]:
    return [_of(row) for row in db.rows(_RUN + rest, values)]


def run(db: Connection, id: int) -> Run:
    found = _runs(db, "where r.id = ?", (id,))
    if not found:
        raise NotFound(f"no run {id}", "`hermes task history` lists them")
    return found[0]


def runs(
    db: Connection, *, job: str = "", states: frozenset[RunState] | None = None, limit: int = 50,
    since: float | None = None,
) -> list[Run]:  # fmt: skip
    """Newest slot first."""
    wanted, values = ["1"], list[Any]()
    if job:
        wanted.append("r.job = ?")
        values.append(jobs.number_of(jobs.job(db, job).id))
    if states is not None:
        wanted.append(f"r.state in ({', '.join('?' * len(states))})")
        values.extend(sorted(states))
    if since is not None:
        wanted.append("r.slot >= ?")
        values.append(since)
    sql = f"where {' and '.join(wanted)} order by r.slot desc, r.id desc limit ?"
    return _runs(db, sql, [*values, limit])


def open_runs(db: Connection, limit: int = 1_000, each: int | None = None) -> list[Run]:
    """Runs that have not ended, oldest slot first. `each` limits the runs of one job in one state,
    so that a job that waits for ever hides no other."""
    rest, values = f"where r.state in {OPEN_STATES} ", list[Any]()
    if each is not None:
        rest += (
            "and r.id in (select id from (select id, row_number() over "
            "(partition by job, state order by slot, id) as place from job_runs "
            f"where state in {OPEN_STATES}) where place <= ?) "
        )
        values.append(each)
    return _runs(db, rest + "order by r.slot, r.id limit ?", [*values, limit])


def all_slots(
    db: Connection, first: str, last: str, since: float, until: float
) -> dict[str, list[NewRun]]:
    """Rows with `since < slot <= until`, in order, of all jobs from `first` to `last`: for the
    consistency check."""
    sql = (
        "select job, slot, state, slots, since from job_runs "
        "where job between ? and ? and slot > ? and slot <= ? and hand = 0 order by job, slot"
    )
    numbers = jobs.number_of(first), jobs.number_of(last)
    found: dict[str, list[NewRun]] = {}
    for number, slot, state, slots, after in db.rows(sql, (*numbers, since, until)):
        run = NewRun(slot, state, slots=slots, since=after)
        found.setdefault(f"job-{number}", []).append(run)
    return found


def _reason(db: Connection, text: str) -> int | None:
    if not text:
        return None
    db.execute("insert or ignore into job_reasons (text) values (?)", (text,))
    number: int = db.execute("select id from job_reasons where text = ?", (text,)).get
    return number


def plan(
    db: Connection, job: Job, runs: Sequence[NewRun], until: float, next: float | None
) -> bool:
    """Write the rows of all slots up to `until` and advance `planned`, in one transaction. False,
    with nothing done, if the job was planned or changed meanwhile. A `once` job is `done` when its
    run has ended."""
    number, now = jobs.number_of(job.id), db.now()
    db.execute(
        "update jobs set planned = ?, next = ? "
        "where number = ? and state = 'active' and planned = ? and version = ?",
        (until, next, number, job.planned, job.version),
    )
    if db.changes() != 1:
        return False
    reasons = {text: _reason(db, text) for text in {one.error for one in runs}}
    # A row that is there already was planned before the clock was set back.
    db.executemany(
        "insert or ignore into job_runs (job, slot, hand, state, created, ended, reason, slots, "
        "since) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (number, one.slot, one.trigger == "hand", one.state, now,
             now if one.state in ENDED else None, reasons[one.error], one.slots, one.since)
            for one in runs
        ),
    )  # fmt: skip
    if job.schedule.kind == "once" and any(one.state in ENDED for one in runs):
        _finish(db, job, now)
    return True


def _finish(db: Connection, job: Job, now: float) -> None:
    """A `once` job is done."""
    number = int(job.id.removeprefix("job-"))
    db.execute(
        "update jobs set state = 'done', next = null, version = version + 1 where number = ?",
        (number,),
    )
    jobs.end_span(db, number, max(now, job.planned))


def ask(db: Connection, job: str, now: float) -> Run:
    """Add a run that a person asked for."""
    wanted = jobs.job(db, job)
    if wanted.state == "removed":
        raise UsageError(f"{wanted.id} was removed", "add it again: `hermes task add`")
    number = jobs.number_of(wanted.id)
    taken = "select max(slot) from job_runs where job = ? and slot >= ? and hand = 1"
    last: float | None = db.execute(taken, (number, now)).get
    db.execute(
        "insert into job_runs (job, slot, hand, state, created) values (?, ?, 1, 'due', ?)",
        (number, now if last is None else last + 1e-3, now),
    )
    return run(db, db.last_insert_rowid())


def claim(db: Connection, id: int, now: float) -> Run | None:
    """Claim a `due` run for this runtime (under its fence); None if it is no longer due, or if
    another run of the job is under way and `overlap` is not `parallel`."""
    wanted = _runs(db, "where r.id = ? and r.state = 'due'", (id,))
    if not wanted:
        return None
    job = jobs.job(db, wanted[0].job)
    busy = "select 1 from job_runs where job = ? and state in ('claimed', 'running') limit 1"
    number = jobs.number_of(job.id)
    if job.spec.overlap != "parallel" and db.rows(busy, (number,)):
        return None
    db.execute(
        "update job_runs set state = 'claimed', claimed = ?, fence = ?, heartbeat = null, "
        "attempts = attempts + 1 where id = ?",
        (now, db.context.fence, id),
    )
    return run(db, id)


def change_run(
    db: Connection, /, id: int, expect: frozenset[RunState], *, state: RunState | None = None,
    **fields: object,
) -> Run | None:  # fmt: skip
    """Change a run that is in one of these states and claimed by this runtime or by nobody; None
    otherwise. Ending a run updates the failure count and ends a `once` job."""
    before, now = run(db, id), db.now()
    if before.state not in expect or before.fence not in (0, db.context.fence):
        return None
    if unknown := fields.keys() - _FIELDS:
        raise TypeError(f"a run has no {sorted(unknown)}")
    if state is not None:
        fields["state"] = state
    if state in ENDED and before.state not in ENDED:
        fields.setdefault("ended", now)
    if state == "due":
        fields |= {"fence": 0, "claimed": None, "heartbeat": None}
    _save(db, id, fields)
    after = run(db, id)
    if after.state in ENDED and before.state not in ENDED:
        _ended(db, after, now)
    return after


def _save(db: Connection, id: int, fields: Mapping[str, Any]) -> None:
    values = dict(fields)
    if "error" in values:
        values["reason"] = _reason(db, values.pop("error"))
    if "told" in values:
        values["told"] = " ".join(values["told"])
    if "sent_to" in values:
        values["sent_to"] = "\n".join(values["sent_to"])
    if values:
        names = ", ".join(f"{name} = ?" for name in values)
        db.execute(f"update job_runs set {names} where id = ?", (*values.values(), id))


def _ended(db: Connection, run: Run, now: float) -> None:
    """Update the count of consecutive failures, and end a `once` job."""
    count = {"done": "0", "failed": "failures + 1"}.get(run.state, "failures")
    number = jobs.number_of(run.job)
    db.execute(f"update jobs set failures = {count} where number = ?", (number,))
    job = jobs.job(db, run.job)
    if job.schedule.kind == "once" and run.trigger == "schedule" and job.state == "active":
        _finish(db, job, now)


def change_job(
    db: Connection, id: str, version: int, *, spec: JobSpec | None = None,
    schedule: Schedule | None = None, state: JobState | None = None, next: float | None = None,
) -> Job:  # fmt: skip
    """Change a job that is still at `version`. A new schedule or state ends its span and begins
    another; `next` is used only then. Planned slots stay; those of a removed job that have not
    begun are missed. `Outdated` if the job was changed meanwhile, or is due and must be planned
    first (`jobs.planner.change_job` does both)."""
    before, now = jobs.job(db, id), db.now()
    if before.version != version:
        raise Outdated(f"{id} was changed meanwhile", "reload it and try again")
    after = jobs.change(db, before, spec, schedule, state, next, now)
    if after.state == "removed":
        _miss_unbegun(db, id, "the job was removed before it began", now)
    return after


def _miss_unbegun(db: Connection, job: str, reason: str, now: float) -> None:
    db.execute(
        "update job_runs set state = 'missed', ended = ?, reason = ? "
        "where job = ? and state = 'due'",
        (now, _reason(db, reason), jobs.number_of(job)),
    )


def claim_unfinished_runs(db: Connection) -> list[Run]:
    """Claim the runs of an earlier runtime, parked ones included, under this fence."""
    fence = db.context.fence
    begun = "state in ('claimed', 'running', 'parked')"
    found = _runs(db, f"where r.{begun} and r.fence <> ? order by r.slot, r.id", (fence,))
    db.execute(f"update job_runs set fence = ?1 where {begun} and fence <> ?1", (fence,))
    return [msgspec.structs.replace(one, fence=fence) for one in found]


def rewind(db: Connection, now: float, tolerance: float) -> list[Job]:
    """After the clock was set back: re-plan active jobs that are planned more than `tolerance`
    seconds beyond `now`. Future slots that were not begun are removed, with those that share their
    row; others stay, so that none runs twice, and so do those of earlier schedules."""
    ahead = db.rows(
        "select number from jobs where state = 'active' and planned > ?", (now + tolerance,)
    )
    for (number,) in ahead:
        gone = db.rows(
            "delete from job_runs where job = ?1 and hand = 0 and state in ('due', 'missed') "
            "and slot > (select max(?2, coalesce(max(end), ?2)) from job_spans where job = ?1) "
            "returning since",
            (number, now),
        )
        planned = min([now, *(since for (since,) in gone if since is not None)])
        db.execute(
            "update job_spans set begin = min(begin, ?) where job = ? and end is null",
            (planned, number),
        )
        db.execute(
            "update jobs set planned = ?1, next = ?1, version = version + 1 where number = ?2",
            (planned, number),
        )
    return [jobs.job(db, f"job-{number}") for (number,) in ahead]


def tidy_runs(db: Connection, keep: int) -> int:
    """Delete some rows beyond the newest `keep` of each job; returns how many."""
    crowded = db.rows(
        "select job from job_runs group by job having count(*) > ? order by job", (keep,)
    )
    gone = 0
    for (number,) in crowded:
        if gone >= TIDY_ROWS:
            break
        # Below this slot nothing is kept, so the rows from there on are the ones to be checked.
        least: float = db.execute(
            "select slot from job_runs where job = ? order by slot desc limit 1 offset ?",
            (number, keep - 1),
        ).get
        old = db.rows(
            "select id, slot from job_runs where job = ? and slot < ? "
            f"and state not in {OPEN_STATES} order by slot limit ?",
            (number, least, TIDY_ROWS - gone),
        )
        if not old:
            continue
        db.executemany("delete from job_runs where id = ?", ((id,) for id, _ in old))
        last = old[-1][1]
        db.execute("delete from job_spans where job = ? and end <= ?", (number, last))
        db.execute(
            "update job_spans set begin = ? where job = ? and begin < ?", (last, number, last)
        )
        gone += len(old)
    if gone:
        db.execute("delete from job_reasons where id not in "
                   "(select reason from job_runs where reason is not null)")  # fmt: skip
    return gone
