"""Slots that come due while the disk is full: each is accounted for, with the true reason."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import Degraded
from hermes_agent.core.jobs import JobSpec, Schedule
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.jobs.planner import Outage, plan_due
from tests.runtime.test_degraded import fill
from tests.runtime.test_jobs import says
from tests.store.helpers import opened
from tests.support.jobs import HOUR, MONDAY, Clock, Workplace, workplace
from tests.support.runtime_fixture import until


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder whose home is a file system of its own, 4 MB large."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(home)], check=True)
    home.chmod(0o700)
    yield tmp_path
    subprocess.run(["umount", "-l", str(home)], check=True)


async def use_up(place: Workplace, session: Session) -> None:
    """Keep things until nothing more can be kept."""
    for number in range(2_000):
        try:
            await place.runtime.context.store.receive(
                session.id, SessionMessage(f"n{number}", "y" * 2_000)
            )
        except Degraded:
            return
    raise AssertionError("a full disk kept everything")


async def test_slots_that_nobody_could_keep_say_that_the_disk_was_full(small: Path) -> None:
    async with workplace(small, says(small, "x")) as place:
        await place.add("every 1h", name="rounds", script="true", script_only=True)
        await place.pass_time(HOUR)
        await place.ended()
        session = await place.fixture.open("")
        filler = fill(small / "home")
        await use_up(place, session)
        for _ in range(3):
            place.clock.now += HOUR
            place.runtime.jobs.wake()

            async def held() -> bool:
                return place.runtime.jobs._held is not None

            await until(held)
        filler.unlink()

        async def planned() -> bool:
            return len(await place.runs()) == 4

        await until(planned)
        runs = await place.runs()
        missed = [run for run in runs if run.state == "missed"]
        assert len(missed) == 2
        for run in missed:
            assert "the runtime was up but could not write" in run.error
            assert "full" in run.error or "space" in run.error
        await place.ended(2)

        async def told() -> bool:
            return any("could not write" in text for text in await place.texts())

        await until(told)
        late = await place.texts(f"run:{runs[-1].id}/late")
        assert not any("the runtime was down" in text for text in late)


async def test_of_slots_before_it_was_there_the_reason_is_another(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        every = Schedule("every", "every 1h", seconds=HOUR, start=MONDAY)
        await store.jobs.add(JobSpec("x"), every, "test", "", MONDAY + HOUR)
        clock.now += 6 * HOUR
        await plan_due(store.jobs, clock.now, held=Outage(MONDAY + 2.5 * HOUR, "the disk is full"))
        runs = list(reversed(await store.jobs.runs()))
        reasons = [run.error for run in runs]
        assert all("the runtime was down" in why for why in reasons[:2])
        assert all(why.endswith(": the disk is full") for why in reasons[2:5])
        assert (runs[5].state, reasons[5]) == ("due", "")
