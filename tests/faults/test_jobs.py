"""Jobs, in runtimes that are killed with SIGKILL at any write: each slot is worked once, goes on
where it was, and is told once."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.client.api import RuntimeGone
from hermes_agent.core.errors import HermesError
from tests.faults.harness import Case, ForkServer, wait_until
from tests.faults.learner import Learners

pytestmark = pytest.mark.timeout(600)

WRITES = 25
"""Fewer than an undisturbed run makes."""


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


@pytest.fixture
def one(tmp_path: Path, fork_server: ForkServer) -> Iterator[Case]:
    made = Case(tmp_path, fork_server, 1)
    _prepare(made)
    yield made
    made.close()


def _prepare(one: Case) -> None:
    """A job with a script and a turn, each with an effect that can be counted."""
    step = {"tool": "terminal", "with": {"command": f"echo turn >> {one.work}/effects.log"}}
    replies = [{"calls": [step]}, {"say": "The result."}]
    turns = [{"when": ".", "replies": replies}]
    one.script.write_text(json.dumps({"name": "scripted/job", "turns": turns}))
    config = {
        "model": f"scripted/{one.script}",
        "channels": {"post": {"home": "people"}},
        "learning": {"notes": "off", "skills": "off"},
    }
    (one.home / "config.yaml").write_text(json.dumps(config))


def rows(one: Case, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{one.home}/state.db?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def add(one: Case) -> bool:
    """Have the job, whatever happened on the way; False when the runtime died."""
    spec = {
        "prompt": "go", "name": "rounds", "deliver": ["post"],
        "script": f"echo script >> {one.work}/effects.log; echo news",
    }  # fmt: skip
    try:
        one.api.post("/v1/jobs", {"spec": spec, "when": "every 100d", "key": "k"})
    except RuntimeGone:
        return not one.has_died()
    return True


def ask(one: Case) -> bool:
    """A run by hand, unless there is one."""
    try:
        if not one.api.get("/v1/runs"):
            one.api.post("/v1/jobs/rounds/run")
    except RuntimeGone:
        return not one.has_died()
    return True


def ended(one: Case) -> bool:
    """Whether the run is over, or the runtime dead."""
    try:
        return one.api.get("/v1/runs")[0]["state"] in ("done", "failed", "parked")
    except RuntimeGone:
        return one.has_died()
    except HermesError:
        return False


def through(one: Case) -> None:
    while not (add(one) and ask(one)):
        one.start()
    wait_until(lambda: ended(one) or one.died, "the run ends")
    if one.died:
        one.start()
        assert add(one)
        assert ask(one)
        wait_until(lambda: ended(one), "the run ends")


def check_all(one: Case) -> None:
    (run,) = one.api.get("/v1/runs")
    assert (run["state"], run["output"]) == ("done", "The result."), run
    lines = (one.work / "effects.log").read_text().splitlines()
    assert Counter(lines) == {"script": 1, "turn": 1}
    events = [e["event"] for e in one.api.get(f"/v1/sessions/{run['session']}/journal")]
    assert Counter(e["kind"] for e in events)["message_taken"] == 1
    told = rows(one, "select key from gateway_outbox")
    assert told == [(f"run:{run['id']}/result/post:people",)]
    assert len(one.api.get("/v1/sessions")) == 1
    (job,) = one.api.get("/v1/jobs")
    assert job["job"].get("failures", 0) == 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(1, WRITES, 3))
def test_a_run_goes_on_where_it_was_and_is_told_once(one: Case, number: int) -> None:
    one.start("after" if number % 2 else "before", number)
    through(one)
    check_all(one)


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Case]:
    learners = Learners()
    made = Case(tmp_path, learners, 1)
    _prepare(made)
    yield made
    made.close()
    learners.close()


def test_a_job_that_was_told_is_not_made_to_have_failed(learner: Case) -> None:
    """The result is in the ledger, and the runtime dies before the run has ended."""
    learner.start("after:enqueue", 1)
    through(learner)
    learner.kill()
    learner.start()
    check_all(learner)
