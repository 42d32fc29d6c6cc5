"""The chat in a real terminal: typed at, answered, interrupted, and alive when the runtime died."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cli import Hermes, Pane, wait_until

pytestmark = pytest.mark.sample_file(12)

Open = Callable[..., Pane]


@pytest.fixture
def open_chat(hermes: Hermes) -> Iterator[Open]:
    """Start `hermes chat` in a terminal and wait for its prompt."""
    with ExitStack() as opened:

        def start(*words: str, **environ: str) -> Pane:
            command = [sys.executable, "-m", "hermes_agent", "chat", *words]
            pane = Pane(hermes.work, command, {**hermes.environ, **environ})
            opened.callback(pane.close)
            pane.shows("idle")
            return pane

        yield start


def talk(chat: Pane) -> None:
    """Say something first. What a command prints before the chat listens is not shown, and it
    listens once it has shown an answer."""
    chat.enter("hello")
    chat.shows("Good day to you.")


def test_a_conversation_is_streamed_and_rendered_once(hermes: Hermes, open_chat: Open) -> None:
    hermes.script.write_text(
        'delay: 0.02\nturns: [{replies: [{say: "First **bold** words.\\n\\n- one\\n- two\\n\\n'
        '```\\ncode\\n```\\nThe last words."}]}]'
    )
    chat = open_chat("--name", "talk")
    chat.enter("hello")
    chat.shows("The last words.")
    chat.shows("· talk")
    chat.shows("idle")
    words = ("> hello", "First bold words.", "• one", "• two", "code", "The last words.")
    wait_until(lambda: [chat.text().count(one) for one in words] == [1] * len(words), "each once")
    shown = chat.text()
    assert "**" not in shown
    assert "```" not in shown


def test_tools_are_a_line_each_and_consent_is_asked_for(hermes: Hermes, open_chat: Open) -> None:
    chat = open_chat("--policy", "careful")
    chat.press("C-o")
    chat.shows("Ctrl-O closes")
    chat.enter("write a file")
    assert "Ctrl-O closes" not in chat.shows("▸n No   y Yes")
    assert not (hermes.work / "made.txt").exists()
    chat.type("y")
    shown = chat.shows("The file is written.")
    chat.shows("Ctrl-O closes")
    assert "✓ $ echo written" in shown
    assert (hermes.work / "made.txt").read_text() == "written\n"


def test_a_message_that_is_being_typed_does_not_answer_and_is_kept(
    hermes: Hermes, open_chat: Open
) -> None:
    chat = open_chat("--policy", "careful")
    chat.enter("write a file")
    chat.shows("▸n No   y Yes")
    chat.enter("yes")  # many keys at once
    chat.shows("words don't answer this")
    chat.type(", mistyped")
    chat.shows("Tab drops it")
    chat.shows("> yes, mistyped")
    chat.press("Tab")
    chat.shows("▸n No   y Yes")
    chat.resize(4)
    chat.shows("too small")
    chat.type("y")  # the answers are not there
    chat.resize(50)
    chat.shows("> y")
    chat.press("Tab")
    chat.shows("▸n No   y Yes")
    chat.paste("but later")
    chat.shows("Tab sets it aside")
    chat.press("Tab")
    chat.shows("▸n No   y Yes")
    chat.press("Right")
    chat.shows("▸y Yes")
    chat.press("Left", "Enter")  # the safe answer
    chat.shows("refused by the user")
    assert "mistyped" not in chat.shows("> but later")
    assert not (hermes.work / "made.txt").exists()


def test_what_a_question_does_not_show_yet_is_counted(hermes: Hermes, open_chat: Open) -> None:
    body = "\\n".join(["#!/bin/sh", *(f"echo {n}" for n in range(2, 80)), "rm -rf ~/important"])
    call = f'{{tool: write_file, with: {{path: a.sh, content: "{body}"}}}}'
    hermes.script.write_text(f"turns: [{{replies: [{{calls: [{call}]}}, {{say: Done.}}]}}]")
    chat = open_chat("--policy", "careful")
    chat.enter("write it")
    shown = chat.shows("not read yet: PgDn")
    assert "! deletes files: rm -rf ~/important (in content, line 80)" in shown
    assert "refused in" in shown
    chat.type("v")
    chat.shows("v less")
    chat.press("PageDown")
    chat.shows("│ echo 77")
    chat.press("PageDown", "PageDown")
    chat.shows("!   80 │ rm -rf ~/important")
    chat.shows("PgUp/PgDn scroll")
    assert "not read yet" not in chat.text()
    chat.type("n")
    chat.shows("Done.")


def test_control_c_stops_the_agent_and_then_leaves(shared: Hermes, open_chat: Open) -> None:
    chat = open_chat()
    talk(chat)
    chat.enter("work long")
    chat.shows("│ begun")
    chat.enter("and this too")
    chat.shows("queued: and this too")
    chat.press("C-c")
    chat.shows("interrupted; work so far is saved")
    chat.shows("queued: s sends it now, d drops it")
    assert "The long work is over." not in chat.text()
    chat.press("e")
    chat.shows("> and this too")
    chat.enter(" later")
    chat.shows("The long work is over.")
    chat.shows("idle")
    chat.press("C-c")
    chat.shows("again, or Ctrl-D, leaves")
    chat.press("C-c")
    wait_until(chat.has_ended, "the chat to end")
    assert "to continue: `hermes" in chat.text()


def test_a_long_turn_survives_the_death_of_the_runtime(hermes: Hermes, open_chat: Open) -> None:
    hermes.script.write_text(
        "turns: [{when: hello, replies: [{say: Good day to you.}]}, "
        "{replies: [{calls: [{tool: terminal, with: {command: "
        "'echo begun; while [ ! -e go ]; do sleep 0.1; done; echo ran >> runs'}}]}, "
        "{say: It ran to its end.}]}]"
    )
    chat = open_chat()
    talk(chat)
    chat.enter("begin")
    chat.shows("│ begun")
    hermes.kill_runtime()
    chat.shows("it is running again")
    chat.shows("continues where it stopped")
    (hermes.work / "go").touch()
    chat.shows("It ran to its end.")
    assert (hermes.work / "runs").read_text() == "ran\n"
    chat.enter("/quit")
    wait_until(chat.has_ended, "the chat to end")


def test_a_runtime_that_was_stopped_stays_so_until_something_is_said(
    hermes: Hermes, open_chat: Open
) -> None:
    chat = open_chat()
    chat.enter("hello")
    chat.shows("Good day to you.")
    hermes.good("down")
    chat.shows("your next message starts it again")
    assert hermes.json("status")["state"] == "stopped"
    chat.enter("hello again")
    chat.shows("Good day to you.", 2)


def test_help_and_unknown_commands_and_tab(open_chat: Open) -> None:
    chat = open_chat()
    chat.enter("/hlep")
    chat.shows("did you mean /help?")
    chat.type("/he")
    chat.press("Tab", "Enter")
    shown = chat.shows("/resume [ID]")
    assert "Ctrl-C stops the agent" in shown


def test_files_are_named_pasted_and_sent_and_output_folds_out(
    hermes: Hermes, open_chat: Open
) -> None:
    (hermes.work / "notes.txt").write_text("buy milk\n")
    (hermes.work / "my shot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    chat = open_chat("--name", "talk")
    chat.shows("/hermes/work · terminal local · policy sandbox · no spending limit")
    chat.type("write a file like @no")
    chat.shows(" notes.txt")
    chat.press("Tab")
    chat.shows("attached: notes.txt")
    chat.paste(f"'{hermes.work}/my shot.png'")
    chat.shows("attached: notes.txt, my shot.png")
    chat.press("Enter")
    chat.shows("The file is written.")
    (said, *_) = hermes.json("sessions", "show", "talk")["messages"]
    assert "notes.txt:\n```\nbuy milk\n```" in said["text"]
    chat.press("C-o")
    chat.shows("│ shown")
    chat.press("C-o")
    chat.enter("/show 1")
    chat.shows("\nshown")
    chat.paste("a line\nand @notes.txt")
    shown = chat.shows("  and @notes.txt")
    assert shown.count("attached: ") == 0


def test_several_lines_are_one_message(hermes: Hermes, open_chat: Open) -> None:
    chat = open_chat("--name", "talk")
    chat.type("one")
    chat.press("M-Enter")
    chat.enter("two\\")
    chat.enter("three")
    chat.shows("Good day to you.")
    (said, _) = hermes.json("sessions", "show", "talk")["messages"]
    assert said["text"] == "one\ntwo\nthree"


def test_a_message_that_was_undone_returns_to_the_input_line(
    hermes: Hermes, open_chat: Open
) -> None:
    chat = open_chat("--name", "talk")
    chat.enter("hello")
    chat.shows("Good day to you.")
    chat.enter("/model low")
    chat.shows("· the model is now")
    chat.enter("/undo")
    chat.shows("> hello", 2)
    chat.enter(" there")
    shown = chat.shows("Good day to you.", 2)
    assert [shown.count(words) for words in ("the model is now", "· rewound to before: hello")] == [
        1,
        1,
    ]
    said = [one["text"] for one in hermes.json("sessions", "show", "talk")["messages"]]
    assert "hello there" in said


def test_what_was_typed_is_remembered_in_the_home(hermes: Hermes, open_chat: Open) -> None:
    chat = open_chat()
    chat.enter("hello for later")
    chat.shows("Good day to you.")
    chat.press("C-d")
    wait_until(chat.has_ended, "the chat to end")
    assert "hello for later" in (hermes.home / "history").read_text()
    chat.close()
    again = Pane(hermes.work, [sys.executable, "-m", "hermes_agent", "chat"], hermes.environ)
    try:
        again.shows("idle")

        def remembered() -> bool:
            again.press("Up")  # the file is read after the prompt is there
            return "> hello for later" in again.text()

        wait_until(remembered, "the line of the chat before")
    finally:
        again.close()


def test_an_old_session_is_taken_up_with_its_end_on_the_screen(
    hermes: Hermes, open_chat: Open
) -> None:
    hermes.ask("please write a file", "--name", "papers")
    chat = open_chat("--session", "papers")
    shown = chat.shows("The file is written.")
    assert "> please write a file" in shown
    assert "session papers · " in shown
    chat.enter("hello")
    chat.shows("Good day to you.")


def test_a_terminal_that_can_do_nothing_gets_the_plain_chat(hermes: Hermes, tmp_path: Path) -> None:
    command = ["env", "TERM=dumb", sys.executable, "-m", "hermes_agent", "chat"]
    chat = Pane(tmp_path, command, {**hermes.environ, "HERMES_POLICY": "careful"})
    try:
        chat.shows(">")
        chat.enter("write a file")
        assert "v=show all" not in chat.shows("allow? [y/N/s")
        chat.enter("maybe")
        chat.shows("not an answer: 'maybe'")
        chat.shows("allow? [y/N/s", 2)
        chat.enter("y")
        assert "→ $ echo written" in chat.shows("The file is **written**.")
        wait_until(lambda: chat.text().rstrip().endswith(">"), "the next prompt")
        chat.press("C-d")
        wait_until(chat.has_ended, "the chat to end")
    finally:
        chat.close()


def test_commands_typed_in_a_burst_are_all_answered(open_chat: Open) -> None:
    chat = open_chat()
    chat.press("/cost", "Enter", "/name first", "Enter", "/approvals", "Enter", "/quit", "Enter")
    wait_until(chat.has_ended, "the chat to end")
    shown = chat.text()
    for words in ("nothing spent yet", "'first'", "no open questions"):
        assert words in shown
