"""Questions on a terminal, while events keep arriving."""

import os
import queue
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from hermes_agent.cli.output.events import consent_prompt, question_lines, typed_answer
from hermes_agent.cli.output.formatting import one_line

Event = dict[str, Any]
_End = tuple[BaseException | None]

TERMINAL = 0


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
    typed = events.line(question["id"])
    if isinstance(typed, str):
        return answer_or_refuse(question, typed)
    drop_question(typed)
    return None


def print_question(question: Event) -> None:
    consent = question["purpose"] != "question"
    if consent:
        # What was typed before the question was seen is not consent to it.
        termios.tcflush(TERMINAL, termios.TCIFLUSH)
    print("\n" + "\n".join(question_lines(question)), file=sys.stderr)
    prompt = f"  {consent_prompt(question)}" if consent else "> "
    print(prompt, end="", file=sys.stderr, flush=True)


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
