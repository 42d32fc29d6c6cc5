"""A loop whose time can be moved on: a limit is over at once, and nobody has to wait for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class MovedLoop(asyncio.SelectorEventLoop):
    """Real time passes, too; whoever waits hears of both."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self._ahead

    def move(self, seconds: float) -> None:
        self._ahead += seconds


def move(seconds: float) -> None:
    """Move the time of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovedLoop)
    loop.move(seconds)


def run_moved(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=MovedLoop) as runner:
        runner.run(main)
