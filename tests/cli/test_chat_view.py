"""What the chat prints of a conversation, and what it keeps in motion."""

import io
import re
from typing import Any

from hermes_agent.cli.output.events import Printer, call_line, typed_answer
from hermes_agent.cli.output.session_history import context_text
from hermes_agent.cli.talk.chat.rendering import render
from hermes_agent.cli.talk.chat.view import Blocks, ChatView, ViewPiece, recap
from hermes_agent.core.text.format import span


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def view(*own: str) -> tuple[ChatView, Time]:
    clock = Time()
    return ChatView(lambda key: key in own, clock), clock


def arrive(shown: ChatView, text: str) -> list[str]:
    return [piece.text for piece in shown.apply({"kind": "text_arrived", "text": text})]


def replied(text: str, *calls: dict[str, str]) -> dict[str, Any]:
    return {"kind": "replied", "text": text, "calls": list(calls)}


def finished(reason: str = "done", **more: Any) -> dict[str, Any]:
    event = {"kind": "turn_finished", "reason": reason, "cost": None, "error": "", "hint": ""}
    return {**event, **more}


def test_paragraphs_are_finished_by_an_empty_line() -> None:
    blocks = Blocks()
    assert blocks.feed("one\ntw") == []
    assert blocks.feed("o\n\nthree") == ["one\ntwo\n\n"]
    assert blocks.rest == "three"
    assert blocks.end("one\ntwo\n\nthree") == "three"


def test_a_block_of_code_is_one_paragraph_whatever_is_in_it() -> None:
    blocks = Blocks()
    code = "```python\na\n\n~~~\nb\n```\n"
    assert blocks.feed(code[:12]) == []
    assert blocks.feed(code[12:] + "after") == [code]


def test_a_reply_is_printed_once_however_it_arrives() -> None:
    whole = "# Head\n\nSome *text*\nhere.\n\n```\nx = 1\n\ny = 2\n```\nThe end."
    for size in (1, 2, 7, 100):
        shown, _ = view()
        printed = []
        for start in range(0, len(whole), size):
            printed += arrive(shown, whole[start : start + size])
        printed += [piece.text for piece in shown.apply(replied(whole))]
        assert "".join(printed) == whole


def test_a_reply_whose_beginning_was_missed_is_printed_whole() -> None:
    shown, _ = view()
    assert [piece.text for piece in shown.apply(replied("all of it"))] == ["all of it"]


def test_a_reply_whose_end_alone_was_seen_is_printed_whole() -> None:
    shown, _ = view()
    assert arrive(shown, "two\n\nthree") == ["two\n\n"]
    (piece,) = shown.apply(replied("one\n\ntwo\n\nthree"))
    assert piece.text == "one\n\ntwo\n\nthree"


def test_a_plain_terminal_gets_the_whole_reply_however_late_it_listens() -> None:
    for arrived, printed in (("", "a b c"), ("a ", "a b c"), ("b c", "b c\na b c"), ("x", "x")):
        out = io.StringIO()
        printer = Printer(live=True, quiet=False, out=out)
        printer.show({"kind": "text_arrived", "text": arrived})
        printer.show(replied("a b c"))
        assert out.getvalue().rstrip("\n") == printed


def test_a_secret_that_was_taken_out_later_prints_nothing_twice() -> None:
    shown, _ = view()
    assert arrive(shown, "key sk-1\n\nmo") == ["key sk-1\n\n"]
    assert [piece.text for piece in shown.apply(replied("key [hidden]\n\nmore"))] == ["mo"]


def test_a_broken_reply_is_said_to_begin_anew() -> None:
    shown, _ = view()
    arrive(shown, "half\n\na")
    (piece,) = shown.apply({"kind": "text_voided", "reason": "cut"})
    assert "retrying" in piece.text
    assert shown.live() == []


def test_a_running_command_shows_its_last_lines_and_then_one_line() -> None:
    shown, clock = view()
    shown.apply(replied("", {"id": "1", "name": "terminal", "arguments": '{"command": "make"}'}))
    shown.apply({"kind": "call_intended", "effect": "e", "call_id": "1", "tool": "terminal"})
    text = "".join(f"line {n}\n" for n in range(20))
    shown.apply({"kind": "output_arrived", "effect": "e", "text": text})
    clock.now += 3
    assert shown.live() == ["→ $ make  3 s", *(f"  │ line {n}" for n in range(16, 20))]
    (piece,) = shown.apply(
        {"kind": "call_finished", "effect": "e", "call_id": "1", "tool": "terminal",
         "text": text, "ok": True, "seconds": 3.0}
    )  # fmt: skip
    assert piece == ViewPiece("ok", "✓ $ make  3.0 s · 20 lines  [1]")
    assert shown.live() == []


