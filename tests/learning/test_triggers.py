"""Which turns are worth looking back on, and how a turn went."""

import asyncio
from pathlib import Path

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.core.skills import ActivatedSkill, Runbook, RunStep
from hermes_agent.learning.review.triggers import outcome, outcome_after, worth
from hermes_agent.models.scripted import ScriptedModel
from tests.support.journal_events import call, recorded, turn
from tests.support.turns import bench

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


ENDS: list[ev.TurnEnd] = ["failed", "interrupted", "budget"]


@pytest.mark.parametrize("reason", ENDS)
def test_a_turn_that_something_else_ended_says_nothing_of_what_was_done(
    reason: ev.TurnEnd,
) -> None:
    how, why = outcome(turn("do it", WORKED, reason=reason, error="the service is overloaded"))
    assert how == "unknown"
    assert reason in why
    assert "overloaded" in why
    assert outcome(turn("do it", reason=reason))[0] == "unknown"


@pytest.mark.parametrize("reason", ENDS)
def test_a_turn_that_was_ended_after_a_failure_is_bad(reason: ev.TurnEnd) -> None:
    how, why = outcome(turn("do it", WORKED, FAILED, reason=reason))
    assert how == "bad"
    assert "no such unit" in why


def test_a_model_that_makes_the_same_call_in_vain_went_wrong() -> None:
    look = call("recall", "the index is damaged", ok=False, query="disk")
    assert outcome(turn("do it", WORKED, look, look, look, reason="failed"))[0] == "bad"
    assert outcome(turn("do it", WORKED, look, look, look, reason="budget"))[0] == "unknown"
    other = call("recall", "the index is damaged", ok=False, query="full disk")
    assert outcome(turn("do it", WORKED, look, other, look, reason="failed"))[0] == "unknown"


async def test_a_call_that_was_interrupted_has_not_failed(tmp_path: Path) -> None:
    sleeping = ToolCall.of("c1", "terminal", command="echo begun; sleep 60")
    async with bench(tmp_path, ScriptedModel(Reply("", (sleeping,)))) as b:
        worker = await b.worker_for("wait for it")
        end = asyncio.create_task(worker.run())
        while not any(isinstance(one.event, ev.OutputArrived) for one in b.published):
            await asyncio.sleep(0.01)
        await worker.interrupt()
        await end
        events = await b.store.events(b.session.id)
    (done,) = [one.event for one in events if isinstance(one.event, ev.CallFinished)]
    assert not done.ok
    assert outcome(events) == ("unknown", "it ended as interrupted")


def test_a_turn_whose_last_call_failed_is_bad() -> None:
    assert outcome(turn("do it", WORKED, FAILED))[0] == "bad"


def test_a_turn_whose_last_call_worked_is_good() -> None:
    assert outcome(turn("do it", FAILED, WORKED))[0] == "good"


def run(said: str, *calls: list[ev.Event], model: str = "runbook/web") -> list[ev.Recorded]:
    """A turn of a runbook; `model` is who had the last word."""
    opened = ActivatedSkill("web", "d", runbook=Runbook((RunStep("true"),)))
    return recorded(
        ev.TurnStarted(1),
        ev.MessageTaken("m1", "run it", skills=(opened,)),
        *(event for one in calls for event in one),
        ev.Replied(2, said, model=model),
        ev.TurnFinished(1, "done", said),
    )


@pytest.mark.parametrize(
    ("said", "went"),
    [
        ("done: web\n1. true: exit 0", "good"),
        ("nothing to do: all is as it should be", "good"),
        ("this runbook is not for this case: ran `true`, saw exit 1", "unknown"),
        ("stopped: step 2 differs", "bad"),
    ],
)
def test_a_runbook_says_itself_how_it_went(said: str, went: str) -> None:
    assert outcome(run(said, FAILED))[0] == went
    assert outcome(run(said))[0] == went


def test_a_runbook_that_woke_the_model_is_judged_by_what_was_done_then() -> None:
    assert outcome(run("stopped: no, it runs again", WORKED, model="m"))[0] == "good"
    assert outcome(run("done: all of it", FAILED, model="m"))[0] == "bad"


def test_a_runbook_that_needed_no_model_needs_no_review() -> None:
    assert kinds(run("done: web", FAILED, WORKED, WORKED, WORKED)) == []
    assert kinds(run("It runs.", FAILED, WORKED, WORKED, model="m")) == ["calls", "recovered"]


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
