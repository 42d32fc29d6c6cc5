"""Lines for a terminal or a pipe: a clock that only goes forward, a mark, a word and a text."""

import contextlib
import os
import shutil
import textwrap
import time
from collections.abc import Sequence
from typing import NamedTuple, TextIO

TONES = {
    "good": "32",
    "bad": "31",
    "think": "35",
    "act": "33",
    "look": "36",
    "faint": "2",
    "bold": "1",
}
MARKS = {"good": "✓", "bad": "✗", "think": "?", "act": "▸", "look": "·", "faint": "·", "bold": "●"}
WORD = 11
INDENT = WORD + 10
MAX_LENGTH = 240
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Line(NamedTuple):
    """One thing that happened."""

    time: float
    word: str
    text: str
    tone: str = "faint"
    details: tuple[str, ...] = ()
    """What it rests on, below it."""


def plain(text: str) -> str:
    """On one line, without anything that a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def cut(text: str, most: int) -> str:
    line = plain(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


class View:
    def __init__(self, out: TextIO, *, rows: int = 0) -> None:
        self._out = out
        self._began = self._last = time.time()
        self._live = out.isatty()
        self._colour = self._live and not os.environ.get("NO_COLOR")
        self._rows = rows
        """How many lines one text may take; 0: as many as it needs."""
        self._turn = 0

    def say(self, line: Line) -> None:
        self._last = max(self._last, line.time)
        seconds = int(self._last - self._began)
        clock = f"{seconds // 60:>3}:{seconds % 60:02} "
        first, *more = self._wrapped(line.text, INDENT)
        word = self.tint(f"{MARKS[line.tone]} {line.word:<{WORD}} ", line.tone)
        lines = [f"{self.tint(clock, 'faint')}{word}{first}"]
        lines += [" " * INDENT + text for text in more]
        for detail in line.details:
            for text in self._wrapped(detail, INDENT + 2):
                lines.append(" " * INDENT + self.tint(f"│ {text}", "faint"))
        self.write("\n".join(lines))

    def write(self, text: str) -> None:
        self._clear()
        print(text, file=self._out, flush=True)

    def tint(self, text: str, tone: str) -> str:
        return f"\x1b[{TONES[tone]}m{text}\x1b[0m" if self._colour else text

    def status(self, text: str) -> None:
        """How it stands, on the last line of a terminal; nothing in a pipe."""
        if self._live:
            self._turn += 1
            sign = SPINNER[self._turn % len(SPINNER)]
            line = cut(f"{sign} {plain(text)}", shutil.get_terminal_size().columns - 9)
            self._out.write(f"\r\x1b[K       {self.tint(line, 'faint')}")
            self._out.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # whoever read it may be gone
            self._clear()
            self._out.flush()

    def _clear(self) -> None:
        if self._turn:
            self._out.write("\r\x1b[K")
            self._turn = 0

    def _wrapped(self, text: str, indent: int) -> list[str]:
        line = cut(text, MAX_LENGTH)
        if not self._live:
            return [line]
        room = max(20, shutil.get_terminal_size().columns - indent - 1)
        if self._rows:
            line = cut(line, self._rows * room - self._rows * 4)
        return textwrap.wrap(line, room, break_on_hyphens=False) or [""]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns below each other, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    right = [
        all(row[at][:1].isdigit() or row[at] == "-" for row in rows) for at in range(len(heads))
    ]
    lines = [
        "  ".join(
            cell.rjust(w) if r else cell.ljust(w)
            for cell, w, r in zip(row, widths, right, strict=True)
        )
        for row in (heads, *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)
