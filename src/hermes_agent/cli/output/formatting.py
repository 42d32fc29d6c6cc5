"""Times, costs, sizes, lines, tables and colours as commands print them."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.format import span
from hermes_agent.core.text.terminal import clean

_BACK = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATES = {
    "green": "ok active running done proven accepted closed confirmed resolved sent allow yes",
    "yellow": "warn waiting paused candidate due late claimed missed demoted degraded ask P2",
    "red": "FAIL failed failing parked dead quarantined rejected escalated unknown deny no P0 P1",
}
_COLOURS = {word: colour for colour, words in _STATES.items() for word in words.split()}
_STATE_HEADS = frozenset(("state", "now", "severity", "then", "usable"))
"""Columns of a table whose cells have the colour of their word."""


def has_colour(stream: IO[str]) -> bool:
    """Whether a stream takes colour: a terminal does, unless NO_COLOR or TERM=dumb says otherwise;
    CLICOLOR_FORCE and FORCE_COLOR make anything take it."""
    get = os.environ.get
    if get("NO_COLOR"):
        return False
    if get("CLICOLOR_FORCE", get("FORCE_COLOR", "0")) not in ("", "0"):
        return True
    return stream.isatty() and get("TERM", "dumb") != "dumb" and get("CLICOLOR") != "0"


def style(text: str, name: str, stream: IO[str] | None = None) -> str:
    """The text in a colour, or bold or dim, where the stream takes it. Nothing is meant by colour
    alone."""
    if not name or not text or not has_colour(stream or sys.stdout):
        return text
    return f"\x1b[{_STYLES[name]}m{text}\x1b[0m"


def state(word: str, padded: str = "") -> str:
    """A state in its colour: green is well, yellow waits, red needs somebody."""
    return style(padded or word, _COLOURS.get(word.split(" ", maxsplit=1)[0].rstrip(","), ""))


def headed(text: str) -> str:
    """A help text with its headings bold and its hints dim."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.startswith("hint: "):
            lines[place] = style(line, "dim")
        elif line.startswith("usage: "):
            lines[place] = style("usage:", "bold") + line[6:]
        elif line.endswith(":") and line[:1].isalpha() and len(line.split()) < 3:
            lines[place] = style(line, "bold")
    return "\n".join(lines)


def cells(text: str) -> int:
    """The columns of a text, rather too many than too few: what is laid out by it must not be
    wrapped by the terminal, where a line could look like another."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text
    )


def fitted(text: str, most: int, measure: Callable[[str], int] = cells) -> str:
    """The text in at most so many columns; a mark shows that it was cut."""
    if measure(text) <= most:
        return text
    while text and measure(text) >= most:
        text = text[: min(len(text) - 1, most)]
    return f"{text}…"


def one_line(text: str, most: int = 100) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def hint_here(message: str, hint: str) -> str:
    """The hint of an error, or what to do about a variable that is set in this process alone."""
    words = message.replace(",", " ").split() if "is not set" in message else ()
    name = next((word for word in words if word.isupper() and os.environ.get(word)), "")
    told = f"{name} is set here, but the runtime was started without it: `hermes restart`"
    return told if name else hint


def count(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ago(moment: float, now: float) -> str:
    return f"{span(now - moment)} ago"


def stamp(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def moment(text: str, now: float) -> float:
    """`2d` before now, or an ISO date or time (local where it names no zone)."""
    if text[:-1].isdigit() and text[-1:] in _BACK:
        return now - int(text[:-1]) * _BACK[text[-1]]
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            f"not a valid time: {text!r}", "write 30m, 3h, 2d, 1w, or a date such as 2026-01-31"
        ) from None


def dollars(cost: float | None) -> str:
    if cost is None:
        return "-"
    return f"${cost:.4f}" if 0 < cost < 1 else f"${cost:.2f}"


def size(amount: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns. On a terminal, lines are cut to its width."""
    widths = [max(map(cells, column)) for column in zip(heads, *rows, strict=True)]
    room = 0
    if sys.stdout.isatty():
        import shutil

        room = shutil.get_terminal_size().columns
    lines = [_table_line(row, widths, heads, room) for row in rows]
    return "\n".join([_table_line(heads, widths, (), room), *lines])


def _table_line(row: Sequence[str], widths: Sequence[int], heads: Sequence[str], room: int) -> str:
    parts: list[str] = []
    used = 0
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        shown = fitted(cell, max(1, room - used)) if room else cell
        last = shown != cell or not any(row[place + 1 :])
        padded = shown if last else shown + " " * (width - cells(shown))
        if not heads:
            padded = style(padded, "bold")
        elif heads[place] in _STATE_HEADS:
            padded = state(shown, padded)
        parts.append(padded)
        used += width + 2
        if last or (room and used >= room):
            break
    return "  ".join(parts).rstrip()


def print_json(document: Any) -> None:
    print(json.dumps(document, ensure_ascii=False), flush=True)


def sure(question: str, yes: bool) -> bool:
    """Confirm something that cannot be undone; Enter means no."""
    if yes:
        return True
    if not os.isatty(0):
        raise UsageError("no terminal to prompt on", "--yes skips the question")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
