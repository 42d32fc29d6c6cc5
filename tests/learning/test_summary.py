"""Summaries of sessions."""

from hermes_agent.core import events as ev
from hermes_agent.learning.review.summary import SUMMARY_CHARS, shortened, summarise
from tests.support.journal_events import call, recorded, turn
from tests.support.learning_parts import Scripted

EVENTS = turn("why is web-3 slow?", call("terminal", "load 40"), answer="A backup runs.")


async def test_a_session_is_summarised_up_to_its_last_event() -> None:
    ask = Scripted(["web-3 was slow: a backup ran."])
    summary = await summarise(ask, EVENTS)
    assert summary is not None
    assert summary.text == "web-3 was slow: a backup ran."
    assert (summary.upto, summary.model) == (EVENTS[-1].number, "scripted/review")
    assert "why is web-3 slow?" in ask.asked[0][2]


async def test_an_earlier_summary_is_carried_on() -> None:
    ask = Scripted(["both"])
    await summarise(ask, EVENTS, before="the disk of web-3 was full")
    prompt = ask.asked[0][2]
    assert "the disk of web-3 was full" in prompt
    assert prompt.index("the disk of web-3") < prompt.index("why is web-3 slow?")


async def test_nothing_said_needs_no_summary() -> None:
    ask = Scripted([])
    assert await summarise(ask, []) is None
    assert await summarise(ask, recorded(ev.SessionTitled("a title"))) is None
    assert ask.asked == []


async def test_an_empty_answer_keeps_what_there_was() -> None:
    kept = await summarise(Scripted([" "]), EVENTS, before="the disk was full")
    assert kept is not None
    assert kept.text == "the disk was full"
    assert await summarise(Scripted([" "]), EVENTS) is None


def test_a_long_summary_ends_with_a_whole_sentence() -> None:
    assert shortened("short") == "short"
    long = "One thing was found out here. " * 60
    assert len(shortened(long)) <= SUMMARY_CHARS
    assert shortened(long).endswith("here.")
    assert len(shortened("x" * 5_000)) == SUMMARY_CHARS
