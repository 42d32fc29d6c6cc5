"""Models, files and thoughts in `hermes ask` and `hermes chat`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.cli.talk.chat.view import ChatView
from tests.support.cli import Hermes
from tests.support.model_service import ANSWER, served
from tests.support.openai_server import OpenAIServer

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([ANSWER] * 9) as running:
        yield running


@pytest.fixture
def at_home(hermes: Hermes, server: OpenAIServer) -> Hermes:
    served(hermes, server)
    return hermes


def test_a_chat_names_its_model_and_switches_it(at_home: Hermes) -> None:
    lines = ["/model", "/model mine/z high", "/model", "hello", "/model mine/x", "/model low",
             "/model mine/x anyway", "/model", "/model mine/z anyway", "/status"]  # fmt: skip
    done = at_home.run("chat", "--name", "talk", input="\n".join([*lines, ""]))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert shown[0].startswith("mine/x; /model NAME")
    assert shown[1] == "your next message opens a session with mine/z, reasoning effort high"
    assert shown[2].startswith("mine/z, reasoning effort high;")
    assert shown[3] == "Good day."
    assert "tokens of this conversation cached" in shown[4]
    assert shown[5] == "/model mine/x anyway  switches regardless"
    assert shown[6] == "the model is now mine/z, reasoning effort low"
    assert shown[7].startswith("the model is now mine/x")
    assert shown[8].startswith("mine/x, reasoning effort low;")
    assert "model      mine/z" in shown


def test_a_model_that_cannot_be_is_refused_in_a_chat(at_home: Hermes) -> None:
    lines = ["/model gpt-5", "/model nobody/x", "/model one two", "hello", "/model gpt-5"]
    done = at_home.run("chat", input="\n".join([*lines, ""]))
    assert done.returncode == 1
    assert done.stderr.count("OPENAI_API_KEY is not set") == 2
    assert "no model service is called 'nobody'" in done.stderr
    assert "name one model" in done.stderr
    assert "Good day." in done.stdout


def test_files_go_with_the_next_message_only(at_home: Hermes, server: OpenAIServer) -> None:
    (at_home.work / "dot.png").write_bytes(PIXEL)
    (at_home.work / "notes.txt").write_text("words")
    lines = ["/file dot.png", "/file", "hello", "/file", "/file dot.png", "/file none", "again",
             "/file notes.txt", "/file nowhere.png", "/undo", "/retry"]  # fmt: skip
    done = at_home.run("chat", "--name", "talk", input="\n".join([*lines, ""]))
    assert "attached to your next message: dot.png (image/png)" in done.stdout
    assert "attached to your next message: nothing" in done.stdout
    assert "nothing is attached to your next message" in done.stdout
    assert "notes.txt is neither an image" in done.stderr
    assert "cannot read nowhere.png" in done.stderr
    with_file, without, again = [
        json.dumps([m for m in request.json["messages"] if m["role"] == "user"][-1])
        for request in server.requests
    ]
    assert "dot.png" in with_file
    assert "dot.png" not in without
    assert "dot.png" in again


def test_ask_sends_a_file_and_an_effort(shared: Hermes) -> None:
    (shared.work / "dot.png").write_bytes(PIXEL)
    told = shared.json("ask", "what is it?", "--file", "dot.png", "--effort", "high")
    session = shared.api.get(f"/v1/sessions/{told['session']}")
    assert session["effort"] == "high"
    journal = shared.api.get(f"/v1/sessions/{told['session']}/journal")
    (taken,) = [one["event"] for one in journal if one["event"]["kind"] == "message_taken"]
    assert [(file["name"], file["type"]) for file in taken["files"]] == [("dot.png", "image/png")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--file", "nowhere.png"], "cannot read nowhere.png: No such file"),
        (["--file", "."], "Is a directory"),
        (["--file", "notes.txt"], "the agent can read files"),
        (["--effort", "hgih"], "not a valid --effort: 'hgih'"),
        (["--effort", "low", "--session", "talk"], "only a new session takes a model"),
    ],
)
def test_a_file_or_an_effort_that_cannot_be_is_refused(
    lived_in: Hermes, words: list[str], told: str
) -> None:
    (lived_in.work / "notes.txt").write_text("words")
    done = lived_in.run("ask", "look", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_large_file_is_refused_before_it_is_sent(hermes: Hermes, tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.write(PIXEL)
        file.truncate(20_000_001)
    done = hermes.run("ask", "look", "--file", str(large))
    assert done.returncode == 2
    assert "larger than 20 MB" in done.stderr
    assert not hermes.home.exists()


def test_thoughts_are_one_quiet_line_that_goes_when_the_answer_comes() -> None:
    view = ChatView(lambda _key: False, lambda: 0.0)
    for piece in ("First I\nlook. ", "Then I\u001b[2J think about " + "it " * 50):
        assert view.apply({"kind": "thought_arrived", "text": piece}) == []
    (line,) = view.live()
    assert line.startswith("thinking … ")
    assert len(line) <= 80
    assert line.isprintable()
    view.apply({"kind": "text_arrived", "text": "Yes"})
    assert view.live() == []
    assert [piece.text for piece in view.unfinished()] == ["Yes"]
    view.apply({"kind": "thought_arrived", "text": "hm"})
    view.apply({"kind": "text_voided", "reason": "cut"})
    assert view.live() == []
