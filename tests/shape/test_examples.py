"""The examples in the documentation work. A fenced block marked `run` (```python run, ```console
run) is run as it stands, in an empty home, with the scripted model of `examples.yaml`.

In a console block the lines after `$ ` are the commands; every other line must be printed by
them, in order, and `…` stands for whatever else is printed."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE
from tests.support.source import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPT = Path(__file__).with_name("examples.yaml")
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Example:
    language: str
    text: str
    place: str


def examples() -> list[Example]:
    fence = re.compile(r"^```(python|console) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in fence.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Example(match[1], match[2], f"{page.relative_to(ROOT)}:{line}"))
    return found


def walks() -> list[Path]:
    """Pages that are to be gone through from beginning to end, in one home: blocks marked
    ```console walk are run one after the other, ```yaml walk NAME are files."""
    return [page for page in PAGES if "```console walk" in page.read_text()]


def of(language: str) -> list[Example]:
    return [example for example in examples() if example.language == language]


@pytest.fixture
def surroundings(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HERMES_MODEL": f"scripted/{SCRIPT}",
        "HERMES_POLICY": "sandbox",
    }


def run(command: list[str], folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("example", of("python"), ids=lambda example: example.place)
def test_a_python_example_runs(
    example: Example, tmp_path: Path, surroundings: dict[str, str]
) -> None:
    printed = run([sys.executable, "-W", "error", "-c", example.text], tmp_path, surroundings)
    assert "Traceback" not in printed


def assert_prints(text: str, folder: Path, environ: dict[str, str]) -> None:
    """The commands of a console block print what stands below them."""
    lines = [line for line in text.splitlines() if line.strip()]
    script = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    shown = [line for line in lines if not line.startswith("$ ") and line.strip() != "…"]
    printed = run(["bash", "-euo", "pipefail", "-c", script], folder, environ)
    rest = iter(printed.splitlines())
    assert [line for line in shown if line not in rest] == [], printed


@pytest.mark.parametrize("example", of("console"), ids=lambda example: example.place)
def test_a_console_example_prints_what_it_shows(
    example: Example, tmp_path: Path, surroundings: dict[str, str]
) -> None:
    try:
        assert_prints(example.text, tmp_path, surroundings)
    finally:
        subprocess.run([BIN / "hermes", "down"], env=surroundings, capture_output=True)


@pytest.mark.parametrize("page", walks(), ids=lambda page: page.stem)
def test_a_walk_through_can_be_followed_from_beginning_to_end(
    page: Path, tmp_path: Path, surroundings: dict[str, str]
) -> None:
    del surroundings["HERMES_POLICY"]
    fence = re.compile(r"^```(console|yaml) walk ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    try:
        for language, name, text in fence.findall(page.read_text()):
            if language == "yaml":
                (tmp_path / name).write_text(text)
            else:
                assert_prints(text, tmp_path, surroundings)
    finally:
        subprocess.run([BIN / "hermes", "down"], env=surroundings, capture_output=True)
