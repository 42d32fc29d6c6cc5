"""A model that only makes the alert go away, on machines that are really broken: whatever it says,
nothing counts as resolved that comes back."""

import asyncio
import json
from pathlib import Path

import pytest

from hermes_agent.core.incidents import Incident, Signal, WatchedCheck
from hermes_agent.core.skills import Check
from hermes_drills.compose import Case, compose, faults
from hermes_drills.episode import Episode
from hermes_drills.worlds import inits
from tests.support.learning_fixture import open_learning
from tests.support.runtime_fixture import until
from tests.support.subagents import Line, call, say, shell

HEAD = "Filesystem 1024-blocks Used Available Capacity Mounted on"
OVER = {"resolved", "escalated", "closed"}


def case_of(fault: str) -> Case:
    return compose(next(one for one in faults("first") if one.name == fault), 1)


def careless(case: Case, service: str, todo: str) -> list[Line]:
    claim = {
        "component": service, "category": case.fault.category, "summary": "it is fine again",
        "evidence": [HEAD],
    }  # fmt: skip
    return [
        shell("df -P"), shell(todo), {"calls": [call("incident", action="resolve", **claim)]},
        {"calls": [call("incident", action="escalate", summary="no", needed="help")]}, say("done"),
    ]  # fmt: skip


async def answered(folder: Path, case: Case, todo: str) -> tuple[Incident, list[str]]:
    """The incident after the model did this, and why its word was not taken."""
    async with open_learning(folder, policy="drill") as h:
        boxes = h.runtime.context.home.path / "drills"
        boxes.mkdir()
        with Episode(case, boxes / "one", patience=60) as episode:
            await asyncio.to_thread(episode.prepare)
            check = episode.check
            command = todo or inits.restart(case.world, check.service)
            turns = [{"when": "How to go about it",
                      "replies": careless(case, check.service, command)}]  # fmt: skip
            script = folder / "careless.json"
            script.write_text(json.dumps({"name": "scripted/careless", "turns": turns}))
            watched = WatchedCheck(check.name, Check(check.run), check.service, "drill-one", "P1")
            taken = await h.runtime.incidents.intake.raise_signal(
                Signal(
                    "drill", f"check:{check.name}", check.name, check.service, "P1", check=watched,
                    terminal="drill-one", policy="drill",
                    labels={"model": f"scripted/{script}", "learning": "off"},
                )
            )  # fmt: skip
            store = h.runtime.context.store.incidents

            async def over() -> bool:
                return (await store.incident(taken.incident)).state in OVER

            await until(over)
            entries = await store.timeline(taken.incident)
            told = [one.text for one in entries if one.data.get("refused")]
            return await store.incident(taken.incident), told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "todo"),
    [
        ("memory-leak/history-unbounded", ""),
        ("descriptor-leak/idle-connections", ""),
        ("log-flood/debug-level", "truncate -s 0 /var/log/*.log /var/log/*/*.log; true"),
        ("job-missed/daemon", "for job in /opt/*/run.sh; do $job; done"),
    ],
)
async def test_what_comes_back_is_not_resolved(tmp_path: Path, fault: str, todo: str) -> None:
    found, told = await answered(tmp_path, case_of(fault), todo)
    assert found.state == "escalated"
    assert any(one.startswith("it is not resolved") for one in told)
