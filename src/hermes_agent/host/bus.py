"""Publishes events to listeners, in memory. The journal has stored what must last before."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from hermes_agent.core.events import Recorded

BEHIND = 10_000
"""How far a listener may lag before it is dropped; it can reconnect and read the journal."""


class Listener:
    def __init__(self, session: str | None) -> None:
        self.session = session
        self._queue: asyncio.Queue[Recorded | None] = asyncio.Queue()
        self._lost = False

    def put(self, recorded: Recorded) -> None:
        if self._lost or (self.session and recorded.session not in ("", self.session)):
            return
        if self._queue.qsize() >= BEHIND:
            self._lost = True
            self._queue.put_nowait(None)
        else:
            self._queue.put_nowait(recorded)

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def next(self) -> Recorded | None:
        """The next event; None when there will be no more."""
        return await self._queue.get()


class Bus:
    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, recorded: Recorded) -> None:
        for listener in tuple(self._listeners):
            listener.put(recorded)

    def end(self) -> None:
        for listener in tuple(self._listeners):
            listener.end()

    @contextmanager
    def listen(self, session: str | None = None) -> Iterator[Listener]:
        listener = Listener(session)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
