"""Watching, in runtimes that are killed with SIGKILL beside a write: the team hears it once."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError
from tests.faults.harness import Case, wait_until
from tests.faults.learner import Learners
from tests.support.model_server import ModelServer, Raw

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Case]:
    learners = Learners()
    made = Case(tmp_path, learners, 1)
    yield made
    made.close()
    learners.close()


def prepare(one: Case, webhook: str) -> Path:
    """A check that fails, a log, and an address that wants to know."""
    turns = [{"when": ".", "replies": [{"say": "I do not know."}]}]
    one.script.write_text(json.dumps({"name": "scripted/idle", "turns": turns}))
    model = f"scripted/{one.script}"
    config = {"model": model, "watch": {"webhook": webhook}}
    (one.home / "config.yaml").write_text(json.dumps(config))
    log = one.work / "app.log"
    log.touch()
    checks = [
        {"name": "web", "run": "false", "every": 1, "after": 1},
        {"name": "oom", "log": {"path": str(log), "pattern": "out of memory"}},
    ]
    (one.home / "checks").mkdir()
    (one.home / "checks" / "a.yaml").write_text(json.dumps(checks))
    return log


def told(one: Case) -> bool:
    """Whether the team has heard of both."""
    try:
        found = [one.api.get(f"/v1/incidents/inc-{number}") for number in (1, 2)]
    except HermesError:  # not declared yet, or nobody is there
        return False
    notices = [each for one_ in found for each in one_["notices"] if each["kind"] == "declared"]
    return len(notices) == 6 and all(each.get("sent") for each in notices)


def followed(one: Case) -> bool:
    """Whether the log is read from now on."""
    if not (one.home / "state.db").exists():
        return False
    with closing(sqlite3.connect(f"file:{one.home}/state.db?mode=ro", uri=True)) as db:
        try:
            return bool(db.execute("select * from log_cursors").fetchall())
        except sqlite3.OperationalError:  # it is just being made
            return False


def until(one: Case, met: Callable[[Case], bool], what: str) -> None:
    """Wait for it; a runtime that died meanwhile has a follower, which does not."""
    wait_until(lambda: met(one) or one.died, what)
    if one.died:
        one.start()
        wait_until(lambda: met(one), what)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("write", "number"),
    [
        ("before:take_signal", 1), ("after:take_signal", 2), ("after:save_check", 1),
        ("before:notice_sent", 2), ("after:save_log_cursor", 2),
    ],
)  # fmt: skip
def test_the_team_hears_of_each_once_though_the_runtime_dies_beside_it(
    one: Case, write: str, number: int
) -> None:
    with ModelServer(lambda _received: Raw([b"ok"], 200)) as server:
        log = prepare(one, f"{server.root}/hook")
        one.start(write, number)
        until(one, followed, "the log is followed")
        with log.open("a") as file:
            file.write("out of memory\n")
        until(one, told, "both are told")
        keys = [each.headers["idempotency-key"] for each in server.requests]
    declared = [key for key in keys if "/declared/" in key]
    assert set(declared) == {"inc-1/declared/1", "inc-2/declared/1"}
    assert len(declared) <= 3  # what was sent just before a kill is sent again, by the same key
    lines = (one.home / "incidents" / "notices.log").read_text().splitlines()
    assert sorted(line.split("]")[0] for line in lines if "/declared/" in line) == [
        "[inc-1/declared/1", "[inc-2/declared/1"
    ]  # fmt: skip
    titles = {row["title"] for row in one.api.get("/v1/incidents")}
    assert titles == {"web: the check web fails", f"oom: oom found in {log}"}
