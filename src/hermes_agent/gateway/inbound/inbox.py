"""Handles inbound messages in order of arrival within each chat, independently of other chats."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import Degraded, HermesError, Stopping
from hermes_agent.core.gateway import ArrivedState, InboundMessage, InboxEntry
from hermes_agent.core.supervise import backoff, first_of, is_ending
from hermes_agent.store.gateway.store import GatewayStore

log = logging.getLogger("hermes.gateway")

TRIES = 8
"""After this many failures a message becomes a dead letter: about four minutes."""
FIRST_SECONDS = 1.0
MAX_SECONDS = 120.0
PARALLEL = 32
"""Chats to handle at the same time."""
MAX_IN_MEMORY = 1_000
MAX_BYTES = 64_000_000
"""Limit for texts and files in memory; one page brings up to half as much."""
PAGE = 200
POLL_SECONDS = 5.0

Handle = Callable[[InboxEntry], Awaitable[tuple[ArrivedState, str]]]
Sleep = Callable[[float], Awaitable[None]]


class Inbox:
    """`handle` handles an entry and returns the outcome; it raises if it should be retried."""

    def __init__(
        self, ledger: GatewayStore, handle: Handle, *, sleep: Sleep, random: Callable[[], float],
        most_bytes: int = MAX_BYTES,
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._handle = handle
        self._sleep = sleep
        self._random = random
        self._woken = asyncio.Event()
        self._room = asyncio.Semaphore(PARALLEL)
        self._chats: dict[str, deque[InboxEntry]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._most_bytes = most_bytes
        self._waiting = 0
        self._bytes = 0
        self._seen = 0

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                if not await self._fetch():
                    await first_of(self._woken.wait(), self._sleep(POLL_SECONDS))
        finally:
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            self._chats.clear()
            self._waiting = self._bytes = self._seen = 0

    async def _fetch(self) -> bool:
        """Whether there may be more."""
        if self._is_full():
            return False
        found = await self._ledger.new(PAGE, self._seen)
        for entry in found:
            self._seen = entry.number
            self.add(entry)
        return bool(found)

    @property
    def held(self) -> tuple[int, int]:
        """The number of entries in memory, and their bytes."""
        return self._waiting, self._bytes

    def _is_full(self) -> bool:
        return self._waiting >= MAX_IN_MEMORY or self._bytes >= self._most_bytes

    def add(self, entry: InboxEntry) -> None:
        chat = entry.arrived.chat.target
        self._waiting += 1
        self._bytes += _size(entry.arrived)
        queue = self._chats.get(chat)
        if queue is not None:
            queue.append(entry)
            return
        self._chats[chat] = queue = deque([entry])
        worker = asyncio.create_task(self._work(chat, queue))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, chat: str, queue: deque[InboxEntry]) -> None:
        while queue:
            await self._process(queue[0])
            self._waiting -= 1
            self._bytes -= _size(queue.popleft().arrived)
            if not self._is_full():
                self._woken.set()
        del self._chats[chat]

    async def _process(self, entry: InboxEntry) -> None:
        """Retries until it is handled or a dead letter."""
        failures = 0
        while True:
            try:
                if await self._try(entry):
                    return
                failures += 1
            except (Degraded, Stopping) as trouble:
                failures += 1
                log.warning("message %s is delayed: %s", entry.number, trouble.message)
            except Exception:  # or nothing would handle the rest of the chat
                failures += 1
                log.exception("message %s is delayed", entry.number)
            await self._sleep(backoff(failures, FIRST_SECONDS, MAX_SECONDS, self._random))

    async def _try(self, entry: InboxEntry) -> bool:
        """False if it should be retried. Trouble of the runtime itself is raised."""
        try:
            async with self._room:
                state, why = await self._handle(entry)
        except (Degraded, Stopping):
            raise
        except HermesError as error:
            log.warning("message %s could not be handled: %s", entry.number, error.message)
            failure = error.message
        except asyncio.CancelledError:
            if is_ending():
                raise
            failure = "handling was cancelled"
        except Exception as error:
            log.exception("message %s could not be handled", entry.number)
            failure = f"{type(error).__name__}: {error}"
        else:
            await self._ledger.dealt(entry.number, state, why)
            return True
        if await self._ledger.failed_to_deal(entry.number, failure) < TRIES:
            return False
        log.error("message %s is a dead letter: %s", entry.number, failure)
        await self._ledger.dealt(entry.number, "dead", failure)
        return True


def _size(arrived: InboundMessage) -> int:
    return len(arrived.text) + sum(len(one.data) for one in (*arrived.files, *arrived.voice))


def storable(value: Any) -> Any:
    """A message without lone surrogates and infinite numbers, which the store does not take."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case float():
            return value if math.isfinite(value) else 0.0
        case tuple():
            return tuple(storable(one) for one in value)
        case Struct():
            names = value.__struct_fields__
            return replace(value, **{name: storable(getattr(value, name)) for name in names})
        case _:
            return value
