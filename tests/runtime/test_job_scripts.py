"""Scripts of jobs: what they print decides, the gate judges them, and a restart finds them."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.runtime.api.app import runtime_status
from tests.runtime.test_jobs import says
from tests.support.jobs import Clock, RealClock, workplace
from tests.support.runtime_fixture import until


@pytest.mark.parametrize(
    ("script", "woken", "output"),
    [
        ("true", False, ""),
        ("echo '{\"wake\": false}'", False, ""),
        ("echo 3 mails; echo '{\"wake\": false}'", False, "3 mails"),
        ("echo '3 mails'", True, "woken"),
        ("echo '3 mails'; echo '{\"wake\": true}'", True, "woken"),
        ("echo broken >&2; exit 3", True, "woken"),
        ("exit 0", False, ""),
    ],
)
async def test_a_script_decides_whether_the_agent_is_woken(
    tmp_path: Path, script: str, woken: bool, output: str
) -> None:
    async with workplace(tmp_path, says(tmp_path, "woken")) as place:
        run = await place.by_hand(await place.add(script=script))
        assert (run.state, run.output, run.said) == ("done", output, woken)
        assert bool(run.session) is woken
        assert await place.texts() == (["woken"] if woken else [])
        if woken:
            journal = await place.runtime.context.store.events(run.session)
            (taken,) = [one.event for one in journal if isinstance(one.event, ev.MessageTaken)]
            said = "[the script ended with exit code 3]\nbroken" if "exit" in script else "3 mails"
            assert f'">\n{said}\n</script>' in taken.text

        async def tidied() -> bool:
            return not (tmp_path / "home" / "terminals" / f"run-{run.id}").exists()

        await until(tidied)


@pytest.mark.parametrize(
    ("fields", "state", "said"),
    [
        ({"script": "echo 91 %"}, "done", "91 %"),
        ({"script": "echo so far; echo why >&2; exit 4"}, "failed", "exit code 4\nso far\nwhy"),
        ({"script": "sleep 60", "timeout": 1.0}, "failed", "took longer than 1 s"),
        ({"script": "rm -rf /srv/x", "policy": "careful"}, "failed", "which is not possible here"),
        ({"script": "rm -rf /"}, "failed", "denied by policy"),
    ],
)
async def test_a_script_alone_is_the_result(
    tmp_path: Path, fields: dict[str, Any], state: str, said: str
) -> None:
    async with workplace(tmp_path, clock=RealClock()) as place:
        run = await place.by_hand(await place.add(prompt="", script_only=True, **fields))
        assert run.state == state
        assert said in (run.output if state == "done" else run.error)
        assert run.session == ""


async def test_whoever_makes_a_job_hears_that_its_script_would_be_refused(tmp_path: Path) -> None:
    async with workplace(tmp_path) as place:
        job = await place.add(script="rm -rf /srv/x", script_only=True, policy="careful")
        (warning,) = (await place.runtime.job_service.show(job.id)).warnings
        assert warning.startswith("the script will not run: needs approval, which is not possible")


async def test_a_rule_may_be_about_one_job(tmp_path: Path) -> None:
    rules = tmp_path / "home" / "policies"
    rules.mkdir(parents=True)
    (rules / "mine.yaml").write_text(
        "version: 1\nname: mine\nrules:\n"
        "  - {id: one, match: {program: touch, actor: job/one}, then: allow, reason: ours}\n"
        "  - {id: two, match: {access: write, program: touch, actor: job/one}, then: allow,"
        " reason: ours}\n"
    )
    async with workplace(tmp_path) as place:
        for name, state in (("one", "done"), ("two", "failed")):
            job = await place.add(
                name=name, script="touch made", script_only=True, policy="careful"
            )
            assert (await place.by_hand(job)).state == state


async def test_a_script_that_runs_while_the_runtime_stops_is_found_by_the_next(
    tmp_path: Path,
) -> None:
    clock, go, log = Clock(), tmp_path / "go", tmp_path / "log"
    script = f"echo once >> {log}; until test -e {go}; do sleep 0.02; done; echo over"
    async with workplace(tmp_path, clock=clock) as place:
        job = await place.add(script=script, script_only=True)
        run = await place.runtime.job_service.ask(job.id)

        async def runs() -> bool:
            return log.exists()

        await until(runs)
    async with workplace(tmp_path, clock=clock) as place:
        await asyncio.sleep(0)
        go.touch()
        run = await place.in_state(run.id, "done")
        assert (run.output, run.attempts) == ("over", 1)
        assert log.read_text() == "once\n"
        assert await place.texts() == ["over"]


@pytest.mark.parametrize(
    ("decision", "state", "lines"),
    [("done", "done", 1), ("failed", "failed", 1), ("again", "done", 2)],
)
async def test_a_script_of_which_nobody_knows_waits_for_a_decision(
    tmp_path: Path, decision: Any, state: Any, lines: int
) -> None:
    clock, log = Clock(), tmp_path / "log"
    script = f"echo once >> {log}; test -e {tmp_path}/quick || sleep 300; echo over"
    async with workplace(tmp_path, clock=clock) as place:
        job = await place.add(name="odd", script=script, script_only=True)
        asked = await place.runtime.job_service.ask(job.id)

        async def runs() -> bool:
            return log.exists() and log.read_text() == "once\n"

        await until(runs)
    spool = tmp_path / "home" / "terminals" / f"run-{asked.id}" / "local"
    for note in (*spool.glob("daemon.*"), *spool.glob("spine")):  # as if the machine went down
        with suppress(ProcessLookupError):
            os.kill(int(note.read_text().split()[0]), signal.SIGKILL)
    (spool / "boot").write_text("another")
    (tmp_path / "quick").touch()
    async with workplace(tmp_path, clock=clock) as place:
        run = await place.in_state(asked.id, "parked")
        assert run.error == "the outcome of its script is unknown"
        (told,) = await place.texts()
        assert told.startswith("⚠ job odd is waiting for a decision")
        status = (await runtime_status(place.runtime))["jobs"]
        assert [one["run"] for one in status["parked"]] == [asked.id]
        await place.runtime.job_service.decide(asked.id, decision, "ann")
        run = await place.in_state(asked.id, state)
        assert log.read_text().count("once") == lines
