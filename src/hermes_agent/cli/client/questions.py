"""Asks open questions on a plain terminal, line by line."""

import shutil
import sys
import termios
import time
from collections.abc import Iterable

from hermes_agent.cli.client.stream import TERMINAL, Event, EventStream
from hermes_agent.cli.output.consent import (
    Fold,
    Row,
    answer_rows,
    expiry,
    painted,
    rows,
    rule_rows,
)
from hermes_agent.cli.output.events import consent_prompt, typed_answer
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.core.text.consent import ConsentView, consent_view

MIN_FOLD = 6
"""Rows of each section that are shown on the smallest terminal."""
QUIET_SECONDS = 0.4
"""How long lines that follow one that is no answer are dropped: they belong to what was pasted."""


def ask_question(question: Event, events: EventStream) -> str | None:
    """Ask on the terminal; None when our answer is no longer needed."""
    print_question(question)
    while True:
        typed = events.line(question["id"])
        if not isinstance(typed, str):
            drop_question(typed)
            return None
        if (answer := answer_or_show(question, typed)) is not None:
            return answer


def print_question(question: Event, *, whole: bool = False) -> None:
    """The question, folded to the height of the terminal unless `whole`, and the prompt."""
    if question["purpose"] != "question":
        # What was typed before the question was seen is not consent to it.
        termios.tcflush(TERMINAL, termios.TCIFLUSH)
    view, width = consent_view(question), shutil.get_terminal_size().columns
    folded = _folded(view)
    _print_rows([*(rows(view, width) if whole else folded), *answer_rows(view.answers, width)])
    if left := expiry(question, time.time()):
        print(f"  {left}", file=sys.stderr)
    print_prompt(question, folded)


def _folded(view: ConsentView) -> list[Row]:
    """What a terminal of this height has room for."""
    size = shutil.get_terminal_size()
    return list(rows(view, size.columns, Fold(max(size.lines - 18, MIN_FOLD))))


def print_prompt(question: Event, folded: Iterable[Row] = ()) -> None:
    prompt = "> "
    if question["purpose"] != "question":
        shown = folded or _folded(consent_view(question))
        prompt = f"  {consent_prompt(question, any(row.mark == 'folded' for row in shown))}"
    print(prompt, end="", file=sys.stderr, flush=True)


def answer_or_show(question: Event, typed: str) -> str | None:
    """What a typed line answers; None if it is no answer, or only asked to be shown more, and the
    prompt is there again."""
    answer = typed_answer(question, typed)
    if question["purpose"] == "question":
        return answer or ""
    if answer is not None:
        return answer
    view = consent_view(question)
    word = typed.lower() if question["purpose"] == "approval" else ""
    if word in ("v", "?"):
        print_question(question, whole=True)
        return None
    if word == "r" and view.rule:
        _print_rows(rule_rows(view, shutil.get_terminal_size().columns))
    else:
        print(f"  not an answer: {one_line(typed, 40)!r}", file=sys.stderr, flush=True)
        time.sleep(QUIET_SECONDS)
    termios.tcflush(TERMINAL, termios.TCIFLUSH)  # the rest of what was pasted
    print_prompt(question)
    return None


def _print_rows(found: Iterable[Row]) -> None:
    print("\n" + painted(found, sys.stderr), file=sys.stderr, flush=True)


def drop_question(answered: Event | None) -> None:
    termios.tcflush(TERMINAL, termios.TCIFLUSH)
    if answered is None:
        said = "the question is no longer open"
    elif answered["answer"] is None:
        said = "nobody answered in time"
    else:
        said = f"answered elsewhere: {one_line(answered['answer'])}"
    print(f"\n· {said}", file=sys.stderr, flush=True)