def test_a_message_to_a_busy_agent_is_shown_as_queued_until_it_is_taken() -> None:
    shown, _ = view("mine")
    queued = {"kind": "message_queued", "key": "mine", "text": "also this"}
    shown.apply(queued)
    assert shown.live() == []
    shown.apply({"kind": "turn_started", "turn": 1})
    shown.apply(queued)
    assert shown.live() == ["queued: also this"]
    assert shown.apply({"kind": "message_taken", "key": "mine", "text": "also this"}) == []
    assert shown.live() == []


def test_a_message_from_elsewhere_is_printed() -> None:
    shown, _ = view("mine")
    taken = {"kind": "message_taken", "key": "theirs", "text": "hello"}
    assert shown.apply(taken) == [ViewPiece("user", "hello")]


def test_the_state_says_what_is_going_on() -> None:
    shown, clock = view()
    assert shown.state == "idle"
    shown.sending()
    clock.now += 12
    assert shown.state == "working 12 s"
    asked = {
        "kind": "question_asked",
        "id": "q",
        "purpose": "approval",
        "text": "rm x",
        "choices": [],
    }
    shown.apply(asked)
    assert shown.state == "waiting for your answer"
    shown.apply({"kind": "question_answered", "id": "q", "answer": "no"})
    shown.apply({"kind": "gone", "stopped": False})
    assert shown.state == "the runtime has stopped"
    shown.apply({"kind": "reconnected"})
    shown.apply(finished(cost=0.5))
    assert (shown.state, shown.cost) == ("idle", 0.5)


def test_consent_needs_a_y_and_nothing_else_will_do() -> None:
    approval = {"purpose": "approval", "choices": ["yes", "no"]}
    assert [typed_answer(approval, typed) for typed in ("y", "YES", "", "n", "sure", "1")] == [
        "yes", "yes", "no", "no", None, None,
    ]  # fmt: skip


def test_a_question_takes_a_number_or_words_but_not_silence() -> None:
    question = {"purpose": "question", "choices": ["red", "blue"]}
    assert [typed_answer(question, typed) for typed in ("2", "3", "green", "")] == [
        "blue", "3", "green", None,
    ]  # fmt: skip


def test_what_a_model_prints_cannot_drive_the_terminal() -> None:
    shown, _ = view()
    (text,) = arrive(shown, "\x1b]0;title\x07\x1b[2Jhello\x9b\n\n")
    assert text == "]0;title[2Jhello\n\n"
    (piece,) = shown.apply({"kind": "notice_issued", "level": "info", "text": "a\x1b[31mb"})
    assert "\x1b" not in piece.text
    assert call_line({"name": "terminal", "arguments": '{"command": "a\u200bb"}'}) == r"$ a\u200bb"
    without = {"name": "use_tool", "arguments": '{"tool": "redis"}'}
    assert call_line(without) == "use_tool tool='redis'"


def test_marks_say_what_colours_say() -> None:
    shown = render(
        [ViewPiece("warning", "careful"), ViewPiece("user", "me"), ViewPiece("quiet", "✓ x")], 80
    )
    assert [words in shown for words in ("! careful", "> me", "✓ x")] == [True] * 3


