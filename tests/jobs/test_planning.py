"""Slots that have come: which of them are run, which are missed and why, and that none is lost."""

from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.jobs import Job, JobSpec, Run, Schedule
from hermes_agent.jobs.consistency import check
from hermes_agent.jobs.messages import missed_text
from hermes_agent.jobs.planner import (
    CHUNK,
    MAX_CAUGHT_UP,
    MAX_MISSED,
    PlanSummary,
    change_job,
    plan_due,
)
from hermes_agent.jobs.schedules.parse import parse
from hermes_agent.jobs.schedules.slots import next_slot
from hermes_agent.store.store import Store
from tests.store.helpers import Clock, opened

DAY = 86_400.0
START = 1_767_225_600.0  # 2026-01-01 00:00 UTC, a Thursday
MINUTES = "* * * * *"


async def a_job(store: Store, text: str, now: float = START, **spec: object) -> Job:
    schedule = parse(text, now, "UTC")
    first = next_slot(schedule, now)
    return await store.jobs.add(JobSpec("look", **spec), schedule, "cli", "", first)


async def rows(store: Store, job: Job) -> list[Run]:
    return list(await store.jobs.runs(job=job.id, limit=1_000_000))[::-1]


async def test_a_slot_is_due_when_it_has_come_and_not_before(tmp_path: Path) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, "0 8 * * *")
        assert job.next == START + 8 * 3600
        assert await plan_due(store.jobs, START + 8 * 3600 - 1) == PlanSummary()
        assert await plan_due(store.jobs, START + 8 * 3600) == PlanSummary(due=1)
        assert await plan_due(store.jobs, START + 8 * 3600) == PlanSummary()
        (run,) = await rows(store, job)
        assert (run.slot, run.state) == (START + 8 * 3600, "due")
        assert await store.jobs.first() == START + DAY + 8 * 3600


@pytest.mark.parametrize(
    ("catch_up", "late", "states"),
    [
        ("latest", 9 * 3600, ["missed", "missed", "due"]),
        ("all", 9 * 3600, ["due", "due", "due"]),
        ("none", 9 * 3600, ["missed", "missed", "missed"]),
        ("none", 8 * 3600 + 60, ["missed", "missed", "due"]),
    ],
)
async def test_what_nobody_was_there_for_is_caught_up_by_rule(
    tmp_path: Path, catch_up: str, late: float, states: list[str]
) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, "0 8 * * *", catch_up=catch_up)
        clock.now = START + 2 * DAY + late
        planned = await plan_due(store.jobs, clock.now, START + 3600)
        assert (planned.due, planned.missed) == (states.count("due"), states.count("missed"))
        found = await rows(store, job)
        assert [run.state for run in found] == states
        for run in found:
            assert ("down from Thu 2026-01-01 01:00 to Sat" in run.error) == (run.state == "missed")
        assert await check(store.jobs, clock.now) == []


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
async def test_months_of_minutes_have_few_rows_and_fewer_of_them_run(
    tmp_path: Path, catch_up: str
) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, MINUTES, catch_up=catch_up)
        count = 2 * CHUNK + 77
        clock.now = START + count * 60
        kept = MAX_CAUGHT_UP if catch_up == "all" else 1
        assert await plan_due(store.jobs, clock.now) == PlanSummary(
            kept, count - kept, jobs=frozenset({job.id})
        )
        shared, *found = await rows(store, job)
        own = MAX_MISSED + kept
        assert [run.slot for run in found] == [START + (count - n) * 60 for n in range(own)][::-1]
        assert {run.state for run in found[-kept:]} == {"due"}
        assert {run.state for run in found[:-kept]} == {"missed"}
        (why,) = {run.error for run in found[:-kept]}
        assert (shared.state, shared.slots) == ("missed", count - own)
        assert shared.error == f"missed {count - own:,} slots: {why}"
        text = missed_text(job, [*reversed(found[:-kept]), shared])
        assert f"{count - kept:,} runs were missed, due up to " in text
        assert await check(store.jobs, clock.now) == []
        assert await store.jobs.tidy(150) == max(0, own + 1 - max(150, kept))
        assert await check(store.jobs, clock.now) == []


async def test_a_job_that_cannot_be_worked_out_does_not_stop_the_others(tmp_path: Path) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        good = await a_job(store, MINUTES)
        gone = replace(good.schedule, zone="Atlantis/Gone")
        await store.jobs.add(JobSpec("look"), gone, "cli", "", START)
        planned = await plan_due(store.jobs, START + 60)
        assert (planned.due, planned.troubles) == (1, ("job-2: unknown time zone 'Atlantis/Gone'",))
        assert await plan_due(store.jobs, START + 60) == PlanSummary()
        assert (await store.jobs.job("job-2")).next == START + 3660
        assert await check(store.jobs, START + 60) == [
            "job-2 cannot be checked: unknown time zone 'Atlantis/Gone'"
        ]


async def test_a_schedule_that_breaks_does_not_stop_the_others(tmp_path: Path) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        good = await a_job(store, MINUTES)
        endless = Schedule("every", "every 0 s", start=START)
        await store.jobs.add(JobSpec("look"), endless, "cli", "", START)
        planned = await plan_due(store.jobs, START + 60)
        assert planned.due == 1
        (trouble,) = planned.troubles
        assert trouble.startswith("job-2: ZeroDivisionError")
        assert [run.slot for run in await rows(store, good)] == [START + 60]


