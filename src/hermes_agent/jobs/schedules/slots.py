"""Computes when a schedule is due.

When clocks change, a schedule that names its hours follows the wall clock: a time that does not
exist is due once, right after the gap, and one that occurs twice is due the first time. A schedule
for every hour follows real time, through the gap and through the repeated hour, and so does one by
the minute (`*` or `*/15`) within its hours. Intervals count real seconds."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from hermes_agent.core.errors import UsageError
from hermes_agent.core.jobs import Schedule
from hermes_agent.jobs.schedules.cron import Cron, read_cron

DAY = 86_400
YEARS = 41
"""Every day of the calendar that a schedule can name recurs within so many years."""
LAST_YEAR = 9_000
"""Nothing is due after this year."""


def slots(schedule: Schedule, after: float, until: float, limit: int | None = None) -> list[float]:
    """The slots with `after < slot <= until`, in order; the first `limit` of them."""
    return list(islice(_slots(schedule, after, until), limit))


def next_slot(schedule: Schedule, after: float) -> float | None:
    """The first slot after a moment; None if there is none."""
    if schedule.kind == "cron":
        # Most are due within days; a year's changes of the clock are looked up only when needed.
        for days in (3, 400, YEARS * 366):
            if found := next(_slots(schedule, after, after + days * DAY), None):
                return found
        return None
    return next(_slots(schedule, after, math.inf), None)


def _slots(schedule: Schedule, after: float, until: float) -> Iterator[float]:
    match schedule.kind:
        case "once":
            return iter((schedule.start,) if after < schedule.start <= until else ())
        case "every":
            return _interval(schedule.start, schedule.seconds, after, until)
        case "cron":
            return _wall(read_cron(schedule.cron), zone_of(schedule.zone), after, until)


def _interval(start: float, seconds: float, after: float, until: float) -> Iterator[float]:
    count = max(0, math.floor((after - start) / seconds))
    while (slot := start + count * seconds) <= until:
        if slot > after:
            yield slot
        count += 1


def _wall(cron: Cron, zone: ZoneInfo, after: float, until: float) -> Iterator[float]:
    """Follow the wall clock of a zone through periods of constant offset from UTC."""
    start = math.floor(after) + 1
    for changed, before, offset, end in _stretches(zone, start, math.floor(until) + 1):
        last = None
        skipped = changed >= start and offset > before and not cron.all_hours
        if skipped and any(_times(cron, changed + before, changed + offset)):
            yield float(last := changed)
        begin = max(changed, start) + offset
        if offset < before and not cron.repeats:
            begin = max(begin, changed + before)
        for wall in _times(cron, begin, end + offset):
            if wall - offset != last:
                yield float(wall - offset)


def _times(cron: Cron, begin: int, end: int) -> Iterator[int]:
    """Wall-clock readings that match, in seconds since 1970 on that clock: `begin <= reading <
    end`."""
    if begin >= end:
        return
    for day in cron.dates(begin // DAY, (end - 1) // DAY):
        midnight = day * DAY
        low = bisect_left(cron.times, begin - midnight)
        high = bisect_left(cron.times, end - midnight)
        for time in cron.times[low:high]:
            yield midnight + time


def _stretches(zone: ZoneInfo, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """When the offset changed, the offsets before and after, and when the period ends. A change up
    to two days before `start` still matters to repeated hours."""
    changed = start - 2 * DAY
    before = offset = _offset(zone, changed)
    for year in range(_year(changed), min(_year(end), LAST_YEAR) + 1):
        for moment, old, new in _changes(zone, year):
            if moment <= changed:
                continue
            if moment >= end:
                break
            if moment > start:
                yield changed, before, offset, moment
            changed, before, offset = moment, old, new
    yield changed, before, offset, end


def _year(moment: float) -> int:
    return min((datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment)).year, LAST_YEAR)


def _offset(zone: ZoneInfo, moment: int) -> int:
    return int(
        (zone.utcoffset(datetime.fromtimestamp(moment, zone)) or timedelta()).total_seconds()
    )


@lru_cache(4_096)
def _changes(zone: ZoneInfo, year: int) -> Sequence[tuple[int, int, int]]:
    """The offset changes of a zone in a year of UTC: when, and the offsets before and after."""
    moment = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp())
    found = []
    old = _offset(zone, moment - 1)
    while moment < end:
        tomorrow = min(moment + DAY, end)
        new = _offset(zone, tomorrow - 1)
        if new != old:
            low, high = moment - 1, tomorrow - 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == old else (low, middle)
            found.append((high, old, new))
        moment, old = tomorrow, new
    return tuple(found)


@lru_cache(1_024)
def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # unknown, a folder, or no name of one
        hint = f"{_meant(name)}use a name such as `Europe/Berlin` or `UTC`"
        raise UsageError(f"unknown time zone {name!r}", hint) from error


def _meant(name: str) -> str:
    near = get_close_matches(name, available_timezones(), 1, 0.8) if name else []
    return f"did you mean {near[0]}? " if near else ""


def moment_of(reading: datetime, zone: str) -> float:
    """When a zone's clock shows this: the first time, or right after the gap that skips it."""
    there = zone_of(zone)
    first = reading.replace(tzinfo=there, fold=0)
    moment = first.timestamp()
    shown = datetime.fromtimestamp(moment, there).replace(tzinfo=None)
    if shown == reading:
        return moment
    ahead = int(reading.replace(tzinfo=UTC).timestamp())
    for year in {_year(moment - DAY), _year(moment + DAY)}:
        for changed, old, new in _changes(there, year):
            if changed + old <= ahead < changed + new:
                return float(changed)
    return moment
