"""`hermes chat` with its input from a pipe: a line is a turn."""

from tests.support.cli import House


def test_each_line_is_a_turn_of_one_session(house: House) -> None:
    done = house.run("chat", "--name", "talk", input="hello\n\nplease write a file\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("Good day") < done.stdout.index("The file is **written**.")
    (session,) = house.json("sessions")
    assert (session["name"], session["turns"]) == ("talk", 2)
    assert session["id"] in done.stderr


def test_a_chat_goes_on_with_a_session_by_name_or_with_the_newest(house: House) -> None:
    house.ask("hello", "--name", "talk")
    house.good("chat", "--session", "talk", input="hello again\n")
    house.good("chat", "--continue", input="and again\n")
    house.good("sessions", "resume", "talk", input="once more\n")
    assert house.json("sessions", "show", "talk")["turns"] == 4


def test_a_backslash_goes_on_in_the_next_line(house: House) -> None:
    house.good("chat", "--name", "talk", input="one\\\ntwo\n")
    (said, _) = house.json("sessions", "show", "talk")["messages"]
    assert said["text"] == "one\ntwo"


def test_slash_commands_work_in_a_pipe(house: House) -> None:
    lines = ["hello", "/name trip", "/cost", "/status", "/search hello", "/parked", "/approvals"]
    shown = house.good("chat", input="\n".join([*lines, "/sessions", "/help", "/export", ""]))
    for words in ("'trip'", "tokens in", "running", "«hello»", "nothing is parked",
                  "no open questions", "/resume ID", "wrote "):  # fmt: skip
        assert words in shown
    (page,) = house.work.glob("hermes-*.md")
    assert page.read_text().startswith("# trip\n")


def test_new_opens_another_session_and_resume_goes_back(house: House) -> None:
    house.good(
        "chat", "--name", "first", input="hello\n/new\nhello\n/resume first\nhello\n/quit\nno\n"
    )
    turns = {row["name"]: row["turns"] for row in house.json("sessions")}
    assert turns == {"first": 2, "": 1}


def test_an_unknown_slash_command_names_the_nearest(house: House) -> None:
    done = house.run("chat", input="/serch x\n/name\n/parked nonsense\n/export\n/resume\n")
    assert done.returncode == 1
    assert "no command called /serch" in done.stderr
    assert "did you mean /search?" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_consent_is_refused_where_nobody_can_answer(house: House) -> None:
    done = house.run("chat", "--policy", "careful", input="write a file\n")
    assert "refused" in done.stderr
    assert not (house.work / "made.txt").exists()


def test_a_failed_turn_shows_in_the_exit_code_and_the_next_goes_on(house: House) -> None:
    house.script.write_text("turns: [{when: nope, replies: []}, {replies: [{say: Yes.}]}]")
    done = house.run("chat", input="nope\n/new\nfine\n")
    assert done.returncode == 1
    assert "only 0 replies" in done.stderr
    assert "Yes." in done.stdout
