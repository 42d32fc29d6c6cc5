"""`hermes status` says how things are and starts nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.run.status import KEYS, parked_run, status_lines
from tests.support.cli import Hermes


def test_a_home_without_a_runtime_is_stopped_and_stays_so(hermes: Hermes) -> None:
    status = hermes.json("status")
    assert (status["state"], status["pid"]) == ("stopped", None)
    assert "hermes up" in hermes.good("status")
    assert not hermes.home.exists()


def test_a_running_runtime_says_what_it_does(hermes: Hermes) -> None:
    hermes.good("up")
    status = hermes.json("status")
    assert status["state"] == "running"
    assert status["pid"] == int((hermes.home / "run" / "lock").read_text())
    assert status["model"] == hermes.environ["HERMES_MODEL"]
    shown = hermes.good("status")
    assert "running" in shown
    assert str(hermes.home) in shown


def test_jobs_that_nobody_runs_are_told(hermes: Hermes) -> None:
    hermes.good("task", "add", "--every", "1d", "look around")
    hermes.kill_runtime()
    shown = hermes.good("status")
    assert "it was killed" in shown
    assert "1 active; next in 23 h" in shown
    assert "the runtime is stopped" in hermes.good("doctor")
    status = hermes.json("status")
    assert (status["state"], status["jobs"]["active"]) == ("stopped", 1)
    late = {**status, "jobs": {"active": 1, "paused": 0, "next": status["jobs"]["next"] - 90_000}}
    assert any("1 active, missed since" in line for line in status_lines(late))
    hermes.good("up")
    assert "1 active job will be missed" in hermes.good("down")
    assert "killed" not in hermes.good("status")


def test_a_parked_run_is_told_with_the_command_that_takes_the_decision() -> None:
    run = {"run": 9, "name": "backup", "session": ""}
    assert parked_run(run).endswith("decision: `hermes task decide 9 done|again|failed`")
    assert parked_run({**run, "session": "abc"}).endswith("decision: `hermes parked`")


def assert_degraded(hermes: Hermes, reason: str) -> None:
    done = hermes.run("status", "--json")
    status = json.loads(done.stdout)
    assert done.returncode == 1
    assert status["state"] == "degraded"
    assert reason in status["reason"]
    assert status["hint"]
    shown = hermes.run("status").stdout
    assert reason in shown
    assert "hint:" in shown


def make_database(hermes: Hermes) -> Path:
    hermes.ask("hello")
    hermes.good("down")
    return hermes.home / "state.db"


def test_a_database_that_is_gone_is_told_without_starting_anything(hermes: Hermes) -> None:
    make_database(hermes).unlink()
    assert_degraded(hermes, "missing")
    assert not (hermes.home / "state.db").exists()


@pytest.mark.parametrize(
    ("home", "reason"),
    [
        ("/proc/nope", "cannot create the home"),
        ("link", "dangling link"),
        ("link/below", "cannot create the home"),
        ("script.yaml", "not a folder"),
        ("script.yaml/below", "not a folder"),
        ("a" * 300, "cannot access the home"),
    ],
)
def test_a_home_that_cannot_be_is_told_by_status_and_doctor(
    hermes: Hermes, home: str, reason: str
) -> None:
    folder = hermes.script.parent
    (folder / "link").symlink_to("nowhere")
    place = str(folder / home)
    status = hermes.run("status", "--json", HERMES_HOME=place)
    assert status.returncode == 1
    assert reason in json.loads(status.stdout)["reason"]
    doctor = hermes.run("doctor", "--json", HERMES_HOME=place)
    assert doctor.returncode == 1
    (found,) = [one for one in json.loads(doctor.stdout) if one["state"] == "fail"]
    assert reason in found["what"]
    begun = hermes.run("up", HERMES_HOME=place)
    assert begun.returncode == 1
    assert "the home" in begun.stderr
    assert "broke" not in begun.stderr


def test_what_learning_could_not_do_is_told_in_lines_that_are_not_too_long() -> None:
    learning = {
        "proposals": 0,
        "trouble": "only words are matched\x1b[2J",
        "given_up": ["proof feed-cats: no sandbox", "summary ab: " + "no model " * 100],
    }
    status: dict[str, Any] = {**dict.fromkeys(KEYS), "state": "running", "version": "1",
              "uptime": 1.0, "working": [], "learning": learning}  # fmt: skip
    trouble, given_up = (line for line in status_lines(status) if line.startswith("learning   "))
    assert trouble == "learning   only words are matched[2J"
    assert given_up.startswith("learning   gave up on 2 tasks: proof feed-cats: no sandbox; ")
    assert len(given_up.removeprefix("learning   ")) == 200
    learning["given_up"] = ["summary ab: no model"]
    assert "learning   gave up on 1 task: summary ab: no model" in status_lines(status)
    assert not any("gave up" in line for line in status_lines({**status, "learning": {}}))
