"""How long a run may take, by a clock that nobody sets; and what ends it early."""

from pathlib import Path

from hermes_agent.core.errors import OutcomeUnknown
from hermes_agent.core.jobs import JobSpec, Run, Schedule
from hermes_agent.core.records import SessionMessage
from hermes_agent.core.tools import Tool
from tests.runtime.test_jobs import begun, says, waits
from tests.store.helpers import opened
from tests.support.jobs import DAY, HOUR, MONDAY, Clock, Workplace, workplace
from tests.support.runtime_fixture import script, until


async def alive(log: Path) -> int:
    """The pid that a script has written."""

    async def there() -> bool:
        return log.exists() and log.read_text().strip().isdigit()

    await until(there)
    return int(log.read_text())


async def gone(pid: int) -> None:
    async def over() -> bool:
        return not Path(f"/proc/{pid}").exists()

    await until(over)


async def beats(place: Workplace, run: Run, seconds: float) -> Run:
    """A run once it is known to have worked for so long."""

    async def there() -> bool:
        now = await place.jobs.run(run.id)
        return (now.heartbeat or 0.0) - (now.began or 0.0) >= seconds

    await until(there)
    return await place.jobs.run(run.id)


# a clock that is set


async def test_a_clock_set_forward_and_a_machine_that_slept_end_no_run(tmp_path: Path) -> None:
    model, go = waits(tmp_path)
    async with workplace(tmp_path, model) as place:
        job = await place.add("every 7d", timeout=100.0)
        asked = await place.runtime.job_service.ask(job.id)
        await begun(place)
        place.clock.set(DAY)
        place.clock.now += 20
        await beats(place, asked, 20)
        assert (await place.jobs.run(asked.id)).state == "running"
        place.clock.set(-2 * DAY)
        go.touch()
        assert (await place.in_state(asked.id, "done")).output == "went"


async def test_the_time_that_a_run_has_taken_is_kept_over_a_restart_and_not_that_between(
    tmp_path: Path,
) -> None:
    model, clock = script(tmp_path, "slow", {"say": "at last", "wait": 300}), Clock()
    async with workplace(tmp_path, model, clock=clock) as place:
        job = await place.add("every 7d", timeout=100.0)
        asked = await place.runtime.job_service.ask(job.id)
        await begun(place)
        clock.now += 60
        await beats(place, asked, 60)
    clock.now += HOUR
    async with workplace(tmp_path, model, clock=clock) as place:

        async def gone_on_with() -> bool:
            return asked.id in place.runtime.jobs._workers

        await until(gone_on_with)
        clock.now += 30
        assert (await beats(place, asked, 90)).state == "running"
        clock.now += 10
        run = await place.in_state(asked.id, "failed")
        assert run.error == "it took longer than 1 min 40 s and was stopped"


# what ends it early


async def test_a_script_under_way_ends_with_its_job(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with workplace(tmp_path) as place:
        job = await place.add(script=f"echo $$ > {log}; sleep 300", script_only=True)
        asked = await place.runtime.job_service.ask(job.id)
        pid = await alive(log)
        await place.runtime.job_service.set_state(job.id, "paused")
        assert (await place.jobs.run(asked.id)).state == "running"
        await place.runtime.job_service.remove(job.id)
        run = await place.in_state(asked.id, "failed")
        assert run.error == "its script was stopped by the removal of the job"
        await gone(pid)
        assert await place.sent() == []


async def test_a_job_that_was_removed_while_nobody_was_there_is_not_gone_on_with(
    tmp_path: Path,
) -> None:
    log, clock = tmp_path / "log", Clock()
    async with workplace(tmp_path, clock=clock) as place:
        job = await place.add(script=f"echo $$ > {log}; sleep 300", script_only=True)
        asked = await place.runtime.job_service.ask(job.id)
        pid = await alive(log)
        # As if the runtime died right after the removal was written.
        now = await place.jobs.job(job.id)
        await place.jobs.change(job.id, now.version, state="removed")
    async with workplace(tmp_path, clock=clock) as place:
        run = await place.in_state(asked.id, "failed")
        assert run.error == "its script was stopped by the removal of the job"
        await gone(pid)


async def test_what_waits_for_a_decision_ends_with_its_job(tmp_path: Path) -> None:
    # While no runtime looks for what is due.
    async with opened(tmp_path / "home", clock=Clock()) as store:
        every = Schedule("every", "every 1h", seconds=HOUR, start=MONDAY)
        spec = JobSpec("", script="true", script_only=True)
        job = await store.jobs.add(spec, every, "test", "", MONDAY + HOUR)
        asked = await store.jobs.ask(job.id, MONDAY)
        await store.jobs.claim(asked.id, MONDAY)
        await store.jobs.change_run(
            asked.id, frozenset({"claimed"}), state="parked", error="nobody can tell"
        )
    async with workplace(tmp_path) as place:
        await place.runtime.job_service.remove(job.id)
        run = await place.jobs.run(asked.id)
        assert (run.state, run.error) == (
            "failed",
            "nobody can tell; the removal of the job ended it",
        )


async def test_a_message_that_no_turn_takes_is_taken_back_and_its_run_has_failed(
    tmp_path: Path,
) -> None:
    async def pay() -> str:
        """Pay."""
        raise OutcomeUnknown("the line broke", "look at the account")

    model = script(tmp_path, "pays", {"calls": [{"tool": "pay", "with": {}}]}, {"say": "paid"})
    async with workplace(tmp_path, model, tools=(Tool("pay", pay, "Pay"),)) as place:
        job = await place.add("every 7d", name="rent", timeout=100.0, keep_session=True)
        first = await place.by_hand(job)
        assert first.state == "parked"
        second = await place.runtime.job_service.ask(job.id)

        async def handed_in() -> bool:
            return bool((await place.jobs.run(second.id)).session)

        await until(handed_in)
        place.clock.now += 101
        await beats(place, second, 101)
        assert (await place.jobs.run(second.id)).state == "running"
        place.clock.now += 60
        run = await place.in_state(second.id, "failed")
        assert run.error == "its session did not start on it for more than 1 min 40 s"
        (
            parked,
        ) = await place.runtime.context.store.parked()  # the turn of the run before was let be
        await place.runtime.sessions.decide(parked.effect, "skip", "ann")
        await place.in_state(first.id, "done")
        session = await place.runtime.context.store.session(first.session)
        await place.fixture.idle(session)
        assert (await place.runtime.context.store.session(first.session)).turns == 1


async def test_a_message_can_be_taken_back_until_a_turn_has_it(tmp_path: Path) -> None:
    async with workplace(tmp_path, says(tmp_path, "x")) as place:
        store = place.runtime.context.store
        session = await place.fixture.open(says(tmp_path, "x"))
        await store.receive(session.id, SessionMessage("one", "hello"))
        assert await store.cancel_message(session.id, "one")
        assert not await store.cancel_message(session.id, "one")
        assert not await store.cancel_message(session.id, "two")
        assert not await store.receive(session.id, SessionMessage("one", "hello"))
        await place.fixture.say(session, "go")
        assert not await store.cancel_message(session.id, "m1")
