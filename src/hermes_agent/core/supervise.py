"""Keeps background work running: supervision, backoff, waiting for the first of several things."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from hermes_agent.core.errors import HermesError

log = logging.getLogger("hermes.runtime")


async def supervise(
    name: str, run: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]
) -> None:
    """Run something in a loop, whatever goes wrong. A repeated expected error is logged once."""
    logged = ""
    while True:
        try:
            await run()
            logged = ""
        except HermesError as error:
            if error.message != logged:
                log.warning("%s failed, retrying: %s", name, error.message)
            logged = error.message
        except Exception:
            log.exception("%s crashed, restarting", name)
        await pause()


def every(seconds: float) -> Callable[[], Awaitable[None]]:
    """A fixed pause."""

    async def pause() -> None:
        await asyncio.sleep(seconds)

    return pause


def backoff(failures: int, first: float, most: float, random: Callable[[], float]) -> float:
    """Seconds to wait after this many consecutive failures, with jitter."""
    wait: float = min(first * 2.0 ** min(failures - 1, 30), most)
    return wait * (0.8 + 0.4 * random())


class BackoffPause:
    """Pauses longer after each failure. A run longer than the longest pause resets it."""

    def __init__(
        self,
        first: float,
        most: float,
        random: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._first = first
        self._most = most
        self._random = random
        self._sleep = sleep
        self._failures = 0
        self._since = time.monotonic()

    async def __call__(self) -> None:
        lasted = time.monotonic() - self._since > self._most
        self._failures = 1 if lasted else self._failures + 1
        await self._sleep(backoff(self._failures, self._first, self._most, self._random))
        self._since = time.monotonic()


def is_ending() -> bool:
    """Whether the current task itself is being cancelled, not just something it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def first_of(*things: Awaitable[object]) -> None:
    """Return when the first is done, and cancel the others."""
    tasks = {asyncio.ensure_future(thing) for thing in things}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
