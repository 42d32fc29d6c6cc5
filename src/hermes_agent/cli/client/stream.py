"""Questions on a terminal, while events keep arriving."""

import os
import queue
import select
import shutil
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.output.events import consent_prompt, typed_answer
from hermes_agent.cli.output.formatting import one_line

if TYPE_CHECKING:
    from hermes_agent.cli.output.consent import Fold, Row

Event = dict[str, Any]
_End = tuple[BaseException | None]

TERMINAL = 0
MIN_FOLD = 6
"""Rows of each section that are shown on the smallest terminal."""


QUIET_SECONDS = 0.4
"""How long lines that follow one that is no answer are dropped: they belong to what was pasted."""


class EventStream:
    """Events, read by a thread so that the keyboard can be read at the same time. Iterating again
    after a break continues where it stopped."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._arrived: queue.SimpleQueue[Event | _End] = queue.SimpleQueue()
        self._held: deque[Event | _End] = deque()
        self._wake_read, self._wake_write = os.pipe()
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def _read(self, events: Iterable[Event]) -> None:
        failure: BaseException | None = None
        try:
            for event in events:
                self._put(event)
        except BaseException as error:  # noqa: BLE001 - raised again where the events are read
            failure = error
        self._put((failure,))

    def _put(self, item: Event | _End) -> None:
        self._arrived.put(item)
        os.write(self._wake_write, b".")

    def _next(self) -> Event | _End:
        item = self._arrived.get()
        os.read(self._wake_read, 1)
        return item

    def __iter__(self) -> Iterator[Event]:
        while True:
            item = self._held.popleft() if self._held else self._next()
            if isinstance(item, tuple):
                self._held.append(item)
                if item[0] is not None:
                    raise item[0]
                return
            yield item

    def line(self, question: str) -> str | Event | None:
        """A typed line; the event when the question was answered elsewhere; None when it is no
        longer open. Other events wait."""
        while True:
            ready, _, _ = select.select([self._wake_read, TERMINAL], [], [])
            if self._wake_read not in ready:
                return os.read(TERMINAL, 4096).decode(errors="replace").strip()
            item = self._next()
            self._held.append(item)
            if isinstance(item, tuple) or item["kind"] == "turn_finished":
                return None
            if item["kind"] == "question_answered" and item["id"] == question:
                return item


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
    from hermes_agent.cli.output.consent import answer_rows, expiry, rows
    from hermes_agent.core.text.consent import consent_view

    if question["purpose"] != "question":
        # What was typed before the question was seen is not consent to it.
        termios.tcflush(TERMINAL, termios.TCIFLUSH)
    view, size = consent_view(question), shutil.get_terminal_size()
    found = rows(view, size.columns, None if whole else _fold(size.lines))
    _print_rows([*found, *answer_rows(view.answers, size.columns)])
    if left := expiry(question, time.time()):
        print(f"  {left}", file=sys.stderr)
    print_prompt(question)


def _fold(lines: int) -> "Fold":
    from hermes_agent.cli.output.consent import Fold

    return Fold(max(lines - 18, MIN_FOLD))


def _folds(question: Event) -> bool:
    """Whether this terminal is too small for all of the question."""
    from hermes_agent.cli.output.consent import rows
    from hermes_agent.core.text.consent import consent_view

    view, size = consent_view(question), shutil.get_terminal_size()
    return [*rows(view, size.columns)] != [*rows(view, size.columns, _fold(size.lines))]


def print_prompt(question: Event) -> None:
    asks = question["purpose"] == "question"
    prompt = "> " if asks else f"  {consent_prompt(question, _folds(question))}"
    print(prompt, end="", file=sys.stderr, flush=True)


def answer_or_show(question: Event, typed: str) -> str | None:
    """What a typed line answers; None if it is no answer, or only asked to be shown more, and the
    prompt is there again."""
    from hermes_agent.cli.output.consent import rule_rows
    from hermes_agent.core.text.consent import consent_view

    if question["purpose"] == "question":
        return answer_or_refuse(question, typed)
    if (answer := typed_answer(question, typed)) is not None:
        return answer
    view = consent_view(question)
    word = typed.lower() if question["purpose"] == "approval" else ""
    if word in ("v", "?"):
        print_question(question, whole=True)
        return None
    if word == "r" and view.rule:
        _print_rows([*rule_rows(view)])
    else:
        print(f"  not an answer: {one_line(typed, 40)!r}", file=sys.stderr, flush=True)
        time.sleep(QUIET_SECONDS)
    termios.tcflush(TERMINAL, termios.TCIFLUSH)  # the rest of what was pasted
    print_prompt(question)
    return None


def _print_rows(found: Sequence["Row"]) -> None:
    from hermes_agent.cli.output.consent import painted

    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    print("\n" + painted(found, colour=colour), file=sys.stderr, flush=True)


def drop_question(answered: Event | None) -> None:
    termios.tcflush(TERMINAL, termios.TCIFLUSH)
    if answered is None:
        said = "the question is no longer open"
    elif answered["answer"] is None:
        said = "nobody answered in time"
    else:
        said = f"answered elsewhere: {one_line(answered['answer'])}"
    print(f"\n· {said}", file=sys.stderr, flush=True)


def answer_or_refuse(question: Event, typed: str) -> str:
    """Anything but a clear consent refuses."""
    refusal = "" if question["purpose"] == "question" else "no"
    return typed_answer(question, typed) or refusal
