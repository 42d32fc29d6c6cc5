"""Turns as a model is shown them: numbered, shortened, and referred to by line."""

from hermes_agent.core import events as ev
from hermes_agent.core.messages import ToolCall
from hermes_agent.learning.review.transcript import ReviewTranscript, cut, evidence, shown
from tests.support.journal_events import call, recorded, turn


def one_turn(session: str = "s1", **more: object) -> ReviewTranscript:
    return ReviewTranscript(
        session, 1, turn("look", call("terminal", "ok"), session=session), **more
    )


def test_lines_are_numbered_over_all_transcripts() -> None:
    seen = shown([one_turn("s1"), one_turn("s2", title="disk full")])
    assert [line.number for line in seen.lines] == list(range(1, len(seen.lines) + 1))
    assert {line.session for line in seen.lines} == {"s1", "s2"}
    assert '<transcript from="session s2: disk full">' in seen.text


def test_each_line_knows_its_event_and_turn() -> None:
    events = recorded(
        ev.TurnStarted(7), ev.MessageTaken("a", "first"), ev.TurnStarted(9),
        ev.MessageTaken("b", "second"),
    )  # fmt: skip
    lines = shown([ReviewTranscript("s1", 9, events)]).lines
    assert [(line.event, line.turn, line.text) for line in lines] == [
        (2, 7, "user: first"),
        (4, 9, "user: second"),
    ]


def test_what_was_done_and_how_it_ended_is_told() -> None:
    inner = ev.CallMade("e.1", "e", ToolCall.of("i", "read_file", path="/a"))
    events = turn(
        "look", call("terminal", "no", ok=False, command="ls"), inner,
        ev.QuestionAnswered("q", "yes, do it"), answer="", reason="failed", error="stuck",
    )  # fmt: skip
    assert [line.text for line in shown([ReviewTranscript("s1", 1, events)]).lines] == [
        "user: look",
        'call: terminal {"command":"ls"}',
        "failed: terminal: no",
        'call: read_file {"path":"/a"}',
        "user: yes, do it",
        "end: failed after 0 steps: stuck",
    ]


def test_a_long_session_loses_its_middle() -> None:
    steps = [call("terminal", f"result {n} " + "x" * 300) for n in range(100)]
    events = turn("the wish at the beginning", *steps, answer="the answer at the end")
    seen = shown([ReviewTranscript("s1", 1, events)], 6_000)
    assert len(seen.text) < 6_500
    assert "the wish at the beginning" in seen.text
    assert "the answer at the end" in seen.text
    numbers = [line.event for line in seen.lines]
    assert numbers == sorted(numbers)


def test_a_long_text_loses_its_middle() -> None:
    text = cut("begin " + "x" * 1_000 + " end", 100)
    assert len(text) <= 110
    assert text.startswith("begin")
    assert text.endswith("end")


def test_lines_that_do_not_exist_show_nothing() -> None:
    seen = shown([one_turn()])
    assert seen.lines_of([]) == ()
    assert seen.lines_of([1, 99]) == ()
    assert [line.number for line in seen.lines_of([2, 1, 2])] == [1, 2]


def test_evidence_is_told_by_session_and_event() -> None:
    seen = shown([one_turn("s1"), one_turn("s2")])
    assert evidence(seen.lines[:1]) == "session s1 event 2"
    chosen = (seen.lines[2], seen.lines[0], seen.lines[-1])
    assert evidence(chosen) == "session s1 events 2, 4; session s2 event 5"