def test_spans_are_told_in_their_two_largest_units() -> None:
    told = [span(seconds) for seconds in (0, 59.9, 61, 3600, 90_061)]
    assert told == ["0 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]


def test_a_recap_begins_with_what_the_user_said() -> None:
    end = {"kind": "call_finished", "tool": "x", "call_id": "1", "text": "", "ok": True,
           "seconds": 0.1, "inverse": ""}  # fmt: skip
    said = {"kind": "message_taken", "text": "two"}
    events = [{**said, "text": "one"}, replied("yes"), said, *[end] * 7, replied("done")]
    past = [{"number": at, "time": 0.0, "event": event} for at, event in enumerate(events, 1)]
    first, user, more, *_, last = [piece.text for piece in recap(past)]
    assert (first, user) == ("\n… 2 earlier messages", "two")
    assert (more, last) == ("… 2 more of this turn", "done")
    past.append({"number": 12, "time": 0.0, "event": {"kind": "rewound", "to": 3}})
    assert recap(past)[-1] == ViewPiece("quiet", "· rewound to before: two")


def test_advice_for_the_model_is_not_printed() -> None:
    side = io.StringIO()
    failed = {"kind": "call_finished", "tool": "terminal", "ok": False}
    Printer(live=True, quiet=False, side=side).show({**failed, "text": "refused\nretry: no"})
    assert side.getvalue() == "✗ terminal: refused\n"


def test_a_list_is_one_paragraph_until_other_text_comes() -> None:
    whole = "Text:\n- a\n\n- b\n\n  more\n\n  ```\n  x\n\n  y\n  ```\n\nEnd.\n\n1. one\n\n# Head\n"
    for size in (1, 3, 200):
        blocks, found = Blocks(), []
        for start in range(0, len(whole), size):
            found += blocks.feed(whole[start : start + size])
        assert found == [whole[: whole.index("End")], "End.\n\n", "1. one\n\n"]
        assert blocks.rest == "# Head\n"


def looked(shown: ChatView, number: int, tool: str = "read_file", ok: bool = True) -> list[str]:
    """A call, judged and finished; what is printed."""
    call, effect = {"id": str(number), "name": tool, "arguments": ""}, f"e{number}"
    shown.apply({"kind": "call_made", "call": call})
    shown.apply({"kind": "call_judged", "effect": effect, "tool": tool})
    end = {"effect": effect, "call_id": str(number), "tool": tool, "ok": ok, "seconds": 0.1}
    return [piece.text for piece in shown.apply({"kind": "call_finished", "text": "x", **end})]


def test_many_looks_are_one_line_and_everything_else_is_a_line_of_its_own() -> None:
    shown, _ = view()
    assert [looked(shown, number) for number in (1, 2, 3)] == [[], [], []]
    line = "✓ 3 read-only calls: read_file · read_file · read_file  0.3 s  [1-3]"
    assert [piece.text for piece in shown.unfinished()] == [line]
    assert looked(shown, 4, "write_file") == [line, "✓   write_file  0.1 s  [4]"]
    looked(shown, 5)
    failed = "✗   read_file  0.1 s  failed: x  [6]"
    assert looked(shown, 6, ok=False) == ["✓   read_file  0.1 s  [5]", failed]
    looked(shown, 7)
    ended = [piece.text for piece in shown.apply(finished())]
    assert ended == ["✓   read_file  0.1 s  [7]"]
    assert shown.unfinished() == []
    assert [text for _, text in shown.outputs()] == ["x"] * 7


def test_context_and_cost_are_known_during_a_turn_and_after_a_resume() -> None:
    asked = {"kind": "model_requested", "use": "main", "window": 1000}
    reply = {**replied("yes"), "usage": {"input": 90, "output": 10}, "cost": 0.5}
    shown, _ = view()
    shown.cost = 1.0
    shown.apply(asked)
    shown.apply(reply)
    assert (shown.context, shown.window, shown.spent, shown.cost) == (100, 1000, 1.5, 1.0)
    shown.apply(finished(cost=0.5))
    assert (shown.spent, shown.cost) == (1.5, 1.5)
    again, _ = view()
    again.resume([asked, reply, finished(cost=0.5)])
    assert (again.context, again.window, again.spent) == (100, 1000, None)


def test_a_message_that_was_taken_back_is_queued_no_more() -> None:
    shown, _ = view("mine")
    shown.apply({"kind": "turn_started", "turn": 1})
    shown.apply({"kind": "message_queued", "key": "mine", "text": "also this"})
    assert (shown.queue, shown.queued) == (1, ["mine"])
    shown.apply({"kind": "message_withdrawn", "key": "mine"})
    assert (shown.queue, shown.live()) == (0, [])


def test_a_rule_for_good_is_told_with_its_file() -> None:
    shown, _ = view()
    asked = {
        "kind": "question_asked", "id": "q", "purpose": "approval", "text": "terminal {}",
        "choices": ["yes", "no", "always"], "proposal": "- id: allow-rm-1\n  match:\n",
    }  # fmt: skip
    shown.apply(asked)
    (piece,) = shown.apply({"kind": "question_answered", "id": "q", "answer": "always"})
    first, where, back = piece.text.split("\n")
    assert first.endswith("→ always")
    assert where.endswith("/policies/approved.yaml: allow-rm-1")
    assert back == "  delete it there and Hermes asks again"


def test_the_parts_of_a_context_add_up_to_the_window() -> None:
    parts = [{"name": "surroundings", "tokens": 17, "origin": "workspace and machine"}]
    report = {"model": "m", "used": 4_414, "window": 128_000, "compacts_at": 102_400}
    rows = context_text({**report, "parts": parts}).splitlines()[2:]
    tokens = [int(re.split(r"  +", row)[1].replace(",", "")) for row in rows]
    assert tokens == [17, 4_397, 97_986, 25_600]
    assert sum(tokens) == report["window"]
