"""`hermes drill` as a person runs it: something is broken for real, and healed without a model."""

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.drill_sweep import Planned, Sweep
from hermes_agent.incidents.drills.box import Box, boxes
from hermes_agent.incidents.drills.results import Result, keep
from hermes_agent.incidents.drills.world import World
from tests.support.cli import House

RUN_SECONDS = 250


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
    variants = names["crashed_service"]["variants"]
    assert len(variants["practised"]) > len(variants["held"]) > len(variants["foreign"]) == 1
    assert "variants: practised + held out + foreign" in house.good("drill")
    refused = house.run("drill", "run", "no_fault_quiet", "--foreign")
    assert "has no variant that is foreign" in refused.stderr
    assert "hermes drill show no_fault_quiet" in refused.stderr
    refused = house.run("drill", "run", "disk_full", "--held", "--variant", "rotated")
    assert refused.returncode == 2
    assert "the variant 'rotated' of 'disk_full' is not held out" in refused.stderr


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


@pytest.mark.timeout(300)
def test_a_fault_is_detected_healed_judged_and_kept(house: House) -> None:
    words = ["repeat", "crashed_service", "--variant", "killed", "--times", "1", "--seed", "4"]
    done = drilled(house, *words, "--json")
    (found,) = told(done)
    assert (done.returncode, found["resolved"], found["cause"]) == (0, True, True), found
    assert "[1/1] crashed_service, killed, seed 4: resolved" in done.stderr
    again = drilled(house, *words, "--json", "--resume")
    assert told(again) == [found]
    assert "1 runs are known already" in again.stderr
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


@pytest.mark.timeout(300)
def test_while_a_box_is_judged_its_check_raises_nothing(house: House) -> None:
    words = ["run", "crashed_service", "--variant", "killed", "--seed", "5", "--no-learning"]
    given = {name: value for name, value in house.environ.items() if value}
    watched: dict[str, int] = {}
    reading, writing = os.pipe2(os.O_DIRECT)  # with room for one thing said: whoever says the next
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)  # waits until we have looked
    with subprocess.Popen(
        [sys.executable, "-m", "hermes_agent", "drill", *words],
        cwd=house.work, env=given, stdout=writing, text=True,
    ) as process:  # fmt: skip
        os.close(writing)
        with os.fdopen(reading) as told_so_far:
            for line in told_so_far:
                for word in ("believes", "judged"):
                    if word in line:
                        watched.setdefault(word, len(list((house.home / "checks").iterdir())))
    assert (process.returncode, watched) == (0, {"believes": 1, "judged": 0})


