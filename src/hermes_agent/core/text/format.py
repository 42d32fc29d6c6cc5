"""Formats values for people."""

from datetime import UTC, datetime

_HOUR, _DAY = 3_600.0, 86_400.0


def utc_stamp(time: float | None) -> str:
    if time is None:
        return "-"
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"


def shortened(text: str, most: int) -> str:
    """A text on one line, cut where it is longer than `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def span(seconds: float) -> str:
    """`3 d 4 h`, `12 min`, `7 s`."""
    if seconds >= _DAY:
        return f"{seconds // _DAY:.0f} d {seconds % _DAY // _HOUR:.0f} h"
    if seconds >= _HOUR:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // 60:.0f} min"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
