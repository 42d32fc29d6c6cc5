"""Pages that a session fetched recently, for reading on."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Struct

SECONDS = 600.0
CHARS = 8_000_000
"""Text of all pages together."""
LINE = 1_000
"""Longer lines are broken, so that each part can be reached."""
AROUND = 2
"""Lines of context around a match."""


class Page(Struct, frozen=True):
    url: str
    """The final address, after redirects."""
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]


class Pages:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pages: OrderedDict[str, tuple[float, int, Page]] = OrderedDict()

    def add(self, url: str, page: Page) -> None:
        size = sum(map(len, page.lines))
        self._pages.pop(url, None)
        self._pages[url] = (self._clock(), size, page)
        held = sum(size for _, size, _ in self._pages.values())
        for key, (_, size, _) in list(self._pages.items()):
            if held <= CHARS and self._fresh(key):
                break
            held -= size
            del self._pages[key]

    def get(self, url: str) -> Page | None:
        return self._pages[url][2] if url in self._pages and self._fresh(url) else None

    async def close(self) -> None:
        """Called when the session ends or is idle."""
        self._pages.clear()

    def _fresh(self, url: str) -> bool:
        return self._clock() - self._pages[url][0] < SECONDS


def broken(text: str) -> tuple[str, ...]:
    """Its lines, long ones broken at white space."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        line = line.rstrip()
        while len(line) > LINE:
            at = line.rfind(" ", LINE // 2, LINE)
            at = at if at > 0 else LINE
            lines.append(line[:at])
            line = line[at:].lstrip(" ")
        lines.append(line)
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def passages(lines: tuple[str, ...], find: str) -> list[tuple[int, int]]:
    """First and last lines, counted from 1, of what is around the lines that hold all words; when
    no line does, around those that hold any."""
    words = find.lower().split()
    lowered = [line.lower() for line in lines]
    for test in (all, any):
        found = [n for n, line in enumerate(lowered, 1) if test(word in line for word in words)]
        if found:
            break
    spans: list[tuple[int, int]] = []
    for number in found:
        first, last = max(1, number - AROUND), min(len(lines), number + AROUND)
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans
