"""The three levels of watching are jobs like any other."""

from pathlib import Path

from msgspec.structs import replace

from hermes_agent.core.settings.root import JobSettings
from tests.runtime.test_jobs import begun, waits
from tests.support.jobs import DAY, HOUR, Clock, Workplace, workplace
from tests.support.runtime_fixture import until

NAMES = ["watch-health", "watch-audit", "watch-briefing"]
CHECKS = """
- {name: web, run: "echo web >> LOG"}
- {name: disk, run: "echo disk >> LOG", level: hourly}
- {name: certificates, run: "echo certificates >> LOG; false", level: daily, after: 9}
"""


def watch(folder: Path) -> Path:
    """Checks of each level, which leave a line when they run."""
    log = folder / "log"
    checks = folder / "home" / "checks"
    checks.mkdir(parents=True, exist_ok=True)
    (checks / "a.yaml").write_text(CHECKS.replace("LOG", str(log)))
    return log


async def made(place: Workplace) -> None:
    async def there() -> bool:
        return len(await place.jobs.jobs()) >= 3

    await until(there)


async def has(log: Path, name: str, count: int) -> None:
    async def there() -> bool:
        return log.exists() and log.read_text().split().count(name) >= count

    await until(there)


async def test_what_is_watched_is_watched_by_jobs_that_have_rows(tmp_path: Path) -> None:
    log = watch(tmp_path)
    async with workplace(tmp_path, policy="sandbox") as place:
        await made(place)
        shown = await place.runtime.job_service.all()
        assert [one.job.spec.name for one in shown] == NAMES
        assert [one.meaning.split(";")[0] for one in shown] == [
            "every 5 minutes", "every hour", "at 08:00 every day"
        ]  # fmt: skip
        assert [one.warnings for one in shown] == [(), (), ()]

        async def seen() -> bool:
            return len(await place.runtime.context.store.incidents.check_states()) == 3

        await until(seen)  # each once, before its time
        await place.pass_time(300)
        (run,) = await place.ended()
        assert (run.output, run.state) == ("the critical check passes", "done")
        assert log.read_text().split().count("web") == 2
        await place.runtime.job_service.set_state("watch-health", "paused")
        await place.pass_time(HOUR)
        audit = (await place.ended(2))[-1]
        assert audit.output.startswith("the hourly check passes")
        assert "| web | web | OK |" in audit.output
        assert log.read_text().split().count("web") == 2
        assert list((tmp_path / "home" / "incidents" / "audits").iterdir()) != []
        assert await place.sent() == []


async def test_a_briefing_can_be_sent_to_people_and_stays_removed(tmp_path: Path) -> None:
    clock = Clock()
    log = watch(tmp_path)
    async with workplace(tmp_path, clock=clock, policy="sandbox") as place:
        await made(place)
        await has(log, "certificates", 1)
        desk = place.runtime.job_service
        await desk.edit("watch-briefing", {"deliver": ["post"]}, "every day at 9", "")
        await place.pass_time(9 * HOUR)

        async def told() -> list[str]:
            return [text for text in await place.texts() if "runs were missed" not in text]

        await until(told)
        (text,) = await told()
        assert text.startswith("1 of 1 daily checks fail: certificates\n\n# Briefing of Monday")
        await desk.remove("watch-briefing")
    async with workplace(tmp_path, clock=clock, policy="sandbox") as place:
        await place.pass_time(DAY)

        async def planned() -> bool:
            return len(await place.jobs.jobs()) == 2

        await until(planned)
        assert [one.job.spec.name for one in await place.runtime.job_service.all()] == NAMES[:2]


async def test_health_is_looked_at_however_busy_the_jobs_of_people_are(tmp_path: Path) -> None:
    watch(tmp_path)
    model, go = waits(tmp_path)
    settings = JobSettings(zone="UTC", parallel=1)
    async with workplace(tmp_path, model, jobs=settings, policy="sandbox") as place:
        await made(place)
        for _ in range(2):
            await place.runtime.job_service.ask((await place.add("every 7d")).id)
        await begun(place)
        await place.pass_time(300)
        (health,) = await place.ended()
        assert health.output == "the critical check passes"
        assert len(await place.runs("due")) == 1
        go.touch()
        await place.ended(3)


async def test_the_jobs_of_watching_alone_keep_nobody_awake(tmp_path: Path) -> None:
    log = watch(tmp_path)
    async with workplace(tmp_path, policy="sandbox") as place:
        await made(place)
        await has(log, "web", 1)
        (tmp_path / "home" / "checks" / "a.yaml").unlink()

        async def idle() -> bool:
            return not await place.runtime.is_in_use()

        await until(idle)
        await place.add("every 7d")

        async def needed() -> bool:
            return place.runtime.jobs.busy

        await until(needed)
        assert await place.runtime.is_in_use()


async def test_trouble_of_the_runtimes_own_jobs_is_told_at_home(tmp_path: Path) -> None:
    watch(tmp_path)
    async with workplace(tmp_path, policy="sandbox", jobs=JobSettings(zone="UTC")) as place:
        await made(place)
        health = next(one for one in await place.jobs.jobs() if one.spec.name == "watch-health")
        broken = replace(health.spec, script="false")
        await place.jobs.change(health.id, health.version, spec=broken)
        assert (await place.by_hand(health)).state == "failed"
        (told,) = await place.sent()
        assert told.outgoing.chat.target == "post:people"
        assert "watch-health failed" in told.outgoing.text
