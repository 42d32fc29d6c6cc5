"""Times, costs, sizes, lines and tables as commands print them."""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

_BACK = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


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


def span(seconds: float) -> str:
    """`3 d 4 h`, `12 min`, `7 s`: the two largest units."""
    rest = int(max(0.0, seconds))
    parts = []
    for name, size in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {name}")
            rest %= size
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


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
    return f"${cost:.4f}" if cost < 1 else f"${cost:.2f}"


def size(amount: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns. On a terminal, lines are cut to its width."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]
    if sys.stdout.isatty():
        import shutil

        most = shutil.get_terminal_size().columns
        lines = [line if len(line) <= most else line[: most - 1] + "…" for line in lines]
    return "\n".join(lines)


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
