"""Incidents, in runtimes that are killed with SIGKILL at any write: they go on, the team is told
once, nothing is done twice, and there is one report."""

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.client.api import RuntimeGone
from hermes_agent.core.errors import HermesError
from tests.faults.harness import Case, wait_until
from tests.faults.learner import Learners
from tests.support.incident_fixture import SAW, act, prevention, resolve, script
from tests.support.subagents import call, say, shell

pytestmark = pytest.mark.timeout(600)

WRITES = 100
"""Fewer than an undisturbed incident makes."""


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Case]:
    learners = Learners()
    made = Case(tmp_path, learners, 1)
    _prepare(made)
    yield made
    made.close()
    learners.close()


def _prepare(one: Case) -> None:
    """A service that is down, the check that sees it, and a model that mends it."""
    work = one.work
    (work / "web.log").write_text(f"{SAW}\n")
    claim = act("hypothesis", claim="the disk is full", category="service-crash", evidence=[SAW])
    mend = shell(f"echo mended >> {work}/effects.log; touch {work}/web.up")
    files = prevention("service-crash-web")
    model = script(
        one.folder,
        begin=[
            shell(f"cat {work}/web.log"), claim, mend, act("verify"), resolve(), say("mended"),
        ],
        over=[
            {"calls": [call("write_skill", name="service-crash-web", why="w", files=files)]},
            {"calls": [call("memory", action="add", text="web fills its disk")]},
            say("written"),
        ],
    )  # fmt: skip
    (one.home / "config.yaml").write_text(json.dumps({"model": model}))
    checks = one.home / "checks"
    checks.mkdir()
    check = {
        "name": "web", "service": "web", "run": f"test -e {work}/web.up", "every": 1, "after": 1,
        "severity": "P1",
    }  # fmt: skip
    (checks / "web.yaml").write_text(json.dumps(check))


def reported(one: Case) -> bool:
    """Whether it is over, or the runtime dead."""
    try:
        found = one.api.get("/v1/incidents/inc-1")
    except RuntimeGone:
        return one.has_died()
    except HermesError:  # it is not declared yet
        return False
    return any(entry["kind"] == "report" for entry in found["timeline"])


def rows(one: Case, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{one.home}/state.db?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def check_all(one: Case) -> None:
    found = one.api.get("/v1/incidents/inc-1")
    incident, timeline = found["incident"], found["timeline"]
    assert incident["state"] == "resolved", incident
    assert [row["id"] for row in one.api.get("/v1/incidents")] == ["inc-1"]
    assert (one.work / "effects.log").read_text() == "mended\n"
    told = Counter((n["kind"], n["channel"], n["number"]) for n in found["notices"])
    assert set(told.values()) == {1}, told
    assert {kind for kind, *_ in told} >= {"declared", "resolved"}
    kinds = Counter(entry["kind"] for entry in timeline)
    for kind in ("declared", "hypothesis", "action", "resolved", "learned", "report"):
        assert kinds[kind] == 1, kinds
    assert len(incident["hypotheses"]) == 1
    one.session = incident["session"]
    events = [each["event"] for each in one.journal()]
    keys = [event["key"] for event in events if event["kind"] == "message_taken"]
    assert keys == ["brief", "aftermath"]
    assert not [event for event in events if event["kind"] == "call_parked"]
    reports = [path for path in (one.home / "incidents").glob("*.*") if path.is_file()]
    named = sorted(path.name for path in reports if path.stem.endswith("-inc-1"))
    assert [name.rpartition(".")[2] for name in named] == ["json", "md"], reports
    notes = [note["text"] for note in one.api.get("/v1/memory")["notes"]]
    own = [text for text in notes if text.startswith("What incidents showed")]
    assert (len(notes), len(own)) == (2, 1), notes
    assert len(one.api.get("/v1/skills/service-crash-web")["versions"]) == 1


def survive(one: Case, phase: str, numbers: list[int]) -> None:
    """Die as often as told, each time at the n-th write, and come to the end."""
    for number in numbers:
        one.start(f"{phase}:any", number)
        wait_until(lambda: one.died or reported(one), "a death, or the report")
        one.kill()
    one.start()
    wait_until(lambda: reported(one), "the report")
    check_all(one)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_an_incident_survives_deaths_at_any_write(one: Case, seed: int) -> None:
    dice = random.Random(seed)
    numbers = [dice.randrange(2, WRITES), dice.randrange(2, WRITES // 2)]
    survive(one, dice.choice(["before", "after"]), numbers)
    assert one.died is False


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 100, 2))
@pytest.mark.parametrize("phase", ["before", "after"])
def test_an_incident_survives_a_death_at_each_write(one: Case, phase: str, number: int) -> None:
    survive(one, phase, [number])
    assert one.died is False
