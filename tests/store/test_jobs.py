"""Jobs and their runs in the store: a row per slot, claims that hold, changes that lose nothing."""

from pathlib import Path

import pytest

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.jobs import JobSpec, NewRun, Outdated, Run, Schedule
from hermes_agent.store.store import Store
from tests.store.helpers import Clock, opened, slots_of

HOURLY = Schedule("every", "every 1h", seconds=3600.0, start=0.0)
DUE = frozenset({"due"})
CLAIMED = frozenset({"claimed"})
RUNNING = frozenset({"running"})


async def planned(store: Store, *slots: float, **spec: object) -> list[Run]:
    """A job with these slots, and their rows, the oldest first."""
    job = await store.jobs.add(JobSpec("look", **spec), HOURLY, "cli", "", slots[0])
    until = slots[-1]
    assert await store.jobs.plan(job, [NewRun(slot) for slot in slots], until, until + 3600)
    return list(await store.jobs.runs(job=job.id))[::-1]


async def test_a_job_is_kept_as_it_was_said_and_found_by_id_and_name(tmp_path: Path) -> None:
    spec = JobSpec("look", "night", ("telegram:1",), after=("job-1",), dollars=0.5, catch_up="all")
    async with opened(tmp_path, clock=Clock(100.0)) as store:
        job = await store.jobs.add(spec, HOURLY, "cli", "telegram:1", 3600.0)
        assert (job.id, job.state, job.planned, job.next) == ("job-1", "active", 100.0, 3600.0)
        assert (job.spec, job.schedule, job.by) == (spec, HOURLY, "cli")
        for reference in ("night", "job-1", "1"):
            assert await store.jobs.job(reference) == job
        (span,) = await store.jobs.spans("job-1")
        assert (span.begin, span.end, span.schedule) == (100.0, None, HOURLY)
        for wrong in ("job-2", "nobody", "", "job-", "job-99999999999999999999"):
            with pytest.raises(NotFound, match="no job"):
                await store.jobs.job(wrong)
    async with opened(tmp_path) as store:
        assert list(await store.jobs.jobs()) == [job]


