"""Questions on a terminal, while what happens goes on arriving."""

import os
import queue
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from hermes_agent.cli.output.turn_printer import (
    consent_prompt,
    consent_typed,
    format_answer,
    question_lines,
)

Event = dict[str, Any]
_End = tuple[BaseException | None]

TERMINAL = 0


class EventStream:
    """Events, taken in by a thread so that a person can be listened to at the same time. It may be
    iterated again after it was broken off, and goes on."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._arrived: queue.SimpleQueue[Event | _End] = queue.SimpleQueue()
        self._held: deque[Event | _End] = deque()
        self._bell, self._ring = os.pipe()
        threading.Thread(target=self._take_in, args=(events,), daemon=True).start()

    def _take_in(self, events: Iterable[Event]) -> None:
        trouble: BaseException | None = None
        try:
            for event in events:
                self._put(event)
        except BaseException as error:  # noqa: BLE001 - raised again where the events are read
            trouble = error
        self._put((trouble,))

    def _put(self, item: Event | _End) -> None:
        self._arrived.put(item)
        os.write(self._ring, b".")

    def _next(self) -> Event | _End:
        item = self._arrived.get()
        os.read(self._bell, 1)
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
        """What somebody types; the event when it was answered in another way; None when there is
        nothing to answer any more. Other events wait."""
        while True:
            ready, _, _ = select.select([self._bell, TERMINAL], [], [])
            if self._bell not in ready:
                return os.read(TERMINAL, 4096).decode(errors="replace").strip()
            item = self._next()
            self._held.append(item)
            if isinstance(item, tuple) or item["kind"] == "turn_finished":
                return None
            if item["kind"] == "question_answered" and item["id"] == question:
                return item


def ask_question(question: Event, events: EventStream) -> str | None:
    """Ask on the terminal; None when no answer of ours is wanted any more."""
    print_question(question)
    typed = events.line(question["id"])
    if isinstance(typed, str):
        return answer_typed(question, typed)
    drop_question(typed)
    return None


def print_question(question: Event) -> None:
    consent = question["purpose"] != "question"
    if consent:
        # What was typed before the question was seen is no consent to it.
        termios.tcflush(TERMINAL, termios.TCIFLUSH)
    print("\n" + "\n".join(question_lines(question)), file=sys.stderr)
    prompt = f"  {consent_prompt(question)}" if consent else "> "
    print(prompt, end="", file=sys.stderr, flush=True)


def drop_question(answered: Event | None) -> None:
    termios.tcflush(TERMINAL, termios.TCIFLUSH)
    said = "no longer asked" if answered is None else format_answer(answered)
    print(f"\n· {said}", file=sys.stderr, flush=True)


def answer_typed(question: Event, typed: str) -> str:
    """For consent, only what was clearly typed is one: Enter and anything else is no."""
    if question["purpose"] != "question":
        return consent_typed(question, typed) or "no"
    if typed.isdigit() and 1 <= int(typed) <= len(question["choices"]):
        return str(question["choices"][int(typed) - 1])
    return typed
