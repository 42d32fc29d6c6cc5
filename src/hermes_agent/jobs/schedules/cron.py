"""Parses the five fields of a cron expression as crontab(5) does, plus `L` for the last day of a
month, and `mon#1` or `fri#L` for its first Monday or last Friday."""

import calendar
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from itertools import product

from msgspec import Struct

from hermes_agent.core.errors import UsageError

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EPOCH = date(1970, 1, 1).toordinal()
LAST = -1
SHAPE = "minute hour day month weekday, as in `30 8 * * mon-fri`"


class CronField(Struct, frozen=True):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        named = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.name}s are {self.low} to {self.high}{named}"


MINUTE = CronField("minute", 0, 59)
HOUR = CronField("hour", 0, 23)
DAY = CronField("day", 1, 31)
MONTH = CronField("month", 1, 12, MONTHS)
WEEKDAY = CronField("weekday", 0, 7, WEEKDAYS)


class Cron(Struct, frozen=True):
    """A parsed expression. A day matches if its month does and its day of the month and weekday do:
    both if one of them begins with `*`, either if both are restricted."""

    times: tuple[int, ...]
    """Seconds after midnight, in order."""
    months: frozenset[int]
    days: frozenset[int]
    """`LAST` is the last day."""
    weekdays: frozenset[int]
    """0 is Sunday."""
    nth: frozenset[tuple[int, int]]
    """Weekdays with their place in the month; `LAST` is the last one."""
    either: bool
    all_days: bool
    all_hours: bool
    """Due in every hour: a skipped hour is not made up for."""
    repeats: bool
    """Due by the minute or in every hour: also in an hour that occurs twice."""

    def dates(self, first: int, last: int) -> Iterator[int]:
        """The matching days from `first` to `last`, as days since 1970."""
        if self.all_days:
            yield from range(first, last + 1)
            return
        day = date.fromordinal(first + EPOCH)
        year, month, place = day.year, day.month, day.day
        while (begin := date(year, month, 1).toordinal() - EPOCH) <= last:
            if month in self.months:
                for number in self._fitting(year, month):
                    if number >= place and begin + number - 1 <= last:
                        yield begin + number - 1
            place = 1
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if year > date.max.year:
                return

    def _fitting(self, year: int, month: int) -> list[int]:
        monday_first, length = calendar.monthrange(year, month)
        fitting = []
        for day in range(1, length + 1):
            weekday = (monday_first + day) % 7
            in_month = day in self.days or (day == length and LAST in self.days)
            in_week = weekday in self.weekdays or (
                bool(self.nth)
                and (
                    (weekday, (day + 6) // 7) in self.nth
                    or (day + 7 > length and (weekday, LAST) in self.nth)
                )
            )
            if (in_month or in_week) if self.either else (in_month and in_week):
                fitting.append(day)
        return fitting


@lru_cache(10_000)
def read_cron(text: str) -> Cron:
    """Parse an expression; `UsageError` names the wrong field."""
    minute, hour, day, month, weekday = fields_of(text)
    minutes, hours = _numbers(minute, MINUTE), _numbers(hour, HOUR)
    days, months = _month_days(day), _numbers(month, MONTH)
    weekdays, nth = _week_days(weekday)
    either = not day.startswith("*") and not weekday.startswith("*")
    all_hours = len(hours) == 24
    return Cron(
        tuple(h * 3600 + m * 60 for h, m in product(sorted(hours), sorted(minutes))),
        frozenset(months),
        frozenset(days),
        frozenset(weekdays),
        frozenset(nth),
        either,
        day == weekday == "*" and len(months) == 12,
        all_hours,
        all_hours or minute.startswith("*"),
    )


def fields_of(text: str) -> list[str]:
    said = text.strip().lower()
    if said.startswith("@"):
        if said not in MACROS:
            raise UsageError(
                f"not a valid schedule: {text.strip()!r}", f"known: {', '.join(MACROS)}"
            )
        said = MACROS[said]
    fields = said.split()
    if len(fields) != 5:
        raise UsageError(
            f"{text.strip()!r} has {len(fields)} fields, a cron expression has 5", SHAPE
        )
    return fields


def _number(text: str, field: CronField) -> int:
    if text[:3] in field.names and len(text) == 3:
        return field.names.index(text) + field.low
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"invalid {field.name}: {text!r}", field.hint)
    number = int(text) if len(text) < 6 else 100_000
    if not field.low <= number <= field.high:
        raise UsageError(f"invalid {field.name}: {text}", field.hint)
    return number


def _numbers(text: str, field: CronField) -> set[int]:
    """The numbers of one field: `*`, numbers, names, ranges and steps."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        if slash and not (step_text.isascii() and step_text.isdigit() and 0 < len(step_text) < 6):
            raise UsageError(f"{part!r} has no step after its '/'", "write it as `*/15`")
        step = int(step_text) if slash else 1
        if step == 0:
            raise UsageError(f"{part!r} has a step of 0", "write it as `*/15`")
        if slash and step > field.high - field.low + 1:
            raise UsageError(f"a step of {step} is too large for {field.name}s", field.hint)
        found.update(range(*_range(span, bool(slash), field), step))
    return found


def _range(span: str, stepped: bool, field: CronField) -> tuple[int, int]:
    high = 6 if field is WEEKDAY else field.high
    if span == "*":
        return field.low, high + 1
    low_text, dash, high_text = span.partition("-")
    low = _number(low_text, field)
    if not dash:
        return low, (max(high, low) if stepped else low) + 1
    high = _number(high_text, field)
    if field is WEEKDAY and high == 0 and low > 0:
        high = 7
    if low > high:
        raise UsageError(
            f"{span!r} runs backwards",
            f"list both parts: {field.low}-{high},{low}-{field.high}",
        )
    return low, high + 1


def _month_days(text: str) -> set[int]:
    parts = text.split(",")
    days = _numbers(",".join(rest), DAY) if (rest := [p for p in parts if p != "l"]) else set()
    return days | {LAST} if "l" in parts else days


def _week_days(text: str) -> tuple[set[int], set[tuple[int, int]]]:
    days: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for part in text.split(","):
        name, hash, place = part.partition("#")
        if not hash:
            days |= {day % 7 for day in _numbers(part, WEEKDAY)}
            continue
        if place not in ("1", "2", "3", "4", "5", "l"):
            raise UsageError(
                f"not a valid weekday position in a month: {place!r}",
                "write `mon#1` to `mon#5`, or `mon#L` for the last one",
            )
        nth.add((_number(name, WEEKDAY) % 7, LAST if place == "l" else int(place)))
    return days, nth
