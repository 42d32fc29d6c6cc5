"""Time that moves when it is told to, for whoever sleeps by it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

from tests.support.patience import PATIENCE, pauses


class MovedTime:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Counts from the call: time that moves before a task begins to wait has passed for it."""
        if seconds <= 0:
            return asyncio.sleep(0)
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._numbers), waking))
        return waking

    @property
    def sleepers(self) -> int:
        return sum(not waking.done() for _, _, waking in self._sleepers)

    async def move(self, seconds: float) -> None:
        """Everybody whose time comes meanwhile wakes at their time, and does what they can."""
        end = self.now + seconds
        await settled()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.now, _, waking = heapq.heappop(self._sleepers)
            if not waking.done():
                waking.set_result(None)
                await settled()
        self.now = end


async def settled() -> None:
    """Whoever can go on without waiting for the world has done so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(met: Callable[[], object], what: str = "it") -> None:
    """Wait for something that happens in real time."""
    deadline, pause = asyncio.get_running_loop().time() + PATIENCE, pauses()
    while not met():
        assert asyncio.get_running_loop().time() < deadline, f"waited too long for {what}"
        await asyncio.sleep(next(pause))
