"""How long to wait before something is tried again, and waiting for one of several things."""

import asyncio
from collections.abc import Awaitable, Callable


def backoff(failures: int, first: float, most: float, random: Callable[[], float]) -> float:
    """Seconds after so many failures in a row, a little scattered."""
    wait: float = min(first * 2.0 ** min(failures - 1, 30), most)
    return wait * (0.8 + 0.4 * random())


def is_ending() -> bool:
    """Whether the task at work is asked to end, and not only something that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def first_of(*things: Awaitable[object]) -> None:
    """Until one of them has happened; the others are let go."""
    tasks = {asyncio.ensure_future(thing) for thing in things}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
