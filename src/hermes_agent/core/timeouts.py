"""A timeout that ignores time this process was suspended, as when a laptop sleeps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PARTS = 20
"""The time is divided into this many slices; however long one takes, it counts as one."""


@asynccontextmanager
async def awake(seconds: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`: raises `TimeoutError` when the time is up."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer: asyncio.TimerHandle

        def wait(left: int) -> None:
            nonlocal timer
            if left:
                timer = loop.call_later(seconds / PARTS, wait, left - 1)
            else:
                limit.reschedule(loop.time())

        wait(PARTS)
        try:
            yield
        finally:
            timer.cancel()
