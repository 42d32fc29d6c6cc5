"""Streams that are closed, full, or cannot show a letter: a line at most, never a traceback."""

import subprocess
import sys

import pytest

from tests.support.cli import Hermes


def shell(hermes: Hermes, line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which `hermes` is ours."""
    program = f'hermes() {{ "{sys.executable}" -m hermes_agent "$@"; }}; set -o pipefail; {line}'
    return subprocess.run(
        ["bash", "-c", program],
        cwd=hermes.work,
        env={**hermes.environ, **environ},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("words", ["--help", "--version", "config --help", "config"])
def test_a_reader_that_has_gone_is_nothing_to_talk_about(shared: Hermes, words: str) -> None:
    done = shell(shared, f"hermes {words} | true")
    assert done.returncode in (0, 141)
    assert done.stderr == ""


@pytest.mark.parametrize("words", ["--help", "--version", "config --help", "config"])
def test_a_full_device_is_one_line(shared: Hermes, words: str) -> None:
    done = shell(shared, f"hermes {words} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "cannot write the output: No space left on device\n"


def test_closed_streams_are_done_without(shared: Hermes) -> None:
    for line in ("hermes --version <&-", "hermes --version >&-", "hermes config >&- 2>&- <&-"):
        assert (shell(shared, line).returncode, line) == (0, line)
    empty = shell(shared, "hermes ask - <&-")
    assert empty.returncode == 2
    assert "the message is empty" in empty.stderr


def test_letters_that_cannot_be_shown_are_numbers(shared: Hermes) -> None:
    shared.script.write_text("turns: [{replies: [{say: Grüße}]}]")
    done = shell(shared, "hermes ask hi", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "Gr\\xfc\\xdfe\n")


def test_standard_input_that_is_no_text_is_refused(shared: Hermes) -> None:
    done = shell(shared, r"printf 'caf\xe9' | hermes ask -")
    assert done.returncode == 2
    assert "standard input is not UTF-8" in done.stderr


INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "hermes_agent.cli.run.status":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from hermes_agent.cli.main import main
sys.exit(main(["status"]))
"""


def test_control_c_before_the_command_runs_is_quiet(hermes: Hermes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], env=hermes.environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
