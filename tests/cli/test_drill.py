"""`hermes drill` as a person runs it: something is broken for real, and healed without a model."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_drills.box.box import boxes
from tests.support.cli import Hermes

pytestmark = pytest.mark.sample_file(6)

RUN_SECONDS = 250
CRASH = ("service-crash", "--mechanism", "stopped", "--stack", "web", "--init", "supervisord")


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    made = Hermes(tmp_path_factory.mktemp("drills") / "hermes")
    made.environ["HERMES_MODEL"] = ""
    yield made
    made.close()


def drilled(hermes: Hermes, *words: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in hermes.environ.items() if value}
    return subprocess.run(
        [sys.executable, "-m", "hermes_agent", "drill", *words],
        cwd=hermes.work, env=given, capture_output=True, text=True, timeout=RUN_SECONDS,
    )  # fmt: skip


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


WITHOUT = """
import sys
sys.modules["hermes_drills"] = None
from hermes_agent.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_the_package_it_says_what_to_install_and_the_rest_works(hermes: Hermes) -> None:
    def without(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, *words]
        given = {**hermes.environ, "HERMES_MODEL": "scripted/none"}
        return subprocess.run(command, env=given, capture_output=True, text=True)

    for words in (["drill"], ["drill", "run", "disk_full", "--json"], ["drill", "--json"]):
        refused = without(*words)
        assert refused.returncode == 1
        assert "hermes-drills is not installed\nhint: `hermes add drills`" in refused.stderr
    assert "Drills: a small machine is really broken" in without("drill", "--help").stdout
    assert "Traceback" not in without("doctor").stderr


def test_families_are_listed_with_their_mechanisms(hermes: Hermes) -> None:
    names = {one["name"]: one["mechanisms"] for one in hermes.json("drill", "list")}
    assert {"disk-full", "service-crash", "no-fault"} <= set(names)
    assert names["service-crash"]["stopped"]["missing"] == []
    assert re.search(r"^service-crash +stopped", hermes.good("drill"), re.MULTILINE)
    assert "stopped (breaks a service)" in hermes.good("drill", "show", "service_crash")


def test_what_a_machine_lacks_is_named_with_the_way_to_get_it(
    hermes: Hermes, tmp_path: Path
) -> None:
    listed = hermes.run("drill", "list", PATH=str(tmp_path))
    assert "needs bash" in listed.stdout
    assert "hint: apt-get install" in listed.stdout
    refused = hermes.run("drill", "run", *CRASH, PATH=str(tmp_path))
    assert refused.returncode == 1
    assert "needs bash" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "disk-ful"], "did you mean disk-full?"),
        (["run"], "name a family, or use --all"),
        (["run", "--all", "disk_full"], "name a family, or use --all"),
        (["run", "disk_full", "--mechanism", "x"], "no mechanism 'x' in the split 'first'"),
        (["run", "disk_full", "--held", "--foreign"], "use either --foreign or --held, not both"),
        (["run", "disk_full", "--init", "runit"], "not a valid --init: 'runit'"),
        (["run", "disk_full", "--seeds", "0"], "at least 1"),
        (["repeat", "disk_full", "--keep"], "--keep works only with a single run"),
    ],
)
def test_what_cannot_be_is_a_mistake_of_usage_with_a_hint(
    hermes: Hermes, words: list[str], said: str
) -> None:
    refused = hermes.run("drill", *words)
    assert refused.returncode == 2, refused.stdout
    assert said in refused.stderr
    assert "hint:" in refused.stderr


def test_a_model_that_cannot_be_had_is_refused_before_anything_is_broken(hermes: Hermes) -> None:
    for words in (["run", "service_crash"], ["run", "--all"]):
        done = drilled(hermes, *words, "--model", "nobody/at-all")
        assert done.returncode != 0
        assert "nobody" in done.stderr
        assert "hint:" in done.stderr
    assert boxes(hermes.home / "drills") == []
    assert hermes.json("incidents") == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fault_is_detected_healed_judged_and_kept(hermes: Hermes) -> None:
    words = ["repeat", *CRASH, "--times", "1", "--seed", "4"]
    done = drilled(hermes, *words, "--json")
    (found,) = told(done)
    assert (done.returncode, found["outcome"], found["harm"]) == (0, "resolved", []), found
    assert "[1/1] service-crash/stopped on web/supervisord seed 4: resolved" in done.stderr
    again = drilled(hermes, *words, "--json", "--resume")
    assert told(again) == [found]
    assert "already done: 1 of 1" in again.stderr
    assert min(found["steps"], found["calls"], found["seconds"]) > 0
    assert boxes(hermes.home / "drills") == []
    assert list((hermes.home / "checks").iterdir()) == []
    score = hermes.json("drill", "score")
    assert [(row["group"], row["resolved"]) for row in score["rows"]] == [
        ("service-crash", 1.0), ("", 1.0)
    ]  # fmt: skip
    assert "service-crash" in hermes.good("drill", "score", "--markdown")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_where_nothing_is_wrong_nothing_is_done(hermes: Hermes) -> None:
    done = drilled(hermes, "run", "--no-fault", "--seed", "2", "--no-learning", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    assert re.fullmatch(r"no-fault/\S+ on \S+ seed 2: resolved, correct cause, .*", line)


FULL = """
set -eu
mount -t tmpfs -o size=24m,mode=700 tmpfs "$HERMES_HOME"
"$@" status >/dev/null
head -c 40m /dev/zero > "$HERMES_HOME/fill" 2>/dev/null || true
"$@" drill run service_crash && exit 9
rm "$HERMES_HOME/fill"
"$@" down >/dev/null
mount -o remount,bind,ro "$HERMES_HOME"
"$@" drill run service_crash && exit 9
"$@" down >/dev/null || true
"""


def test_a_home_that_cannot_be_written_is_said_in_a_sentence(
    hermes: Hermes, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    given = {name: value for name, value in hermes.environ.items() if value}
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", FULL, "-",
         sys.executable, "-m", "hermes_agent"],
        env={**given, "HERMES_HOME": str(home)}, cwd=hermes.work, capture_output=True, text=True,
        timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    assert "No space left on device" in done.stderr, done.stdout + done.stderr
    assert "Read-only file system" in done.stderr, done.stdout + done.stderr
    assert "HERMES_HOME names another" in done.stderr
    assert "bug" not in done.stderr


def test_a_drill_that_is_cut_short_removes_its_box(hermes: Hermes, tmp_path: Path) -> None:
    given = {
        **hermes.environ,
        "HERMES_HOME": str(tmp_path / "home"),
        "HERMES_MODEL": "scripted/none",
    }
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -n 3', "-", sys.executable, "-m", "hermes_agent", "drill",
         "run", *CRASH], env=given, capture_output=True, text=True, timeout=RUN_SECONDS,
    )  # fmt: skip
    hermes.good("down", HERMES_HOME=str(tmp_path / "home"))
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert boxes(tmp_path / "home" / "drills") == []
    assert list((tmp_path / "home" / "checks").iterdir()) == []
