"""`/skill-name` in `hermes ask` and in a chat without a screen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Hermes
from tests.support.learning_fixture import skill_text

SCRIPT = """
turns:
  - when: Say hello to
    replies: [say: It was greeted.]
  - replies: [say: Good day to you.]
"""
GREET = skill_text(
    "greet-host",
    "Greets a host by its name. Use when a host is to be greeted.",
    "Say hello to {{host}}.",
    hermes_parameters="host: whom to greet",
)


@pytest.fixture(scope="module")
def skilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    made = Hermes(tmp_path_factory.mktemp("chat") / "hermes", SCRIPT)
    folder: Path = made.home / "skills" / "greet-host"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(GREET)
    yield made
    made.close()


def test_a_skill_is_opened_by_its_name_in_a_chat(skilled: Hermes) -> None:
    done = skilled.run("chat", "--name", "greeting", input="/greet-host web1\nand then?\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["It was greeted.", "Good day to you."]
    said, *_ = skilled.json("sessions", "show", "greeting")["messages"]
    assert said["text"] == "/greet-host web1"


def test_wrong_arguments_of_a_skill_are_told_and_the_chat_goes_on(skilled: Hermes) -> None:
    before = len(skilled.json("sessions"))
    done = skilled.run("chat", "--name", "wrong", input="/greet-host\n/greet-host a b\nhello\n")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["Good day to you."]
    assert "host" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(skilled.json("sessions")) == before + 1
    assert skilled.json("sessions", "show", "wrong")["turns"] == 1


def test_a_command_of_the_chat_goes_before_a_skill_of_the_same_name(skilled: Hermes) -> None:
    folder = skilled.home / "skills" / "help"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_text("help"))
    assert "/resume [ID]" in skilled.good("chat", input="/help\n")


def test_a_skill_is_opened_by_its_name_in_a_question(skilled: Hermes) -> None:
    assert skilled.good("ask", "/greet-host web2", "--quiet").strip() == "It was greeted."
    before = len(skilled.json("sessions"))
    done = skilled.run("ask", "/greet-host")
    assert done.returncode == 2
    assert "host" in done.stderr
    assert len(skilled.json("sessions")) == before
    assert skilled.good("ask", "/etc/hosts is wrong", "--quiet").strip() == "Good day to you."
