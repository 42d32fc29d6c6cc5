"""Which turns are worth looking back on, and how a turn went."""

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.settings import LearningSettings
from hermes_agent.learning.triggers import outcome, outcome_after, worth
from tests.support.told import call, turn

SETTINGS = LearningSettings(calls=3)
WORKED = call("terminal", "ok", command="ls")
FAILED = call("terminal", "[stderr]\nno such unit\n[exit code 5]", ok=False, data={"code": 5})


def kinds(events: list[ev.Recorded]) -> list[str]:
    return [trigger.kind for trigger in worth(events, SETTINGS)]


def test_an_ordinary_turn_is_not_worth_a_review() -> None:
    assert kinds(turn("list the files", WORKED)) == []
    assert kinds(turn("hello")) == []


def test_a_turn_with_many_calls_is_worth_a_review() -> None:
    assert kinds(turn("do it", WORKED, WORKED, WORKED)) == ["calls"]


def test_calls_that_only_serve_the_talk_do_not_count() -> None:
    todo = call("todo", "ok")
    assert kinds(turn("do it", WORKED, todo, todo, todo, WORKED)) == []


def test_an_error_that_was_put_right_is_worth_a_review() -> None:
    events = turn("restart it", FAILED, WORKED)
    (trigger,) = worth(events, SETTINGS)
    assert trigger.kind == "recovered"
    assert "no such unit" in trigger.why
    assert trigger.numbers == (4, 6)


def test_an_error_put_right_by_another_tool_counts_when_the_turn_came_right() -> None:
    assert kinds(turn("restart it", FAILED, call("patch", "ok"))) == ["recovered"]


def test_an_error_at_the_end_was_not_put_right() -> None:
    assert kinds(turn("restart it", WORKED, FAILED)) == []


def test_a_search_that_found_nothing_is_no_error() -> None:
    nothing = call("terminal", "[exit code 1]", ok=False, data={"code": 1})
    assert kinds(turn("look for it", nothing, WORKED)) == []
    assert outcome(turn("look for it", WORKED, nothing))[0] == "good"


def test_a_correction_of_the_turn_before_is_worth_a_review() -> None:
    (trigger,) = worth(turn("No, the other host. Then check the disk.", WORKED), SETTINGS)
    assert (trigger.kind, trigger.numbers) == ("correction", (2,))


def test_a_message_that_comes_while_it_works_is_a_correction() -> None:
    steer = ev.MessageTaken("m2", "look at web-3 too")
    assert kinds(turn("check the disk", WORKED, steer, WORKED)) == ["correction"]


def test_thanks_that_come_while_it_works_are_none() -> None:
    thanks = ev.MessageTaken("m2", "thanks!")
    assert kinds(turn("check the disk", WORKED, thanks, WORKED)) == []


def test_a_wish_to_remember_is_worth_a_review() -> None:
    assert kinds(turn("Remember that I use zsh")) == ["remember"]


@pytest.mark.parametrize("reason", ["failed", "interrupted", "budget"])
def test_a_turn_that_did_not_end_well_is_bad(reason: ev.TurnEnd) -> None:
    how, why = outcome(turn("do it", WORKED, reason=reason, error="the model is stuck"))
    assert how == "bad"
    assert reason in why
    assert "stuck" in why


def test_a_turn_whose_last_call_failed_is_bad() -> None:
    assert outcome(turn("do it", WORKED, FAILED))[0] == "bad"


def test_a_turn_whose_last_call_worked_is_good() -> None:
    assert outcome(turn("do it", FAILED, WORKED))[0] == "good"


def test_a_runbook_that_was_stopped_is_bad() -> None:
    assert outcome(turn("run it", WORKED, answer="stopped: step 2 differs"))[0] == "bad"


def test_a_turn_without_anything_to_judge_by_is_unknown() -> None:
    assert outcome(turn("hello"))[0] == "unknown"
    assert outcome(turn("do it", WORKED, answer="I could not reach the host."))[0] == "unknown"
    assert outcome(turn("do it", WORKED)[:-1])[0] == "unknown"


def test_the_next_message_judges_the_turn_before() -> None:
    worse = outcome_after("That's wrong, undo it")
    better = outcome_after("Thanks, that works")
    assert worse is not None
    assert worse[0] == "bad"
    assert better is not None
    assert better[0] == "good"
    assert outcome_after("now do the same on web-4") is None
