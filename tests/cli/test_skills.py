"""`hermes skills`: listed, shown, checked, put away and brought back, compared and measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.work.skills import can_draw, skill_text, skills_text
from tests.support.cli import Hermes

ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"

TEXT = """\
---
name: {name}
description: Count the {name} things. Use it when somebody wants them counted.
---

# Counting

## When to Use

- Somebody asks how many there are.

## Procedure

1. Count them.

## Verification

- Count again.
"""


@pytest.fixture(scope="module")
def skilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    """A Hermes home for tests that each use a skill of their own."""
    made = Hermes(tmp_path_factory.mktemp("skilled") / "hermes")
    yield made
    made.close()


def lay(hermes: Hermes, name: str, **files: str) -> Path:
    """A skill as somebody lays it down by hand."""
    folder = hermes.home / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT.format(name=name))
    for file, text in files.items():
        (folder / file).write_text(text)
    return folder


def rows(hermes: Hermes, *words: str) -> dict[str, Any]:
    return {row["name"]: row for row in hermes.json("skills", "list", *words)}


def test_bundled_skills_are_listed_and_shown(skilled: Hermes) -> None:
    listed = rows(skilled)
    assert {"disk-full", "service-crash", "write-a-skill"} <= set(listed)
    assert listed["disk-full"]["by"] == "shipped"
    assert "disk-full" in skilled.good("skills")
    shown = skilled.good("skills", "show", "disk-full")
    assert "disk-full, given" in shown
    assert "name: disk-full" in shown
    assert skilled.json("skills", "show", "disk-full")["runbook"]
    shown = skilled.good("skills", "show", "manifest-check")
    assert "parameter  path (required): the file or folder" in shown


def test_a_skill_laid_down_by_hand_is_used_from_then_on(skilled: Hermes) -> None:
    folder = lay(skilled, "by-hand", **{"runbook.yaml": "steps:\n  - run: 'true'\n"})
    row = rows(skilled)["by-hand"]
    assert (row["state"], row["by"], row["version"], row["runbook"]) == ("given", "person", 1, True)
    found = skilled.json("skills", "show", "by-hand")
    assert found["folder"] == str(folder)
    assert sorted(found["files"]) == ["SKILL.md", "runbook.yaml"]
    assert skilled.good("skills", "show", "by-hand", "--file", "runbook.yaml").startswith("steps:")
    missing = skilled.run("skills", "show", "by-hand", "--file", "../by-hand/SKILL.md")
    assert missing.returncode == 1
    assert "it has: " in missing.stderr


def test_versions_are_compared_and_brought_back(skilled: Hermes) -> None:
    main = lay(skilled, "changing") / "SKILL.md"
    assert rows(skilled)["changing"]["version"] == 1
    main.write_text(main.read_text().replace("Count them.", "Count them twice."))
    assert rows(skilled)["changing"]["version"] == 2
    for versions in ((), ("1", "2")):
        diff = skilled.good("skills", "diff", "changing", *versions)
        assert "-1. Count them." in diff
        assert "+1. Count them twice." in diff
    assert "1. Count them twice." in skilled.json("skills", "diff", "changing")["diff"]
    record = skilled.json("skills", "restore", "changing", "1")
    assert record["name"] == "changing"
    assert "1. Count them.\n" in main.read_text()
    log = skilled.good("skills", "log", "changing")
    assert "version 2" in log
    assert len(skilled.json("skills", "log", "changing")) >= 3


def test_a_skill_is_put_away_and_brought_back(skilled: Hermes) -> None:
    lay(skilled, "rarely")
    assert rows(skilled)["rarely"]["state"] == "given"
    assert "is retired" in skilled.good("skills", "retire", "rarely", "--why", "nobody counts")
    assert "rarely" not in rows(skilled)
    away = rows(skilled, "--all")["rarely"]
    assert (away["state"], away["reason"]) == ("retired", "nobody counts")
    assert "nobody counts" in skilled.good("skills", "list", "--all")
    assert "not in use" in skilled.good("skills", "list")
    skilled.good("skills", "restore", "rarely")
    assert rows(skilled)["rarely"]["state"] == "given"


@pytest.mark.parametrize(
    "action", ["show", "log", "diff", "retire", "restore", "run", "prove", "edit", "check"]
)
def test_a_skill_that_is_not_there_is_said_with_a_way_out(skilled: Hermes, action: str) -> None:
    done = skilled.run("skills", action, "no-such-skill", EDITOR="true")
    assert done.returncode in (1, 2)
    assert "no-such-skill" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("name", ["röntgen", "a b", "../disk-full", "report", "check", " "])
def test_a_name_that_no_skill_has_is_said_so(skilled: Hermes, name: str) -> None:
    done = skilled.run("skills", "show", name)
    assert done.returncode in (1, 2)
    assert "hint: " in done.stderr
    assert "broke" not in done.stderr


def test_two_versions_are_compared_or_none(skilled: Hermes) -> None:
    done = skilled.run("skills", "diff", "disk-full", "1")
    assert done.returncode == 2
    assert "two versions or none" in done.stderr


# measured


def test_the_report_is_a_table_and_an_image(skilled: Hermes) -> None:
    lay(skilled, "measured")
    skilled.good("skills")
    image = skilled.work / "lift.svg"
    done = skilled.run("skills", "report", "--image", str(image))
    assert done.returncode == 0, done.stderr
    assert f"wrote {image}" in done.stderr
    assert image.read_text().startswith("<svg ")
    assert isinstance(skilled.json("skills", "report"), list)


def test_an_image_needs_a_name_and_a_place(skilled: Hermes) -> None:
    wrong = skilled.run("skills", "report", "--image", "lift.png")
    assert wrong.returncode == 2
    assert "FILE.svg" in wrong.stderr
    nowhere = skilled.run("skills", "report", "--image", "/no/such/folder/lift.svg")
    assert nowhere.returncode == 1
    assert "cannot write" in nowhere.stderr


def test_a_plain_terminal_gets_plain_letters() -> None:
    assert can_draw("utf-8", {})
    assert not can_draw("utf-8", {"TERM": "dumb"})
    assert not can_draw("latin-1", {})
    assert not can_draw(None, {})
    assert not can_draw("no-such-encoding", {})


# as they are printed

ROW = {
    "name": "odd", "description": ESCAPES, "category": "", "state": "demoted", "version": 2,
    "by": "review", "model": "", "reason": f"bad{ESCAPES}", "uses": 1, "runbook": True,
    "broken": "no description",
}  # fmt: skip
FOUND: dict[str, Any] = {
    "record": {"name": "odd", "state": "proven", "version": 2, "digest": "d", "created": 0.0,
               "changed": 0.0, "by": "review", "model": f"x/y{ESCAPES}", "reason": ESCAPES},
    "text": f"# Odd\n{ESCAPES}\n", "files": ["SKILL.md", f"references/{ESCAPES}"],
    "bounds": {"skill": "odd", "tools": ["terminal(git:*)"], "hosts": [ESCAPES]},
    "parameters": [{"name": "path", "about": ESCAPES, "required": False, "default": "/var"}],
    "problems": [{"severity": "warning", "message": ESCAPES, "hint": "h"}],
    "versions": [{}, {}], "runbook": True, "cases": 6, "folder": "/home/odd",
}  # fmt: skip


def test_what_a_skill_says_does_not_drive_the_terminal() -> None:
    for text in (skills_text([ROW]), skill_text(FOUND)):
        assert "\x1b" not in text
        assert "\x07" not in text


def test_a_skill_is_shown_with_what_it_takes_and_may_do() -> None:
    text = skill_text(FOUND)
    for words in ("version    2 of 2", "path (default '/var')", "tools: terminal(git:*)",
                  "cases      6", "`hermes skills run odd` needs", "warning: "):  # fmt: skip
        assert words in text
    assert "only" not in skill_text({**FOUND, "bounds": None})
