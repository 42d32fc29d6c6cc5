"""Jobs wait until the runtime has taken over what the last one left."""

from pathlib import Path

import apsw

from hermes_agent.core.settings.root import JobSettings, Settings
from hermes_agent.runtime.runtime import Runtime
from tests.support.jobs import HOUR, Clock, workplace
from tests.support.runtime_fixture import until


async def test_no_job_begins_before_what_the_last_runtime_left_is_taken_over(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with workplace(tmp_path, clock=clock) as place:
        job = await place.add("every 1h", script="echo fine", script_only=True, prompt="")
    tried, ill = [], [True]

    def hook(when: str, names: tuple[str, ...]) -> None:
        if when == "before" and "claim_unfinished" in names:
            tried.append(names)
            if ill:
                raise apsw.FullError("the disk is full")

    clock.now += HOUR
    settings = Settings(jobs=JobSettings(zone="UTC"))
    runtime = Runtime(
        tmp_path / "home", {}, settings=settings, clock=clock, ticks=clock.ticks, store_hook=hook
    )
    await runtime.start()
    try:
        runtime.jobs.want()

        async def tried_again() -> bool:
            return len(tried) > 2  # at the start, at once, and after the jobs were looked at

        await until(tried_again)
        assert await runtime.context.store.jobs.runs(job=job.id) == []
        ill.clear()

        async def ended() -> bool:
            return [run.state for run in await runtime.context.store.jobs.runs(job=job.id)] == [
                "done"
            ]

        await until(ended)
    finally:
        await runtime.stop()
