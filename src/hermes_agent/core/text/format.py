"""Formats values for people."""

import re
import time
from datetime import UTC, datetime

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
SLUG_CHARS = 60


def utc_stamp(moment: float | None) -> str:
    if moment is None:
        return "-"
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def hour_of(moment: float) -> float:
    """When the local hour began; some zones are not whole hours from UTC."""
    ahead = time.localtime(moment).tm_gmtoff
    return (moment + ahead) // 3_600.0 * 3_600.0 - ahead


def slug(text: str) -> str:
    """A name for a file or a check: lower case, with dashes; empty if nothing is left."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:SLUG_CHARS].rstrip("-")


def shortened(text: str, most: int) -> str:
    """A text on one line, cut where it is longer than `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def code_fence(text: str) -> str:
    """The backticks around a text that is to be a code block in Markdown."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


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
