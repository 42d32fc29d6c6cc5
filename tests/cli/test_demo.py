"""`make demo`, from beginning to end, as a newcomer runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "hermes_agent.cli.demo"]


def play(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "TMPDIR": str(folder), "HERMES_MODEL": "scripted/none", **environ}
    return subprocess.run(DEMO, env=given, capture_output=True, text=True, timeout=170)


@pytest.mark.timeout(180)
def test_a_machine_is_broken_and_healed_and_the_second_time_is_quicker(tmp_path: Path) -> None:
    done = play(tmp_path)
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    order = [
        "A machine that is well", "Something breaks", "declared", "kill -9", "goes on", "acts",
        "allowed by drill/", "resolved", "The report", "The skill ", "The same kind of fault again",
        "follows", "resolved", "First and second",
    ]  # fmt: skip
    at = [0]
    for words in order:
        at.append(told.find(words, at[-1]))
        assert at[-1] >= 0, f"{words!r} is not told in its place:\n{told}"
    assert told.count(" declared ") == 2
    first, second = map(int, re.findall(r"^  replies +(\d+) +(\d+)$", told, re.MULTILINE)[0])
    assert second * 2 <= first
    assert "\x1b" not in told
    assert list(tmp_path.iterdir()) == [], "something was left behind"


def test_where_no_machine_can_be_made_it_shows_what_survives_a_kill(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for path in Path(folder).iterdir():
            link = programs / path.name
            if path.name not in ("unshare", "nsenter") and not link.is_symlink():
                link.symlink_to(path)
    (tmp_path / "work").mkdir()
    done = play(tmp_path / "work", PATH=str(programs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No machine can be broken here: nsenter, unshare not found" in done.stdout
    assert "nothing lost, nothing twice" in done.stdout
