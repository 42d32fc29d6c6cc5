"""Results made for reading: tables, small plots as text, changes in order of time."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from hermes_agent.core.text.format import shortened
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.sources.connection import Source
from hermes_agent.tools.sources.times import stamp

ROWS = 50
CELL_CHARS = 120
_BARS = "▁▂▃▄▅▆▇█"


class Change(Struct, frozen=True):
    """Something that became different, or happened, at a time."""

    time: float
    what: str
    who: str = ""
    link: str = ""


def answer(
    source: Source | str, text: str, data: dict[str, Any] | None = None, notes: Iterable[str] = ()
) -> ToolResult:
    """What a source said, framed as content from elsewhere; `notes` are our own words."""
    name = source if isinstance(source, str) else source.name
    text = text.encode(errors="replace").decode()  # half characters cannot be journaled
    lines = [wrap_untrusted("source", name, text), *(f"[{note}]" for note in notes if note)]
    return ToolResult("\n".join(lines), {"source": name, **(data or {})})


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], limit: int = ROWS) -> str:
    """Columns as wide as their widest cell; the last is never padded."""
    cells = [[shortened(_cell(one), CELL_CHARS) for one in row] for row in rows[:limit]]
    shown = [list(headers), *cells]
    widths = [max(len(row[at]) for row in shown) for at in range(len(headers))]
    widths[-1] = 0
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    return "\n".join([*lines, *left_out(rows, limit)])


def left_out(rows: Sequence[object], limit: int, what: str = "") -> list[str]:
    """A line that says how many there are beyond the limit, if there are."""
    return [f"… and {len(rows) - limit} more {what}".rstrip()] if len(rows) > limit else []


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Four significant digits; large and small ones stay readable."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def plot(values: Sequence[float]) -> str:
    """A line of bars from the least value to the greatest."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        _BARS[round((value - low) * scale)] if math.isfinite(value) else " " for value in values
    )


def timeline(changes: Iterable[Change]) -> str:
    """In order of time; of many, the latest."""
    rows = sorted(changes, key=lambda one: one.time)
    shown = [(stamp(one.time), one.what, one.who, one.link) for one in rows[-ROWS:]]
    earlier = f"… {len(rows) - ROWS} earlier\n" if len(rows) > ROWS else ""
    return earlier + table(("time", "what", "who", "link"), shown)