async def test_the_same_key_adds_a_job_once_and_a_name_means_one_job(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        add = store.jobs.add
        first = await add(JobSpec("a", "night"), HOURLY, "cli", "", None, "k")
        assert await add(JobSpec("b"), HOURLY, "cli", "", None, "k") == first
        with pytest.raises(UsageError, match="job-1 is already called 'night'"):
            await add(JobSpec("b", "night"), HOURLY, "cli", "", None)
        with pytest.raises(UsageError, match="is a job id"):
            await add(JobSpec("b", "job-7"), HOURLY, "cli", "", None)
        await store.jobs.change("job-1", 1, state="removed")
        second = await add(JobSpec("b", "night"), HOURLY, "cli", "", None)
        assert await store.jobs.job("night") == second
        assert [job.id for job in await store.jobs.jobs()] == [second.id]
        assert [job.id for job in await store.jobs.jobs(state="removed")] == ["job-1"]


async def test_a_first_slot_that_passes_while_a_job_is_added_is_not_lost(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=Clock(100.5)) as store:
        once = Schedule("once", "1s", start=100.0)
        job = await store.jobs.add(JobSpec("look"), once, "cli", "", 100.0)
        assert job.planned < 100.0
        (span,) = await store.jobs.spans()
        assert span.begin < 100.0


async def test_due_jobs_come_earliest_first_and_nothing_else_is_due(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert await store.jobs.first() is None
        for next in (300.0, 200.0, None, 100.0):
            await store.jobs.add(JobSpec("look"), HOURLY, "cli", "", next)
        await store.jobs.change("job-2", 1, spec=JobSpec("look twice"))
        assert [job.next for job in await store.jobs.due(250.0)] == [100.0, 200.0]
        assert [job.id for job in await store.jobs.due(1e9, 1)] == ["job-4"]
        assert await store.jobs.first() == 100.0


async def test_two_planners_write_each_slot_once(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=Clock(10.0)) as store:
        job = await store.jobs.add(JobSpec("look"), HOURLY, "cli", "", 3600.0)
        rows = [NewRun(3600.0, "missed", "nobody was there"), NewRun(7200.0)]
        assert await store.jobs.plan(job, rows, 7300.0, 10800.0)
        assert not await store.jobs.plan(job, rows, 7300.0, 10800.0)
        changed = await store.jobs.job(job.id)
        assert (changed.planned, changed.next, changed.version) == (7300.0, 10800.0, 1)
        due, missed = await store.jobs.runs(job=job.id)
        assert (due.slot, due.state, due.ended) == (7200.0, "due", None)
        assert (missed.state, missed.error, missed.ended) == ("missed", "nobody was there", 10.0)
        assert await slots_of(store, job.id, 3600.0, 7200.0) == [7200.0]
        await store.jobs.change(job.id, 1, spec=JobSpec("other"))
        assert not await store.jobs.plan(changed, [NewRun(10800.0)], 10900.0, None)


async def test_one_run_of_a_job_is_claimed_at_a_time_unless_it_may_overlap(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.claim_unfinished()
        first, second = await planned(store, 3600.0, 7200.0)
        run = await store.jobs.claim(first.id, 7201.0)
        assert run is not None
        assert (run.state, run.claimed, run.fence, run.attempts) == ("claimed", 7201.0, 1, 1)
        assert await store.jobs.claim(first.id, 7202.0) is None
        assert await store.jobs.claim(second.id, 7202.0) is None
        await store.jobs.change_run(first.id, CLAIMED, state="parked", error="asked")
        assert await store.jobs.claim(second.id, 7203.0) is not None
        assert await store.jobs.claim(999, 7203.0) is None
        for run in await planned(store, 3600.0, 7200.0, overlap="parallel"):
            assert await store.jobs.claim(run.id, 7204.0) is not None


async def test_a_run_is_changed_only_by_its_runtime_and_from_an_expected_state(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, clock=Clock(50.0)) as store:
        await store.claim_unfinished()
        (run,) = await planned(store, 40.0)
        assert await store.jobs.change_run(run.id, RUNNING, state="done") is None
        await store.jobs.claim(run.id, 41.0)
        await store.jobs.change_run(run.id, CLAIMED, state="running", began=42.0, session="s")
        await store.jobs.change_run(run.id, RUNNING, heartbeat=45.0)
        with pytest.raises(TypeError, match="colour"):
            await store.jobs.change_run(run.id, RUNNING, colour="red")
        await store.claim_unfinished()  # as the runtime after a kill does
        assert await store.jobs.change_run(run.id, RUNNING, state="done") is None
        (mine,) = await store.jobs.claim_unfinished()
        assert (mine.fence, mine.heartbeat, mine.attempts, mine.state) == (2, 45.0, 1, "running")
        assert await store.jobs.claim_unfinished() == []
        done = await store.jobs.change_run(
            run.id,
            RUNNING,
            state="done",
            output="all is well",
            said=False,
            told=("late",),
            cost=0.5,
        )
        assert done is not None
        assert (done.ended, done.output, done.said, done.told) == (50.0, "all is well", False,
                                                                  ("late",))  # fmt: skip
        assert await store.jobs.run(run.id) == done


async def test_failures_in_a_row_are_counted_and_a_parked_run_can_be_due_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        runs = await planned(store, 10.0, 20.0, 30.0, 40.0)
        for run, state in zip(runs, ("failed", "failed", "missed", "done"), strict=True):
            await store.jobs.claim(run.id, 50.0)
            await store.jobs.change_run(run.id, CLAIMED, state=state, error=state)
            failures = (await store.jobs.job(run.job)).failures
            assert failures == (0 if state == "done" else min(2, run.id))
        (run,) = await planned(store, 10.0)
        await store.jobs.claim(run.id, 50.0)
        await store.jobs.change_run(run.id, CLAIMED, state="parked")
        again = await store.jobs.change_run(run.id, frozenset({"parked"}), state="due", error="")
        assert again is not None
        assert (again.claimed, again.fence, again.error) == (None, 0, "")
        assert await store.jobs.claim(run.id, 51.0) is not None


async def test_a_job_that_was_due_once_is_done_when_its_run_ends(tmp_path: Path) -> None:
    once = Schedule("once", "30m", start=20.0)
    async with opened(tmp_path, clock=Clock(30.0)) as store:
        for state in ("failed", "missed"):
            job = await store.jobs.add(JobSpec("look"), once, "cli", "", 20.0)
            early = state if state == "missed" else "due"
            assert await store.jobs.plan(job, [NewRun(20.0, early)], 30.0, None)
            if state == "failed":
                assert (await store.jobs.job(job.id)).state == "active"
                (run,) = await store.jobs.runs(job=job.id)
                await store.jobs.claim(run.id, 30.0)
                await store.jobs.change_run(run.id, CLAIMED, state="failed")
            assert (await store.jobs.job(job.id)).state == "done"
            (span,) = await store.jobs.spans(job.id)
            assert span.end == 30.0
        by_hand = await store.jobs.ask(job.id, 31.0)
        assert await store.jobs.claim(by_hand.id, 31.0) is not None


async def test_runs_by_hand_are_apart_from_slots(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        (slot,) = await planned(store, 40.0)
        hands = [await store.jobs.ask(slot.job, 40.0) for _ in range(3)]
        assert len({run.slot for run in hands}) == 3
        assert {run.trigger for run in hands} == {"hand"}
        assert await slots_of(store, slot.job, 0.0, 100.0) == [40.0]
        assert len(await store.jobs.open()) == 4
        assert len(await store.jobs.open(2)) == 2
        assert len(await store.jobs.runs(since=40.0005, states=DUE)) == 2


async def test_a_job_with_many_waiting_runs_does_not_hide_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        many = await planned(store, *(float(n) for n in range(1, 21)))
        (late,) = await planned(store, 100.0)
        await store.jobs.claim(many[5].id, 101.0)
        some = await store.jobs.open(10, each=2)
        assert [run.id for run in some] == [many[0].id, many[1].id, many[5].id, late.id]
        assert len(await store.jobs.open(10)) == 10


async def test_a_change_of_schedule_ends_a_span_and_a_pause_begins_none(tmp_path: Path) -> None:
    clock = Clock(100.0)
    daily = Schedule("every", "every 1d", seconds=86_400.0, start=0.0)
    async with opened(tmp_path, clock=clock) as store:
        await store.jobs.add(JobSpec("look"), HOURLY, "cli", "", 3600.0)
        clock.now = 200.0
        job = await store.jobs.change("job-1", 1, schedule=daily, next=86_400.0)
        assert (job.next, job.planned, job.version) == (86_400.0, 200.0, 2)
        with pytest.raises(Outdated, match="changed meanwhile"):
            await store.jobs.change("job-1", 1, state="paused")
        clock.now = 300.0
        assert (await store.jobs.change("job-1", 2, state="paused")).next is None
        clock.now = 400.0
        await store.jobs.change("job-1", 3, state="active", next=86_400.0)
        times = [(span.begin, span.end) for span in await store.jobs.spans("job-1")]
        assert times == [(100.0, 200.0), (200.0, 300.0), (400.0, None)]
        clock.now = 90_000.0
        with pytest.raises(Outdated, match="due and not planned"):
            await store.jobs.change("job-1", 4, state="paused")


async def test_what_a_removed_job_did_not_begin_is_missed(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=Clock(21.0)) as store:
        begun, waiting = await planned(store, 10.0, 20.0)
        await store.jobs.claim(begun.id, 21.0)
        job = await store.jobs.change(begun.job, 1, state="removed")
        missed = await store.jobs.run(waiting.id)
        assert (missed.state, missed.error) == ("missed", "the job was removed before it began")
        await store.jobs.change_run(begun.id, CLAIMED, state="done")
        assert (await store.jobs.job(job.id)).state == "removed"
        with pytest.raises(UsageError, match="was removed"):
            await store.jobs.ask(job.id, 30.0)
        with pytest.raises(UsageError, match="was removed"):
            await store.jobs.change(job.id, 2, state="active")


async def test_a_clock_set_back_takes_back_what_nobody_began(tmp_path: Path) -> None:
    clock = Clock(10.0)
    async with opened(tmp_path, clock=clock) as store:
        job = await store.jobs.add(JobSpec("look"), HOURLY, "cli", "", 3600.0)
        rows = [NewRun(3600.0), NewRun(7200.0, "missed"), NewRun(10800.0)]
        assert await store.jobs.plan(job, rows, 11_000.0, 14_400.0)
        last = (await store.jobs.runs(job=job.id))[0]
        await store.jobs.claim(last.id, 11_000.0)
        assert await store.jobs.rewind(10_990.0, 60.0) == []
        (back,) = await store.jobs.rewind(5000.0, 60.0)
        assert (back.id, back.planned, back.next) == (job.id, 5000.0, 5000.0)
        assert await slots_of(store, job.id, 0.0, 1e9) == [3600.0, 10800.0]
        assert await store.jobs.plan(back, [NewRun(7200.0), NewRun(10800.0)], 11_000.0, 14_400.0)
        assert await slots_of(store, job.id, 0.0, 1e9) == [3600.0, 7200.0, 10800.0]
        assert (await store.jobs.run(last.id)).state == "claimed"


async def test_tidying_up_keeps_the_newest_and_what_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        old, *_, new = await planned(store, *(float(n) for n in range(1, 31)))
        for run in await store.jobs.runs(limit=100):
            if run.id != old.id:
                await store.jobs.change_run(run.id, DUE, state="missed", error=f"{run.slot}")
        assert await store.jobs.tidy(10) == 19
        slots = [run.slot for run in await store.jobs.runs(limit=100)]
        assert slots == [*(float(n) for n in range(30, 20, -1)), 1.0]
        (span,) = await store.jobs.spans()
        assert span.begin == 20.0
        assert (await store.jobs.run(new.id)).error == "30.0"
        assert await store.jobs.tidy(10) == 0


async def test_spans_are_read_some_jobs_at_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for _ in range(5):
            await store.jobs.add(JobSpec("look"), HOURLY, "cli", "", None)
        first = await store.jobs.spans(count=3)
        rest = await store.jobs.spans(after=first[-1].job, count=3)
        assert [span.job for span in (*first, *rest)] == [f"job-{n}" for n in range(1, 6)]
        assert await store.jobs.spans(after="job-5") == []
