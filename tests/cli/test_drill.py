"""`hermes drill` as a person runs it: something is broken for real, and healed without a model."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.incidents.drills.box import Box, boxes
from hermes_agent.incidents.drills.results import Result, keep
from hermes_agent.incidents.drills.world import World
from tests.support.cli import House

RUN_SECONDS = 110


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("drills") / "house")
    made.environ["HERMES_MODEL"] = ""
    yield made
    made.close()


def drilled(house: House, *words: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in house.environ.items() if value}
    return subprocess.run(
        [sys.executable, "-m", "hermes_agent", "drill", *words],
        cwd=house.work, env=given, capture_output=True, text=True, timeout=RUN_SECONDS,
    )  # fmt: skip


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_drills_are_listed_with_what_they_need(house: House) -> None:
    found = house.json("drill", "list")
    names = {one["name"]: one for one in found}
    assert {"crashed_service", "no_fault_quiet"} <= set(names)
    assert names["crashed_service"]["missing"] == []
    assert names["crashed_service"]["variants"]["held"] == ["cut-off", "database-gone"]
    assert "crashed_service" in house.good("drill")


def test_what_a_machine_lacks_is_named_with_the_way_to_get_it(house: House, tmp_path: Path) -> None:
    listed = house.run("drill", "list", PATH=str(tmp_path))
    assert "needs bash, nsenter" in listed.stdout
    assert "apt-get install" in listed.stdout
    refused = house.run("drill", "run", "crashed_service", PATH=str(tmp_path))
    assert refused.returncode == 1
    assert "this drill needs" in refused.stderr
    assert "hint: apt-get install" in refused.stderr


def test_a_drill_that_is_not_there_is_a_mistake_of_usage(house: House) -> None:
    assert house.run("drill", "run", "no-such").returncode == 2
    assert house.run("drill", "run").returncode == 2
    assert house.run("drill", "run", "--all", "crashed_service").returncode == 2
    wrong = house.run("drill", "run", "crashed_service", "--variant", "x")
    assert (wrong.returncode, "there are: killed" in wrong.stderr) == (2, True)


def test_a_model_that_cannot_be_had_is_refused_before_anything_is_broken(house: House) -> None:
    for words in (["run", "crashed_service"], ["run", "--all"]):
        done = drilled(house, *words, "--model", "nobody/at-all")
        assert done.returncode != 0
        assert "nobody" in done.stderr
        assert "hint:" in done.stderr
    assert boxes(house.home / "drills") == []
    assert house.json("incidents") == []


@pytest.mark.timeout(120)
def test_a_fault_is_detected_healed_judged_and_kept(house: House) -> None:
    done = drilled(house, "run", "crashed_service", "--seed", "4", "--json")
    found = told(done)
    assert (done.returncode, found["resolved"], found["cause"]) == (0, True, True), found
    assert (found["state"], found["harm"], found["report"]) == ("resolved", [], True)
    assert found["steps"] > 0
    assert found["calls"] > 0
    assert found["seconds"] > 0
    assert boxes(house.home / "drills") == []
    assert list((house.home / "checks").iterdir()) == []
    score = house.json("drill", "score")
    assert [(row["drill"], row["resolved"]) for row in score["rows"]] == [
        ("crashed_service", 1.0), ("", 1.0)
    ]  # fmt: skip
    assert "crashed_service" in house.good("drill", "score", "--plot")


@pytest.mark.timeout(120)
def test_where_nothing_is_wrong_nothing_is_done(house: House) -> None:
    done = drilled(house, "run", "no_fault_quiet", "--seed", "2", "--no-learning")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resolved" in done.stdout
    assert "by the hidden checks" in done.stdout


def test_figures_tell_splits_and_arms_apart(house: House, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for seed, (steps, skill, held, learning) in enumerate(
        [(10, "", False, True), (4, "x-prevention", False, True), (12, "", True, False)]
    ):
        keep(
            home / "drills",
            Result(
                "disk_full", "v", seed, held, True, True, True, steps=steps, skill=skill,
                learning=learning, time=float(seed),
            ),
        )  # fmt: skip
    score = json.loads(house.good("drill", "score", "--json", HERMES_HOME=str(home)))
    rows = [(row["drill"], row["held"], row["learning"], row["runs"]) for row in score["rows"]]
    assert rows == [
        ("disk_full", False, True, 2), ("disk_full", True, False, 1), ("", False, True, 2),
        ("", True, False, 1),
    ]  # fmt: skip
    assert [(one["first"], one["later"], one["less"]) for one in score["lifts"]] == [(10, 4, 0.6)]
    drawn = tmp_path / "drawn.svg"
    house.good("drill", "score", "--image", str(drawn), HERMES_HOME=str(home))
    assert drawn.read_text().startswith("<svg")
    (home / "drills" / "results.jsonl").write_text("nonsense\n")
    assert "line 1" in house.run("drill", "score", HERMES_HOME=str(home)).stderr


def test_what_was_left_behind_is_removed(house: House, tmp_path: Path) -> None:
    home = tmp_path / "home"
    left = Box(home / "drills" / "0a1b")
    left.boot(World(()))
    (home / "checks").mkdir()
    (home / "checks" / "drill-0a1b.yaml").write_text("{}")
    (home / "checks" / "mine.yaml").write_text("{}")
    said = json.loads(house.good("drill", "clean", "--json", HERMES_HOME=str(home)))
    assert said == {"removed": ["0a1b"]}
    assert not left.alive
    assert [path.name for path in (home / "checks").iterdir()] == ["mine.yaml"]
