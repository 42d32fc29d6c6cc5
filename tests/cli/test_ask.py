"""`hermes ask` at a terminal: the answer is streamed, consent is asked for, Ctrl-C stops it."""

import sys

from tests.support.cli import House, Pane, wait_until


def open_ask(house: House, *words: str) -> Pane:
    return Pane(house.work, [sys.executable, "-m", "hermes_agent", "ask", *words], house.environ)


def test_control_c_stops_the_turn_and_keeps_what_was_done(house: House) -> None:
    pane = open_ask(house, "work long", "--name", "talk")
    try:
        pane.shows("$ echo begun")
        wait_until(lambda: house.api.is_up() and house.api.get("/v1/sessions"), "the session")
        house.wait_for_command(house.api.get("/v1/sessions/talk")["id"])
        pane.press("C-c")
        shown = pane.shows("keeps what was done")
        wait_until(pane.has_ended, "the command to end")
    finally:
        pane.close()
    assert "broke" not in shown
    assert house.json("sessions", "show", "talk")["state"] == "idle"


def test_consent_is_asked_for_at_a_terminal(house: House) -> None:
    pane = open_ask(house, "write a file", "--policy", "careful")
    try:
        pane.shows("allow? [y/N]")
        pane.enter("y")
        pane.shows("The file is **written**.")
    finally:
        pane.close()
    assert (house.work / "made.txt").read_text() == "written\n"


def test_an_answer_stands_alone_on_standard_output(house: House) -> None:
    done = house.run("ask", "write a file")
    assert done.stdout == "The file is **written**.\n"
    assert "→ $ echo written" in done.stderr
