"""What arrived is dealt with in the order of arrival in each chat, whatever happens to others."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from hermes_agent.core.errors import Degraded, HermesError, Stopping
from hermes_agent.core.gateway import ArrivedState, InboundMessage, InboxEntry
from hermes_agent.core.supervise import backoff, first_of, is_ending
from hermes_agent.store.gateway.store import GatewayStore

log = logging.getLogger("hermes.gateway")

TRIES = 8
"""After so many failures a message is set aside: some four minutes."""
FIRST_SECONDS = 1.0
MAX_SECONDS = 120.0
PARALLEL = 32
"""Chats that are dealt with at the same time."""
MAX_IN_MEMORY = 1_000
MAX_BYTES = 64_000_000
"""Texts and files of those in memory; one look brings up to half as much."""
PAGE = 200
POLL_SECONDS = 5.0

Handle = Callable[[InboxEntry], Awaitable[tuple[ArrivedState, str]]]
Sleep = Callable[[float], Awaitable[None]]


class Inbox:
    """`handle` deals with a row and says how; it raises when that should be tried again."""

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

    def take(self, kept: InboxEntry) -> None:
        """Deal with a row that was set aside once more."""
        self._put(kept)

    async def run(self) -> None:
        """Live until cancelled. What is not dealt with then is dealt with next time."""
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
        """Whether there may be more at once."""
        if self._is_full():
            return False
        found = await self._ledger.new(PAGE, self._seen)
        for kept in found:
            self._seen = kept.number
            self._put(kept)
        return bool(found)

    @property
    def held(self) -> tuple[int, int]:
        """How many rows are in memory, and their bytes."""
        return self._waiting, self._bytes

    def _is_full(self) -> bool:
        return self._waiting >= MAX_IN_MEMORY or self._bytes >= self._most_bytes

    def _put(self, kept: InboxEntry) -> None:
        chat = kept.arrived.chat.target
        self._waiting += 1
        self._bytes += _size(kept.arrived)
        queue = self._chats.get(chat)
        if queue is not None:
            queue.append(kept)
            return
        self._chats[chat] = queue = deque([kept])
        worker = asyncio.create_task(self._work(chat, queue))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, chat: str, queue: deque[InboxEntry]) -> None:
        while queue:
            await self._deal(queue[0])
            self._waiting -= 1
            self._bytes -= _size(queue.popleft().arrived)
            if not self._is_full():
                self._woken.set()
        del self._chats[chat]

    async def _deal(self, kept: InboxEntry) -> None:
        """Until it is dealt with or set aside."""
        passing = 0
        while True:
            try:
                if await self._try(kept):
                    return
                passing += 1
            except (Degraded, Stopping) as trouble:
                passing += 1
                log.warning("message %s waits: %s", kept.number, trouble.message)
            except Exception:  # nobody else would go on with the chat
                passing += 1
                log.exception("message %s waits", kept.number)
            await self._sleep(backoff(passing, FIRST_SECONDS, MAX_SECONDS, self._random))

    async def _try(self, kept: InboxEntry) -> bool:
        """False when it is to be tried again. Trouble of the runtime itself is raised."""
        try:
            async with self._room:
                state, why = await self._handle(kept)
        except (Degraded, Stopping):
            raise
        except HermesError as error:
            log.warning("message %s could not be dealt with: %s", kept.number, error.message)
            failure = error.message
        except asyncio.CancelledError:
            if is_ending():
                raise
            failure = "what it waited for was cancelled"
        except Exception as error:
            log.exception("message %s could not be dealt with", kept.number)
            failure = f"{type(error).__name__}: {error}"
        else:
            await self._ledger.dealt(kept.number, state, why)
            return True
        if await self._ledger.failed_to_deal(kept.number, failure) < TRIES:
            return False
        log.error("message %s is set aside: %s", kept.number, failure)
        await self._ledger.dealt(kept.number, "dead", failure)
        return True


def _size(arrived: InboundMessage) -> int:
    return len(arrived.text) + sum(len(one.data) for one in (*arrived.files, *arrived.voice))
