"""`hermes approvals` and `hermes parked`: what waits for a person, and the person's word."""

from typing import Any

from hermes_agent.cli.output.consent import question_lines
from tests.support.cli import Hermes, wait_until


def last_event(hermes: Hermes, session: str) -> dict[str, Any]:
    return hermes.api.get(f"/v1/sessions/{session}/journal")[-1]["event"]


def the_end(hermes: Hermes, session: str) -> dict[str, Any]:
    return wait_until(
        lambda: (end := last_event(hermes, session))["kind"] == "turn_finished" and end, "the end"
    )


def question(hermes: Hermes) -> dict[str, Any]:
    (one,) = wait_until(lambda: hermes.api.get("/v1/questions"), "a question")
    return one


def test_an_effect_that_is_allowed_runs(hermes: Hermes) -> None:
    session = hermes.send("write a file", policy="careful", interactive=True)
    asked = question(hermes)
    assert hermes.json("approvals") == [asked]
    assert asked["id"] in hermes.good("approvals")
    told = hermes.json("approvals", "answer", asked["id"][:-2], "y")
    assert told == {"id": asked["id"], "answer": "yes"}
    assert the_end(hermes, session)["text"] == "The file is **written**."
    assert (hermes.work / "made.txt").read_text() == "written\n"
    assert hermes.json("approvals") == []


def test_an_effect_that_is_refused_does_not_run(hermes: Hermes) -> None:
    session = hermes.send("write a file", policy="careful", interactive=True)
    hermes.good("approvals", "answer", question(hermes)["id"], "no")
    the_end(hermes, session)
    assert not (hermes.work / "made.txt").exists()


def test_an_answer_that_is_none_is_named(hermes: Hermes) -> None:
    hermes.send("write a file", policy="careful", interactive=True)
    done = hermes.run("approvals", "answer", question(hermes)["id"], "perhaps")
    assert done.returncode == 2
    assert "perhaps" in done.stderr
    assert len(hermes.json("approvals")) == 1


def test_a_question_of_the_model_takes_words(hermes: Hermes) -> None:
    session = hermes.send("which colour", interactive=True)
    hermes.good("approvals", "answer", question(hermes)["id"], "deep", "green")
    the_end(hermes, session)
    shown = hermes.json("sessions", "show", session)["messages"]
    assert "deep green" in shown[1]["text"]


def park(hermes: Hermes) -> tuple[str, dict[str, Any]]:
    """A command whose shell and runtime are both killed under it."""
    session = hermes.send("work long", policy="sandbox")
    hermes.wait_for_command(session)
    hermes.kill_runtime()
    hermes.end_shells()
    (row,) = wait_until(lambda: hermes.json("parked"), "a parked effect")
    assert row["session"] == session
    return session, row


def test_a_parked_effect_is_listed_with_what_it_was(hermes: Hermes) -> None:
    _, row = park(hermes)
    assert {"effect", "session", "tool", "input", "reason", "since"} <= row.keys()
    shown = hermes.good("parked")
    assert row["effect"] in shown
    assert "sleep 300" in shown
    assert hermes.json("status")["parked"] == 1
    doctor = hermes.good("doctor")
    assert "1 effects with an unknown outcome" in doctor


def test_a_parked_effect_that_happened_is_not_run_again(hermes: Hermes) -> None:
    session, row = park(hermes)
    told = hermes.json("parked", "it-happened", row["effect"])
    assert told == {"effect": row["effect"], "decision": "it-happened"}
    assert the_end(hermes, session)["text"] == "The long work is over."
    assert hermes.json("parked") == []


def test_a_parked_effect_is_skipped_by_the_beginning_of_its_id(hermes: Hermes) -> None:
    session, row = park(hermes)
    hermes.good("down")
    hermes.good("parked", "skip", row["effect"][:6])
    assert the_end(hermes, session)["reason"] == "done"


def test_an_unknown_effect_or_question_is_one_line(lived_in: Hermes) -> None:
    for words in (["parked", "retry", "nowhere"], ["approvals", "answer", "nowhere", "yes"]):
        done = lived_in.run(*words)
        assert done.returncode == 1
        assert "'nowhere'" in done.stderr.splitlines()[0]
        assert done.stderr.splitlines()[1].startswith("hint: ")


FORGED = "echo a\\x1b[2K\\r; echo b\\n? Delete nothing\\n  allow? [y/N] y " + "x" * 200 + " >end"


def test_a_question_is_shown_whole_and_cannot_pass_for_another(hermes: Hermes) -> None:
    hermes.script.write_text(
        'turns: [{replies: [{calls: [{tool: terminal, with: {command: "' + FORGED + '"}}]}]}]'
    )
    hermes.send("go", policy="careful", interactive=True)
    question(hermes)
    shown = hermes.good("approvals")
    assert "\x1b" not in shown
    assert "\\x1b[2K\\r" in shown
    assert "x" * 200 + " >end" in shown
    asks = [line for line in shown.splitlines() if line.lstrip().startswith("?")]
    assert [line.index("?") for line in asks] == [2]


def test_lists_carry_no_control_characters(hermes: Hermes) -> None:
    hermes.ask("zebra \x1b[31m\x9b2J stripes")
    for words in (("sessions",), ("sessions", "search", "zebra")):
        shown = hermes.good(*words)
        assert "zebra" in shown
        assert not set("\x1b\x9b") & set(shown)
    (session,) = hermes.json("sessions")
    assert "\x1b" not in hermes.good("sessions", "show", session["id"])


def test_choices_and_directions_of_writing_are_written_out() -> None:
    asked = {"purpose": "question", "text": "a\u202eb", "choices": ["c\nd"]}
    assert question_lines(asked) == ["? a\\u202eb", "  1. c\\nd"]
