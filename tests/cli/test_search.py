"""`hermes search`: one question to everything that is known."""

from collections.abc import Iterator

import pytest

from hermes_agent.cli.work.search import KINDS, found_text
from tests.support.cli import Hermes


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    made = Hermes(tmp_path_factory.mktemp("known") / "hermes")
    made.ask("is the wombat cluster healthy today?")
    made.ask("my disk is full of wombats")
    made.good("memory", "add", "the wombat cluster is in Oslo")
    made.good("skills", "new", "wombat-care", "--description",
              "Look after the wombat cluster. Use it when a wombat node is down.")  # fmt: skip
    yield made
    made.close()


def test_sessions_messages_skills_and_notes_are_found_together(known: Hermes) -> None:
    kinds = {row["kind"] for row in known.json("search", "wombat cluster")}
    assert {"session", "message", "skill", "note"} <= kinds
    shown = known.good("search", "wombat", "cluster")
    assert "skill wombat-care" in shown
    assert "hint: `hermes " in shown


def test_what_was_said_comes_before_the_skills_that_came_with_hermes(known: Hermes) -> None:
    rows = known.json("search", "disk full")
    first = next(at for at, row in enumerate(rows) if row["ref"] == "disk-full")
    assert "message" in {row["kind"] for row in rows[:first]}
    assert known.json("search", "disk full", "--in", "skills")[0]["ref"] == "disk-full"


@pytest.mark.parametrize("where", ["sessions", "messages", "skills", "notes"])
def test_a_search_is_narrowed_to_one_kind(known: Hermes, where: str) -> None:
    rows = known.json("search", "wombat", "--in", where)
    assert {row["kind"] for row in rows} == {KINDS[where]}
    assert len(known.json("search", "wombat", "--in", where, "--limit", "1")) == 1


@pytest.mark.parametrize("where", ["sessions", "messages", "skills", "notes"])
def test_the_hint_shows_more_of_what_was_found(known: Hermes, where: str) -> None:
    hint = known.good("search", "wombat", "--in", where).splitlines()[-1]
    command = hint.split("`")[1].split()
    assert "wombat" in known.good(*command[1:])


def test_nothing_found_is_said(known: Hermes) -> None:
    assert known.good("search", "xylophone", "--in", "incidents").strip() == "nothing found"
    assert known.json("search", "xylophone", "--in", "incidents") == []


def test_an_empty_search_is_refused(known: Hermes) -> None:
    done = known.run("search", " ")
    assert done.returncode == 2
    assert "hint: " in done.stderr


def test_what_was_found_does_not_drive_the_terminal() -> None:
    row = {"kind": "message", "ref": "ab\x1b:7", "title": "\x1b[2J", "snippet": "\x07«x»",
           "score": 1.0, "time": 9.0}  # fmt: skip
    text = found_text([row])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "`hermes sessions show ab`" in text
