"""How far something is that takes a while: a line on the terminal, removed at the end."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from hermes_agent.cli.output.formatting import fitted
from hermes_agent.core.text.format import span

DELAY = 1.0
"""What takes less time than this shows nothing."""

_SPINNER = "|/-\\"
_BAR = 20
_Item = TypeVar("_Item")


class Progress:
    """Shows `what` on standard error while the block runs: with a bar once `update` has said how
    much there is to do, and with the time that has passed until then."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self.what = what
        self._share: tuple[int, int] | None = None
        self._began = time.monotonic()
        self._ended = threading.Event()
        shown = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not quiet
        self._thread = threading.Thread(target=self._draw, daemon=True) if shown else None

    def update(self, done: int, total: int) -> None:
        self._share = (done, total) if total else None

    def over(self, items: Iterable[_Item], total: int) -> Iterator[_Item]:
        """The items; each counts as done when the next one is asked for."""
        for done, item in enumerate(items):
            self.update(done, total)
            yield item

    def __enter__(self) -> "Progress":
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        import shutil

        drawn = 0
        while not self._ended.wait(0.1 if drawn else DELAY):
            line = fitted(self._line(drawn), shutil.get_terminal_size().columns - 1)
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
            drawn += 1
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _line(self, drawn: int) -> str:
        passed = span(time.monotonic() - self._began)
        if self._share is None:
            return f"{_SPINNER[drawn % 4]} {self.what}, {passed}"
        done, total = self._share
        full = _BAR * min(done, total) // total
        bar = "#" * full + "." * (_BAR - full)
        return f"{self.what} [{bar}] {100 * done // total:3d} %, {passed}"
