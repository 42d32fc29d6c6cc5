"""`hermes skills run`: a runbook is worked through without a model; the exit code says how it
ended."""

import json
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from hermes_agent.cli.output.events import Printer
from hermes_agent.cli.work.skills import run_code
from hermes_agent.core.errors import HermesError
from tests.support.cli import Hermes

TEXT = """\
---
name: {name}
description: Write a word to a file. Use it when the file is missing.
metadata:
  hermes-parameters: "word: what to write"
---

## When to Use

- The file is missing.

## Verification

- The file is there.
"""

SCRIPT = """
turns:
  - replies: [say: step one was me, say: The model is awake., say: The model is awake.]
"""
"""A step of a runbook counts as a reply."""

WRITES = """\
steps:
  - run: printf %s {{word}} > word.txt
    verify: {run: test -s word.txt}
verify:
  - run: grep -q . word.txt
"""

NOT_FOR_THIS = """\
when:
  - run: test -e never-there
steps:
  - run: touch should-not-be-here
"""

GOES_WRONG = """\
steps:
  - run: "false"
"""


@pytest.fixture(scope="module")
def skilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    made = Hermes(tmp_path_factory.mktemp("run") / "hermes", SCRIPT)
    books = {"write-word": WRITES, "not-for-this": NOT_FOR_THIS, "goes-wrong": GOES_WRONG}
    for name, runbook in books.items():
        folder = made.home / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(TEXT.format(name=name))
        (folder / "runbook.yaml").write_text(runbook)
    yield made
    made.close()


def test_a_runbook_is_worked_through_without_a_model(skilled: Hermes) -> None:
    done = skilled.run("skills", "run", "write-word", "word=two words; $(touch evil)", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["ok"], told["reason"]) == (True, "done")
    assert told["usage"]["output"] == 0
    assert (skilled.work / "word.txt").read_text() == "two words; $(touch evil)"
    assert not (skilled.work / "evil").exists()


def test_a_runbook_that_is_for_another_case_does_nothing(skilled: Hermes) -> None:
    done = skilled.run("skills", "run", "not-for-this", "x", "--quiet")
    assert (done.returncode, done.stderr) == (3, "")
    assert "not for this case" in done.stdout
    as_json = skilled.run("skills", "run", "not-for-this", "x", "--json")
    assert as_json.returncode == 3
    assert not json.loads(as_json.stdout)["ok"]
    assert not (skilled.work / "should-not-be-here").exists()


def test_options_may_stand_before_and_after_the_name(skilled: Hermes) -> None:
    good = skilled.good("skills", "run", "--workspace", str(skilled.home), "goes-wrong", "x")
    assert "The model is awake." in good
    assert "The model is awake." in skilled.good("skills", "run", "goes-wrong", "--quiet", "x")


# how it ends


def ended(**more: Any) -> dict[str, Any]:
    return {"session": "ab", "parked": [], "reason": "done", "text": "all is well",
            "error": "", "hint": "", **more}  # fmt: skip


def printer(out: StringIO) -> Printer:
    return Printer(live=False, quiet=True, out=out, side=sys.stderr)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (ended(), 0),
        (ended(text="stopped: step 2 came to something else"), 1),
        (ended(text="this runbook is not for this case: ran `x`, saw exit 1"), 3),
        (ended(reason="interrupted"), 1),
        (ended(reason="parked"), 1),
    ],
)
def test_the_exit_code_says_how_it_went(outcome: dict[str, Any], code: int) -> None:
    assert run_code(outcome, False, printer(StringIO())) == code


def test_what_failed_is_an_error_with_its_hint() -> None:
    with pytest.raises(HermesError, match="no way") as raised:
        run_code(
            ended(reason="failed", error="no way", hint="go round"), False, printer(StringIO())
        )
    assert raised.value.hint == "go round"


def test_the_answer_of_a_runbook_does_not_drive_the_terminal() -> None:
    out = StringIO()
    run_code(ended(text="well\x1b[2J"), False, printer(out))
    assert out.getvalue() == "well[2J\n"
