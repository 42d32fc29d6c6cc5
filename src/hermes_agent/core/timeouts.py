"""A limit in which only the time counts that this process is awake: while it stands still, nobody
who works for it is heard, and it would tell of a slowness that was its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PARTS = 20
"""The time is divided into so many; however long one of them took, it counts as one."""


@asynccontextmanager
async def awake(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`: `TimeoutError` where what is inside takes longer."""
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
