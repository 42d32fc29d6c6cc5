"""A loop whose clock counts the time in which it runs, and that a test can move or stop.

A machine that builds for others, too, stands still now and then, and with it whoever would have
answered. That a limit is over when both wake says nothing about the code that has it."""

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager

BREATH = 0.05
"""The most that passes between two looks at the clock."""
STEPS = 1_000


class _Restless(selectors.DefaultSelector):
    """Never waits so long that its waiting would be taken for standing still."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(BREATH if timeout is None else min(timeout, BREATH))


class AwakeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = self._looked = time.monotonic()
        self.stands = False
        super().__init__(_Restless())

    def time(self) -> float:
        looked = time.monotonic()
        if not self.stands:
            self._now += min(looked - self._looked, 2 * BREATH)
        self._looked = looked
        return self._now

    def move(self, seconds: float) -> None:
        self._now += seconds


async def pass_time(seconds: float, steps: int = STEPS) -> None:
    """So much time passes for whoever waits on the running loop, little by little, so that those
    count it, too, who do not count standing still."""
    for _ in range(steps):
        _running().move(seconds / steps)
        await asyncio.sleep(0)


def stand_still(seconds: float) -> None:
    """When this returns so much time is over in which nobody on the running loop did anything."""
    _running().move(seconds)


@contextmanager
def no_time() -> Iterator[None]:
    """Meanwhile nobody on the running loop can be late. Nobody wakes from a sleep either."""
    loop = _running()
    loop.stands = True
    try:
        yield
    finally:
        loop.stands = False


def _running() -> AwakeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AwakeLoop)
    return loop
