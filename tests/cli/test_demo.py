"""`make demo`, from beginning to end, as a newcomer runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "hermes_drills.demo"]


def play(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "TMPDIR": str(folder), "HERMES_MODEL": "scripted/none", **environ}
    return subprocess.run(
        [*words, *DEMO], cwd=folder, env=given, capture_output=True, text=True, timeout=280
    )


def running(folder: Path) -> list[str]:
    """What still runs for the demo in a folder."""
    mark = os.fsencode(folder)
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if b"HERMES_HOME=" + mark in environ or mark in words:
            found.append(words.decode())
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_machine_is_broken_and_healed_and_the_second_time_is_quicker(tmp_path: Path) -> None:
    done = play(tmp_path, ANTHROPIC_API_KEY="sk-none")
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    order = [
        "make demo MODEL=anthropic/", "machine", "broken", "alert", "kill -9", "resumes",
        "suspects", "acts", "allowed by drill/", "resolved", "report", "proof",
        "It happens again", "alert", "acts", "proof", "first    second",
    ]  # fmt: skip
    at = [0]
    for words in order:
        at.append(told.find(words, at[-1]))
        assert at[-1] >= 0, f"{words!r} is not told in its place:\n{told}"
    assert len(told.splitlines()) < 50
    clock = [int(m) * 60 + int(s) for m, s in re.findall(r"^ *(\d+):(\d\d) ", told, re.MULTILINE)]
    assert clock == sorted(clock)
    (report,) = set(re.findall(r"report +(\S+inc-1\.md)", told))
    assert "# inc-1" in (tmp_path / report).read_text()
    first, second = map(int, re.findall(r"^  tool calls +(\d+) +(\d+)$", told, re.MULTILINE)[0])
    assert second < first
    assert "\x1b" not in told
    assert running(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [".demo"]
    assert [path.name for path in (tmp_path / ".demo/home/drills").iterdir()] == ["runs.jsonl"]


@pytest.mark.timeout(300)
def test_whoever_has_read_enough_leaves_nothing_behind(tmp_path: Path) -> None:
    done = play(tmp_path, "bash", "-c", '"$@" | head -n 4', "-")
    assert (done.stderr, len(done.stdout.splitlines())) == ("", 4)
    assert running(tmp_path) == []
    assert not any((tmp_path / ".demo/home/drills").glob("*/*"))


@pytest.mark.timeout(300)
def test_where_no_machine_can_be_made_it_shows_what_survives_a_kill(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (programs / "unshare").chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    done = play(work, PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The full demo cannot run here: namespaces are not allowed." in done.stdout
    assert "nothing lost, nothing repeated" in done.stdout
    assert running(work) == []
