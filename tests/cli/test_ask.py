"""`hermes ask` at a terminal: the answer is streamed, consent is asked for, Ctrl-C stops it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from hermes_agent.cli.client.follower import restarting
from tests.support.cli import PATIENCE, Hermes, Pane, wait_until

pytestmark = pytest.mark.sample_file(12)


def open_ask(hermes: Hermes, *words: str) -> Pane:
    return Pane(hermes.work, [sys.executable, "-m", "hermes_agent", "ask", *words], hermes.environ)


def start_ask(hermes: Hermes, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hermes_agent", "ask", *words],
        cwd=hermes.work,
        env=hermes.environ,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def holds_socket(pid: int) -> bool:
    files = Path(f"/proc/{pid}/fd").iterdir()
    try:
        return any(str(file.readlink()).startswith("socket:") for file in files)
    except FileNotFoundError:  # one was just closed
        return False


def test_control_c_stops_the_turn_and_keeps_what_was_done(shared: Hermes) -> None:
    pane = open_ask(shared, "work long", "--name", "talk")
    try:
        pane.shows("$ echo begun")
        wait_until(lambda: shared.api.is_up() and shared.sessions(), "the session")
        shared.wait_for_command(shared.api.get("/v1/sessions/talk")["id"])
        pane.press("C-c")
        shown = pane.shows("work so far is saved")
        wait_until(pane.has_ended, "the command to end")
    finally:
        pane.close()
    assert "broke" not in shown
    assert shared.json("sessions", "show", "talk")["state"] == "idle"


def test_an_answer_stands_alone_on_standard_output(shared: Hermes) -> None:
    done = shared.run("ask", "write a file")
    assert done.stdout == "The file is **written**.\n"
    assert "→ $ echo written" in done.stderr


def test_a_question_that_is_answered_elsewhere_is_dropped(shared: Hermes) -> None:
    pane = open_ask(shared, "write a file", "--policy", "careful")
    try:
        pane.shows("allow? [y/N/s")
        (asked,) = shared.api.get("/v1/questions")
        pane.type("n")
        shared.good("approvals", "answer", asked["id"], "yes")
        pane.shows("answered elsewhere: yes")
        pane.shows("The file is **written**.")
    finally:
        pane.close()
    assert (shared.work / "made.txt").read_text() == "written\n"


def test_an_answer_outlives_the_runtime_that_asked(hermes: Hermes) -> None:
    pane = open_ask(hermes, "write a file", "--policy", "careful")
    try:
        pane.shows("allow? [y/N/s")
        hermes.kill_runtime()
        pane.enter("y")
        pane.shows("The file is **written**.")
    finally:
        pane.close()
    assert (hermes.work / "made.txt").read_text() == "written\n"


@pytest.mark.parametrize("where", [(), ("--no-runtime",)])
def test_a_question_that_nobody_answers_is_dropped_in_time(
    hermes: Hermes, where: tuple[str, ...]
) -> None:
    hermes.good("config", "set", "approvals.timeout_seconds", "1")
    pane = open_ask(hermes, "write a file", "--policy", "careful", *where)
    try:
        pane.shows("allow? [y/N/s")
        pane.shows("nobody answered in time")
        pane.shows("The file is **written**.")  # the script does not know better
        wait_until(pane.has_ended, "the command to end")
    finally:
        pane.close()
    assert not (hermes.work / "made.txt").exists()


def test_consent_is_asked_for_without_a_runtime_too(hermes: Hermes) -> None:
    pane = open_ask(hermes, "write a file", "--policy", "careful", "--no-runtime")
    try:
        pane.shows("allow? [y/N/s")
        pane.enter("y")
        pane.shows("The file is **written**.")
    finally:
        pane.close()
    assert (hermes.work / "made.txt").read_text() == "written\n"


def test_control_c_stops_the_turn_without_a_runtime_too(hermes: Hermes) -> None:
    pane = open_ask(hermes, "work long", "--no-runtime")
    try:
        pane.shows("$ echo begun")
        pane.press("C-c")
        pane.shows("work so far is saved")
        wait_until(pane.has_ended, "the command to end")
    finally:
        pane.close()
    assert hermes.json("sessions")[0]["state"] == "idle"


def test_control_c_while_the_message_is_on_its_way_stops_its_turn(hermes: Hermes) -> None:
    hermes.good("up")
    runtime = int(hermes.api.get("/v1/status")["pid"])
    os.kill(runtime, signal.SIGSTOP)
    asking = start_ask(hermes, "work long")
    try:
        wait_until(lambda: holds_socket(asking.pid), "the message to be on its way")
        asking.send_signal(signal.SIGINT)
    finally:
        os.kill(runtime, signal.SIGCONT)
    _, told = asking.communicate(timeout=PATIENCE)
    assert "work so far is saved in session " in told
    (session,) = hermes.json("sessions")
    assert session["id"] in told
    assert session["state"] == "idle"


def test_a_message_to_a_session_at_work_is_said_to_be_queued(shared: Hermes) -> None:
    session = shared.send("work long")
    shared.wait_for_command(session)
    asking = start_ask(shared, "hello", "--session", session)
    assert asking.stderr is not None
    assert "your message is queued" in asking.stderr.readline()
    shared.good("interrupt", session)
    asking.communicate(timeout=PATIENCE)
    assert shared.json("sessions", "show", session)["turns"] == 2


def test_a_runtime_that_is_stopped_is_left_so_by_an_open_ask(hermes: Hermes) -> None:
    asking = start_ask(hermes, "work long", "--name", "talk")
    wait_until(lambda: hermes.api.is_up() and hermes.api.get("/v1/sessions"), "the session")
    session = hermes.api.get("/v1/sessions/talk")["id"]
    hermes.wait_for_command(session)
    hermes.good("down")
    _, told = asking.communicate(timeout=PATIENCE)
    assert asking.returncode == 1
    assert "the runtime was stopped; the turn continues" in told
    assert "hermes up" in told
    assert session in told
    assert hermes.json("status")["state"] == "stopped"


def test_a_failed_turn_has_no_answer_and_is_told_once(hermes: Hermes) -> None:
    hermes.script.write_text(
        "turns: [{replies: [{say: Half of it., calls: "
        "[{tool: terminal, with: {command: 'true'}}]}]}]"
    )
    for more in (("--no-runtime",), (), ("--quiet",)):
        done = hermes.run("ask", "go", *more)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.count("is used up") == 1


def test_a_budget_that_is_used_up_names_its_setting(hermes: Hermes) -> None:
    hermes.good("config", "set", "loop.max_steps", "1")
    done = hermes.run("ask", "write a file")
    assert done.returncode == 1
    assert "hermes config set loop.max_steps" in done.stderr


def test_a_script_is_found_from_where_the_command_is_given(shared: Hermes) -> None:
    (shared.work / "mine.yaml").write_text("turns: [{replies: [{say: Mine.}]}]")
    assert shared.good("ask", "hi", "--model", "scripted/./mine.yaml") == "Mine.\n"
    assert shared.good("ask", "hi", HERMES_MODEL="scripted/mine.yaml") == "Mine.\n"


def test_a_restart_that_takes_long_is_waited_for(hermes: Hermes) -> None:
    asking = start_ask(hermes, "work a little", "--name", "talk")
    wait_until(lambda: hermes.api.is_up() and hermes.api.get("/v1/sessions"), "the session")
    hermes.wait_for_command(hermes.api.get("/v1/sessions/talk")["id"])
    with restarting(str(hermes.home)):
        hermes.good("down")
        with pytest.raises(subprocess.TimeoutExpired):
            asking.wait(5)  # longer than for one that was only stopped
        hermes.good("up")
    said, told = asking.communicate(timeout=PATIENCE)
    assert said.strip() == "A little work was done.", told
    assert (hermes.work / "little.txt").read_text() == "once\n"


@pytest.mark.parametrize("where", [(), ("--no-runtime",)])
def test_whoever_asked_is_told_that_the_turn_crashed(hermes: Hermes, where: tuple[str]) -> None:
    session = hermes.json("ask", "hello")["session"]
    hermes.good("down")
    db = apsw.Connection(str(hermes.home / "state.db"))
    ((row, body),) = db.execute("select id, body from events where kind = 'replied'").fetchall()
    db.execute('update events set body = \'{"kind": "nonsense"}\' where id = ?', (row,))
    for _ in range(2):  # and again, as long as it crashes
        done = hermes.run("ask", "more", "--session", session, *where)
        assert done.returncode == 1
        assert session in done.stderr
    assert hermes.good("ask", "hello", *where)  # the others go on
    hermes.run("down")  # nobody else writes now
    db.execute("update events set body = ? where id = ?", (body, row))
    db.close()