async def test_a_change_loses_no_slot_that_was_due_before_it(tmp_path: Path) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, MINUTES)
        clock.now = START + 90
        hourly = parse("0 * * * *", clock.now, "UTC")
        changed = await change_job(store.jobs, job.id, clock, schedule=hourly)
        assert (changed.next, changed.planned) == (START + 3600, START + 90)
        assert [run.slot for run in await rows(store, job)] == [START + 60]
        paused = await change_job(store.jobs, job.id, clock, state="paused")
        assert (paused.state, paused.next) == ("paused", None)
        clock.now = START + 3 * 3600 + 1
        assert await plan_due(store.jobs, clock.now) == PlanSummary()
        resumed = await change_job(store.jobs, job.id, clock, state="active")
        assert resumed.next == START + 4 * 3600
        clock.now = START + 4 * 3600
        assert await plan_due(store.jobs, clock.now) == PlanSummary(due=1)
        assert len(await rows(store, job)) == 2
        assert await check(store.jobs, clock.now + 61) == []


async def test_a_single_moment_that_passed_in_a_pause_is_said_and_can_be_set_anew(
    tmp_path: Path,
) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, "30m")
        await change_job(store.jobs, job.id, clock, state="paused")
        clock.now += 3600
        with pytest.raises(UsageError, match="was due at Thu 2026-01-01 00:30, which has passed"):
            await change_job(store.jobs, job.id, clock, state="active")
        later = parse("30m", clock.now, "UTC")
        job = await change_job(store.jobs, job.id, clock, schedule=later, state="active")
        clock.now += 3600
        assert await plan_due(store.jobs, clock.now) == PlanSummary(due=1)
        (run,) = await rows(store, job)
        await store.jobs.claim(run.id, clock.now)
        await store.jobs.change_run(run.id, frozenset({"claimed"}), state="done")
        assert (await store.jobs.job(job.id)).state == "done"
        again = parse("10m", clock.now, "UTC")
        job = await change_job(store.jobs, job.id, clock, schedule=again)
        assert (job.state, job.next) == ("active", clock.now + 600)


async def test_changes_of_others_are_taken_into_account_and_endless_ones_end(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, clock=Clock(START + 60)) as store:
        job = await a_job(store, MINUTES)
        behind = Clock(START)  # a clock that never sees what the store sees as due
        with pytest.raises(HermesError, match="keeps changing"):
            await change_job(store.jobs, job.id, behind, state="paused")


async def test_after_a_clock_was_wrong_jobs_are_due_again_and_none_twice(tmp_path: Path) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, "0 * * * *")
        clock.now = START + 400 * DAY
        planned = await plan_due(store.jobs, clock.now)
        assert (planned.due, planned.missed) == (1, 400 * 24 - 1)
        late = await a_job(store, "0 * * * *", clock.now)
        clock.now = START + 2 * 3600 + 5
        assert [one.id for one in await store.jobs.rewind(clock.now, 60.0)] == [job.id, late.id]
        again = await plan_due(store.jobs, clock.now)  # the two that shared a row with the others
        assert again == PlanSummary(1, 1, jobs=frozenset({job.id}))
        assert [run.slot for run in await rows(store, job)] == [START + 3600, START + 7200]
        clock.now = START + 3 * 3600
        assert await plan_due(store.jobs, clock.now) == PlanSummary(due=2)
        assert await store.jobs.rewind(clock.now, 60.0) == []
        assert await check(store.jobs, clock.now + 61) == []


async def test_the_checker_names_lost_slots_and_rows_that_nobody_asked_for(tmp_path: Path) -> None:
    clock = Clock(START)
    async with opened(tmp_path, clock=clock) as store:
        job = await a_job(store, "0 * * * *")
        await a_job(store, MINUTES)
        clock.now = START + 5 * 3600
        await plan_due(store.jobs, clock.now)
        assert await check(store.jobs, clock.now) == []
        db = apsw.Connection(str(tmp_path / "state.db"))
        db.execute("delete from job_runs where job = 1 and slot in (?, ?)",
                   (START + 7200, START + 10800))  # fmt: skip
        db.execute(
            "update job_runs set slot = slot + 1 where job = 2 and slot = ?", (START + 14_460,)
        )
        db.close()
        lost, moved, extra = await check(store.jobs, clock.now)
        assert lost == "job-1 has 2 slots without a row, the first at Thu 2026-01-01 02:00"
        assert moved == "job-2 has 1 slot without a row, the first at Thu 2026-01-01 04:01"
        assert "1 slot with a row outside the schedule" in extra
        assert extra.endswith("Thu 2026-01-01 04:01:01")
        # A planner that is never called is found, too.
        assert "job-1 has 3 slots without a row" in (await check(store.jobs, clock.now + 3661))[0]
        assert (await store.jobs.job(job.id)).planned == clock.now


async def test_a_once_job_is_planned_in_its_own_words(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=Clock(START)) as store:
        once = Schedule("once", "x", start=START + 5)
        job = await store.jobs.add(JobSpec("look", catch_up="none"), once, "cli", "", START + 5)
        assert await plan_due(store.jobs, START + DAY) == PlanSummary(
            missed=1, jobs=frozenset({job.id})
        )
        assert (await store.jobs.job(job.id)).state == "done"
