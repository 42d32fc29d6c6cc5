"""Events, and what is typed while they keep arriving."""

import os
import queue
import select
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

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
