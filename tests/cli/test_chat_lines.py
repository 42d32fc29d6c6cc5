"""`hermes chat` with its input from a pipe: a line is a turn."""

import subprocess
import sys

from tests.support.cli import PATIENCE, Hermes, wait_until


def test_each_line_is_a_turn_of_one_session(hermes: Hermes) -> None:
    done = hermes.run("chat", "--name", "talk", input="hello\n\nplease write a file\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("Good day") < done.stdout.index("The file is **written**.")
    (session,) = hermes.json("sessions")
    assert (session["name"], session["turns"]) == ("talk", 2)
    assert session["id"] in done.stderr


def test_a_chat_goes_on_with_a_session_by_name_or_with_the_newest(hermes: Hermes) -> None:
    hermes.ask("hello", "--name", "talk")
    hermes.good("chat", "--session", "talk", input="hello again\n")
    hermes.good("chat", "--continue", input="and again\n")
    hermes.good("sessions", "resume", "talk", input="once more\n")
    assert hermes.json("sessions", "show", "talk")["turns"] == 4


def test_a_backslash_goes_on_in_the_next_line(hermes: Hermes) -> None:
    hermes.good("chat", "--name", "talk", input="one\\\ntwo\n")
    (said, _) = hermes.json("sessions", "show", "talk")["messages"]
    assert said["text"] == "one\ntwo"


def test_slash_commands_work_in_a_pipe(hermes: Hermes) -> None:
    lines = ["hello", "/name trip", "/cost", "/status", "/search hello", "/parked", "/approvals"]
    shown = hermes.good("chat", input="\n".join([*lines, "/sessions", "/help", "/export", ""]))
    for words in ("'trip'", "tokens in", "running", "«hello»", "nothing is parked",
                  "no open questions", "/resume [ID]", "`hermes import`", "wrote "):  # fmt: skip
        assert words in shown
    (page,) = hermes.work.glob("hermes-*.md")
    assert page.read_text().startswith("# trip\n")


def test_new_opens_another_session_and_resume_goes_back(hermes: Hermes) -> None:
    hermes.good(
        "chat", "--name", "first", input="hello\n/new\nhello\n/resume first\nhello\n/exit\nno\n"
    )
    turns = {row["name"]: row["turns"] for row in hermes.json("sessions")}
    assert turns == {"first": 2, "": 1}
    shown = hermes.good("chat", input="/resume\nhello\n/resume\n/quit\n")
    assert shown.count("you are now in session") == 2
    assert shown.index(": first") < shown.index(": hello")


def test_a_conversation_goes_back_branches_off_and_is_looked_at(hermes: Hermes) -> None:
    lines = [
        "hello", "please write a file", "/context", "/diff", "/cost", "/retry", "/retry anyway",
        "/undo", "/branch other", "good morning", "/undo #3", "/undo", "/compact",
    ]  # fmt: skip
    done = hermes.run("chat", "--name", "talk", input="\n".join([*lines, ""]))
    for words in (
        "tool results", "commands may have changed other files: 1 command ran: $ echo written",
        "use: main", "reserved", "for the summary and the reply", "you are in it now, /resume ",
        "not undone: 1 effect: ran echo", "/retry anyway  sends your message again",
        "sending again: please write a file", ": please write a file", "(other) is a branch of",
        "rewound to before #3: hello",
    ):  # fmt: skip
        assert words in done.stdout, done.stdout
    assert "cannot go back 1 messages: the conversation has 0" in done.stderr
    assert "too short to be summarised" in done.stderr
    rows = {row["name"]: row for row in hermes.json("sessions")}
    assert rows["other"]["branch_of"] == rows["talk"]["id"]
    said = [one for one in hermes.json("sessions", "show", "talk")["messages"]
            if one["role"] == "user"]  # fmt: skip
    assert [one.get("rewound", False) for one in said] == [False, True, True]
    hermes.good("sessions", "resume", input="goodbye\n")  # the last one
    assert hermes.json("sessions", "show", "other")["turns"] == rows["other"]["turns"] + 1


def test_an_unknown_slash_command_names_the_nearest(shared: Hermes) -> None:
    done = shared.run("chat", input="/serch x\n/name\n/parked nonsense\n/export\n/resume\n")
    assert done.returncode == 1
    assert "no command called /serch" in done.stderr
    assert "did you mean /search?" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_consent_is_refused_where_nobody_can_answer(shared: Hermes) -> None:
    done = shared.run("chat", "--policy", "careful", input="write a file\n")
    assert "refused" in done.stderr
    assert not (shared.work / "made.txt").exists()


def test_a_failed_turn_shows_in_the_exit_code_and_the_next_goes_on(shared: Hermes) -> None:
    shared.script.write_text("turns: [{when: nope, replies: []}, {replies: [{say: Yes.}]}]")
    done = shared.run("chat", input="nope\n/new\nfine\n")
    assert done.returncode == 1
    assert "only 0 replies" in done.stderr
    assert "Yes." in done.stdout


def test_a_name_that_is_taken_is_refused_before_anything_is_said(shared: Hermes) -> None:
    id = shared.ask("hello", "--name", "talk")
    done = shared.run("chat", "--name", "talk", input="hello\n")
    assert done.returncode == 2
    assert f"taken by session {id}" in done.stderr
    renamed = shared.run("chat", input="/name talk\n/name other\n")
    assert f"taken by session {id}" in renamed.stderr
    assert "'other'" in renamed.stdout


def test_a_session_deleted_under_a_chat_is_told_with_the_way_on(hermes: Hermes) -> None:
    command = [sys.executable, "-m", "hermes_agent", "chat"]
    with subprocess.Popen(
        command, cwd=hermes.work, env=hermes.environ, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as chat:  # fmt: skip
        assert chat.stdin is not None
        chat.stdin.write("hello\n")
        chat.stdin.flush()
        assert chat.stdout is not None
        assert "Good day" in chat.stdout.readline()
        (session,) = hermes.json("sessions")
        wait_until(lambda: hermes.json("sessions")[0]["state"] == "idle", "the end of the turn")
        hermes.good("sessions", "delete", session["id"], "--yes")
        _, told = chat.communicate("again\n/cost\n", timeout=PATIENCE)
    assert chat.returncode == 1
    assert told.count("was deleted\nhint: /new") == 2
    assert "goes on" not in told


def test_bytes_that_are_no_text_do_not_end_the_chat(shared: Hermes) -> None:
    command = [sys.executable, "-m", "hermes_agent", "chat"]
    done = subprocess.run(
        command, cwd=shared.work, env=shared.environ, input=b"caf\xe9\n", capture_output=True
    )
    assert done.returncode == 0, done.stderr
