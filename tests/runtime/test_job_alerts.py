"""A job that fails is a signal of an incident, where it says so."""

from pathlib import Path

from hermes_agent.core.incidents import Incident, Signal
from tests.runtime.test_jobs import says
from tests.support.jobs import Workplace, workplace


async def incidents(place: Workplace) -> list[Incident]:
    return list(await place.runtime.context.store.incidents.incidents())


async def firing(place: Workplace, incident: str) -> list[Signal]:
    return list(await place.runtime.context.store.incidents.firing(incident))


async def test_a_job_that_goes_on_failing_is_one_signal_until_a_run_is_good(tmp_path: Path) -> None:
    async with workplace(tmp_path, says(tmp_path, "I see")) as place:
        command = "echo no room on the disk; test -e ok"
        job = await place.add(
            "every 7d", name="backup", script=command, script_only=True, incident="P1"
        )
        for _ in range(2):
            assert (await place.by_hand(job)).state == "failed"
        (incident,) = await incidents(place)
        assert (incident.severity, incident.source, incident.service) == ("P1", "job", "backup")
        (signal,) = await firing(place, incident.id)
        assert signal.title == "job backup is failing: the script ended with exit code 1"
        assert "no room on the disk" in signal.detail
        assert signal.labels["job"] == job.id
        (tmp_path / "home" / "jobs" / job.id / "ok").touch()
        assert (await place.by_hand(job)).state == "done"
        assert await firing(place, incident.id) == []
        (tmp_path / "home" / "jobs" / job.id / "ok").unlink()
        await place.by_hand(job)
        assert await firing(place, (await incidents(place))[0].id)
        await place.runtime.job_service.remove(job.id)
        assert await firing(place, (await incidents(place))[0].id) == []


async def test_a_job_that_does_not_say_so_is_none(tmp_path: Path) -> None:
    async with workplace(tmp_path, says(tmp_path, "I see")) as place:
        job = await place.add("every 7d", script="false", script_only=True)
        await place.by_hand(job)
        assert await incidents(place) == []
        await place.runtime.job_service.edit(job.id, {"incident": "P3"}, "", "")
        await place.by_hand(job)
        (incident,) = await incidents(place)
        assert len(await firing(place, incident.id)) == 1
        await place.runtime.job_service.edit(job.id, {"incident": ""}, "", "")
        assert await firing(place, incident.id) == []
