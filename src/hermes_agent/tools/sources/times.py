"""Times as people and models write them: `now`, `15m ago`, `03:12`, ISO, epoch seconds."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from hermes_agent.core.errors import ToolError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(
    r"(?:now\s*)?-?\s*(\d+(?:\.\d+)?)\s*(?!mo)([smhdw])[a-z]*(?:\s+ago)?", re.IGNORECASE
)
_CLOCK = re.compile(r"(?:(yesterday|today)\s+)?(\d{1,2}):(\d{2})(?::(\d{2}))?", re.IGNORECASE)
HINT = "such as now, 15m ago, 03:12, 2026-11-19 03:12 or 2026-11-19T03:12:00Z"
LATEST = 250_000_000_000.0
"""In the year 9892: later ones cannot be written in every zone."""


class Window(Struct, frozen=True):
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def __contains__(self, time: float) -> bool:
        return self.start <= time <= self.end

    def __str__(self) -> str:
        return f"{stamp(self.start)} to {stamp(self.end)}"

    def step(self, points: int = 60) -> int:
        """Whole seconds between points, so that about this many fit."""
        return max(1, round(self.seconds / points))

    def parts(self, count: int) -> "list[Window]":
        """As many windows of equal length."""
        edges = [self.start + self.seconds * n / count for n in range(count)] + [self.end]
        return [Window(*pair) for pair in pairwise(edges)]

    @property
    def before(self) -> "Window":
        """As long a time before it."""
        return Window(self.start - self.seconds, self.start)


def moment(text: str, now: float) -> float:
    """Seconds since the epoch. Times without a zone are those of this machine; a time of day is the
    latest one that is not ahead."""
    if 0 <= (at := _moment(text, now)) < LATEST:
        return at
    raise ToolError(f"not a valid time: {text!r}", HINT, "changed")


def _moment(text: str, now: float) -> float:
    text = text.strip()
    if text.lower() in ("", "now"):
        return now
    if (found := _AGO.fullmatch(text)) is not None:
        return now - float(found[1]) * _SECONDS[found[2].lower()]
    if (found := _CLOCK.fullmatch(text)) is not None:
        return _time_of_day(text, found, now)
    if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ToolError(f"not a valid time: {text!r}", HINT, "changed") from None


def _time_of_day(text: str, found: re.Match[str], now: float) -> float:
    here = datetime.fromtimestamp(now).astimezone()
    try:
        hour, minute, second = int(found[2]), int(found[3]), int(found[4] or 0)
        at = here.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None)
    except ValueError:
        raise ToolError(f"not a valid time: {text!r}", HINT, "changed") from None
    day = (found[1] or "").lower()
    if day == "yesterday" or (not day and at.timestamp() > now):
        at -= timedelta(days=1)
    return at.timestamp()


def window(since: str, until: str, now: float) -> Window:
    end = moment(until, now)
    start = moment(since, end if _AGO.fullmatch(since.strip()) else now)
    if start >= end:
        raise ToolError(f"the time from {since!r} to {until or 'now'!r} is empty", HINT, "changed")
    return Window(start, end)


def stamp(time: float) -> str:
    """In this machine's zone, with its offset."""
    return f"{datetime.fromtimestamp(time).astimezone():%Y-%m-%d %H:%M:%S%z}"


def iso(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S}Z"


def parsed(text: str | None) -> float:
    """A time that a source wrote; 0 if there is none or it cannot be read."""
    try:
        # Go writes nine digits of a second; Python reads six.
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text or "")).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return at if 0 <= at < LATEST else 0.0


def epoch(value: object) -> float:
    """A time as text, or as seconds, milli-, micro- or nanoseconds since the epoch."""
    if isinstance(value, str) and not re.fullmatch(r"\d{9,20}(\.\d{1,9})?", value):
        return parsed(value)
    try:
        time = float(value)  # type: ignore[arg-type]  # other types are refused
    except (TypeError, ValueError):
        return 0.0
    while time > 1e11:
        time /= 1000
    return time if 0 <= time < LATEST else 0.0
