"""Prints an incident as it happens, one line per event: the time, a word, the text.

Plain lines, with some colour on a terminal; colour alone carries no meaning."""

import os
import shutil
import textwrap
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from hermes_agent.cli.output.formatting import cells, fitted
from hermes_agent.core.text.terminal import clean

TONES = {
    "good": "32", "bad": "31", "think": "35", "act": "33", "look": "36", "faint": "2", "bold": "1",
}  # fmt: skip
MARKS = {"good": "✓", "bad": "✗", "think": "?", "act": "▸", "look": "·", "faint": "·", "bold": "●"}
WORD = 10
"""The width of the word that names the kind of a line."""
NARROW = 60
MAX_LENGTH = 240
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class IncidentLine(NamedTuple):
    time: float
    word: str
    text: str
    tone: str = "faint"
    details: tuple[str, ...] = ()
    """Evidence, printed below it."""


def cut(text: str, most: int) -> str:
    """On one line, at most this wide."""
    return fitted(" ".join(clean(text).split()), most)


class IncidentView:
    """Lines, and on a terminal a status line below them."""

    def __init__(
        self, out: TextIO, began: float, *, width: int = 0, colour: bool | None = None
    ) -> None:
        self._out = out
        self.began = began
        """Where the clock on the left starts."""
        self._live = out.isatty()
        self._colour = self._live and not os.environ.get("NO_COLOR") if colour is None else colour
        self._given = width
        self._status = False
        self._turn = 0

    @property
    def width(self) -> int:
        """Columns; 0 in a pipe, where lines are not wrapped."""
        if self._given:
            return self._given
        return shutil.get_terminal_size().columns if self._live else 0

    def say(self, said: IncidentLine) -> None:
        self._clear()
        for line in self.lines(said):
            print(line, file=self._out)
        self._out.flush()

    def lines(self, said: IncidentLine) -> Sequence[str]:
        clock = f"{_clock(said.time - self.began):>6} "
        mark = MARKS[said.tone]
        narrow = 0 < self.width < NARROW
        word = "" if narrow else f"{said.word:<{WORD}} "
        text = f"{said.word}: {said.text}" if narrow else said.text
        indent = len(clock) + 2 + len(word)
        first, *more = self._wrapped(text, indent)
        tinted = self._tint(f"{mark} {word}", said.tone)
        lines = [f"{self._tint(clock, 'faint')}{tinted}{self._strong(first, said.tone)}"]
        lines += [" " * indent + self._strong(line, said.tone) for line in more]
        for detail in said.details:
            for place, line in enumerate(self._wrapped(detail, indent + 2)):
                bar = "│ " if place == 0 else "  "
                lines.append(" " * indent + self._tint(bar + line, "faint"))
        return lines

    def status(self, text: str, now: float) -> None:
        """Update the status line of a terminal; nothing in a pipe."""
        if not self._live:
            return
        self._turn += 1
        sign = SPINNER[self._turn % len(SPINNER)]
        clock = f"{_clock(now - self.began):>6} {sign} "
        line = clock + cut(text, max(8, self.width - len(clock) - 1))
        self._out.write(f"\r\x1b[K{self._tint(line, 'faint')}")
        self._out.flush()
        self._status = True

    def close(self) -> None:
        self._clear()
        self._out.flush()

    def _clear(self) -> None:
        if self._status:
            self._out.write("\r\x1b[K")
            self._status = False

    def _wrapped(self, text: str, indent: int) -> list[str]:
        line = " ".join(clean(text).split())
        if not self.width:
            return [line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…"]
        room = max(8, self.width - indent - 1)
        if cells(line) == len(line):
            return textwrap.wrap(line, room, break_on_hyphens=False) or [""]
        return _wide(line, room)

    def _tint(self, text: str, tone: str) -> str:
        return f"\x1b[{TONES[tone]}m{text}\x1b[0m" if self._colour and text else text

    def _strong(self, text: str, tone: str) -> str:
        return text if tone in ("look", "act", "think") else self._tint(text, tone)


def _wide(line: str, room: int) -> list[str]:
    """Wrapped by columns, where letters are wider than one."""
    lines, now = [], ""
    for word in line.split(" "):
        grown = f"{now} {word}" if now else word
        if cells(grown) <= room:
            now = grown
            continue
        lines += [now] if now else []
        now = word
        while cells(now) > room:
            part = now[:room]
            while cells(part) > room:
                part = part[:-1]
            lines.append(part)
            now = now[len(part) :]
    return [*lines, now] if now or not lines else lines


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02}"