@pytest.mark.timeout(300)
def test_where_nothing_is_wrong_nothing_is_done(house: House) -> None:
    done = drilled(house, "run", "no_fault_quiet", "--seed", "2", "--no-learning", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    assert re.fullmatch(
        r"no_fault_quiet, \S+, seed 2: resolved, cause right, \d+ steps, \d+ s", line
    )


def test_figures_tell_splits_and_arms_apart(house: House, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for seed, (name, steps, skill, tier, learning) in enumerate(
        [
            ("disk_full", 10, "", "practised", True),
            ("disk_full", 4, "x-prevention", "practised", True),
            ("disk_full", 12, "", "held", False),
            ("disk_full", 20, "", "foreign", False),
            ("no_fault_busy", 3, "", "held", False),
        ]
    ):
        keep(
            home / "drills",
            Result(
                name, "v", seed, tier, True, True, True, steps=steps, skill=skill, calls=30,
                tokens=52_000, cost=0.25, learning=learning, time=float(seed), state="resolved",
                said="a, disk-full, /x", learned="" if skill else "disk-full-prevention",
            ),
        )  # fmt: skip
    score = json.loads(house.good("drill", "score", "--json", HERMES_HOME=str(home)))
    keys = ("drill", "tier", "learning", "fault", "runs")
    assert [tuple(row[key] for key in keys) for row in score["rows"]] == [
        ("disk_full", "practised", True, True, 2), ("disk_full", "held", False, True, 1),
        ("disk_full", "foreign", False, True, 1), ("no_fault_busy", "held", False, False, 1),
        ("", "practised", True, True, 2), ("", "held", False, True, 1),
        ("", "foreign", False, True, 1), ("", "held", False, False, 1),
    ]  # fmt: skip
    assert [(one["first"], one["later"], one["less"]) for one in score["lifts"]] == [(10, 4, 0.6)]
    assert score["novel"] == {"runs": 1, "written": 1}
    published = house.good("drill", "score", "--markdown", HERMES_HOME=str(home))
    assert "no skill told of yet: 1; a skill was written in 1 of them" in published
    train, held, quiet, foreign = re.split("### (?:Held-out|Foreign) variants", published)
    rest = "30 | 0 s | 52,000 | $0.2500 |"
    assert f"| `disk_full` | 2 | 100% | 100% | 100% | 0 | 0 | 10 | 4 | {rest}" in train
    assert f"| **all** | 1 | 100% | 100% | 100% | 0 | 0 | 12 | - | {rest}" in held
    assert f"| **all** | 1 | 100% | 100% | 100% | 0 | 0 | 3 | - | {rest}" in quiet
    assert f"| **all** | 1 | 100% | 100% | 100% | 0 | 0 | 20 | - | {rest}" in foreign
    assert " 52,000 " in house.good("drill", "score", HERMES_HOME=str(home))
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


KILLED = """
import sys
from pathlib import Path
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.world import World
for name in ("0dead", "0kept"):
    Box(Path(sys.argv[1], "drills", name)).boot(World(()))
Box(Path(sys.argv[1], "drills", "0kept")).keep()
print("made", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_drill_left_is_swept_by_the_next_command(
    house: House, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        assert house.run("drill", "list", HERMES_HOME=str(home)).stderr == ""
        process.kill()
    (home / "checks").mkdir()
    for name in ("drill-0dead", "drill-0kept", "mine"):
        (home / "checks" / f"{name}.yaml").write_text("{}")
    doctor = house.run("doctor", HERMES_HOME=str(home)).stdout
    assert "left by drills that were killed: the boxes 0dead" in doctor
    swept = house.run("drill", "list", HERMES_HOME=str(home))
    assert "removed the box 0dead" in swept.stderr
    (kept,) = boxes(home / "drills")
    assert kept.alive
    left = sorted(path.name for path in (home / "checks").iterdir())
    assert left == ["drill-0kept.yaml", "mine.yaml"]
    kept.remove()


def test_one_run_that_fails_does_not_end_the_sweep(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(
        no_learning=False, resume=False, at_once=2, quiet=True, json=True, model=""
    )
    todo = [Planned("no_such", "a", 1), Planned("no_such", "a", 2), Planned("nor_this", "b", 1)]
    assert Sweep(str(home), todo, options).through() == 1
    printed = capsys.readouterr()
    assert printed.out.strip() == "[]"
    assert "[3/3]" in printed.err
    assert "failed: no_such, a, seed 2: no drill called 'no_such'" in printed.err


FULL = """
set -eu
mount -t tmpfs -o size=24m,mode=700 tmpfs "$HERMES_HOME"
"$@" status >/dev/null
head -c 40m /dev/zero > "$HERMES_HOME/fill" 2>/dev/null || true
"$@" drill run crashed_service && exit 9
rm "$HERMES_HOME/fill"
"$@" down >/dev/null
mount -o remount,ro "$HERMES_HOME"
"$@" drill run crashed_service && exit 9
"$@" down >/dev/null || true
"""


def test_a_home_that_cannot_be_written_is_said_in_a_sentence(house: House, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    given = {name: value for name, value in house.environ.items() if value}
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", FULL, "-",
         sys.executable, "-m", "hermes_agent"],
        env={**given, "HERMES_HOME": str(home)}, cwd=house.work, capture_output=True, text=True,
        timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    assert "No space left on device" in done.stderr, done.stdout + done.stderr
    assert "Read-only file system" in done.stderr, done.stdout + done.stderr
    assert "HERMES_HOME names another" in done.stderr
    assert "bug" not in done.stderr
