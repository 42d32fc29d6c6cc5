"""Schedules in plain words: `weekdays at 8`, `tomorrow at noon`, `on the first of each month at 6`.
One function reads each kind of clause. Unknown words and ambiguous texts are refused with examples,
never guessed."""

import re
from datetime import date, datetime, time, timedelta
from itertools import product
from typing import Literal

from hermes_agent.core.errors import UsageError
from hermes_agent.core.jobs import Schedule
from hermes_agent.jobs.schedules.cron import MONTHS, WEEKDAYS, read_cron
from hermes_agent.jobs.schedules.slots import moment_of, zone_of

EXAMPLES = (
    "`weekdays at 8`, `every monday and thursday at 7:30`, `tomorrow at noon`, "
    "`on the first of each month at 6`, `every 15 minutes between 9 and 17 on weekdays`, "
    "`in 3 days at 14:00`, `every 2h`, `30m`, `0 8 * * mon-fri`, `2030-01-31 09:00`"
)
UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
SHORT = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600, "hr": 3_600, "d": 86_400, "w": 604_800}
NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
LONG_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
LONG_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
GROUPS = {
    "weekdays": (1, 2, 3, 4, 5),
    "workdays": (1, 2, 3, 4, 5),
    "weekends": (6, 0),
    "weekend": (6, 0),
}
Every = Literal["", "hour", "day", "week", "month", "year"]
EVERY: dict[str, Every] = {
    "hour": "hour", "day": "day", "week": "week", "month": "month", "year": "year",
}  # fmt: skip
ALWAYS: dict[str, Every] = {
    "hourly": "hour", "daily": "day", "nightly": "day", "weekly": "week", "monthly": "month",
    "yearly": "year",
}  # fmt: skip

_WORD = re.compile(r"\d{1,2}:\d{2}|\d+[a-z]+|\d+|[a-z]+(?:[/_+-][a-z_/+-]+)*|,|&|-|\S")
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?\s*[a-z]+\s*)+")
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def unit_seconds(word: str) -> int | None:
    return SHORT.get(word) or SHORT.get(word.removesuffix("s")) or UNITS.get(word.removesuffix("s"))


def seconds_of(text: str) -> float | None:
    """A duration as `2h`, `1h30m`, `90 minutes`; None if it is not one."""
    if not _LENGTH.fullmatch(text):
        return None
    total = 0.0
    for number, word in _PIECE.findall(text):
        unit = unit_seconds(word)
        if unit is None or len(number) > 9:
            return None
        total += float(number) * unit
    return total


class Unclear(UsageError):
    def __init__(self, why: str) -> None:
        super().__init__(why, f"write it as one of these: {EXAMPLES}")


class ScheduleWords:
    """The words, read from left to right; each kind of clause may occur once, in any order."""

    def __init__(self, text: str, now: float, zone: str) -> None:
        self.text = text
        self.words: list[str] = _WORD.findall(text.lower())
        self.place = 0
        self.now, self.zone = now, zone
        self.every: Every = ""
        self.interval: tuple[int, int] | None = None
        """A count, and the seconds of its unit."""
        self.times: list[time] = []
        self.between: tuple[int, int] | None = None
        self.weekdays: list[int] = []
        self.one_weekday = False
        """A single weekday that is not said to recur."""
        self.monthdays: list[int] = []
        self.nth = 0
        self.month = 0
        self.year = 0
        self.date: date | None = None
        self.offset: float | None = None

    def read(self) -> None:
        while self.place < len(self.words):
            if not any(clause(self) for clause in _CLAUSES):
                raise Unclear(f"{self.words[self.place]!r} in {self.text!r} is not understood")

    def peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.words[place] if place < len(self.words) else ""

    def take(self, *wanted: str) -> bool:
        """Take these words if they come next."""
        here = self.words[self.place : self.place + len(wanted)]
        if here != list(wanted):
            return False
        self.place += len(wanted)
        return True

    def once(self, fresh: bool, what: str) -> None:
        if not fresh:
            raise Unclear(f"{self.text!r} gives {what} twice")

    def today(self) -> date:
        return datetime.fromtimestamp(self.now, zone_of(self.zone)).date()


def _filler(said: ScheduleWords) -> bool:
    return said.take("and") or said.take(",") or said.take("on") or said.take("the")


def _joins(said: ScheduleWords) -> bool:
    """A comma or `and` between items of one kind."""
    comma = said.take(",")
    return said.take("and") or said.take("&") or comma


def _number(word: str) -> int | None:
    return int(word) if word.isdigit() and len(word) < 6 else NUMBERS.get(word)


def _a_time(said: ScheduleWords) -> time | None:
    word = said.peek()
    if word in ("noon", "midday", "midnight"):
        said.place += 1
        return time(0 if word == "midnight" else 12)
    shape = re.fullmatch(r"(\d{1,2})(?::(\d{2}))?(am|pm|h)?", word)
    if shape is None:
        return None
    hour, minute, half = int(shape[1]), int(shape[2] or 0), shape[3] or ""
    said.place += 1
    if not half and said.peek() in ("am", "pm"):
        half = said.peek()
        said.place += 1
    elif not half and said.take("o", "'", "clock"):
        half = "h"
    written = word if half in word else f"{word} {half}"
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            raise UsageError(
                f"not a valid time of day: {written}", "hours are 1 to 12 with am and pm"
            )
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23:
        raise UsageError(f"not a valid time of day: {written}", "hours are 0 to 23")
    if minute > 59:
        raise UsageError(f"not a valid time of day: {written}", "minutes are 0 to 59")
    return time(hour, minute)


def _at(said: ScheduleWords) -> bool:
    """`at 8`, `at 8, 12 and 17`; a clear time of day needs no `at`."""
    word = said.peek()
    bare = word in ("noon", "midday", "midnight") or re.fullmatch(r"\d+:\d+|\d+(am|pm)", word)
    if not (bare or said.take("at")):
        return False
    said.once(not said.times, "the time of day")
    while True:
        back = said.place
        if said.times and not _joins(said):
            break
        one = _a_time(said)
        if one is None or said.peek() == "of" or unit_seconds(said.peek()):
            said.place = back
            break
        said.times.append(one)
    if not said.times:
        raise Unclear(f"no valid time of day after 'at' in {said.text!r}")
    return True


def _between(said: ScheduleWords) -> bool:
    if not (said.take("between") or said.take("from")):
        return False
    said.once(said.between is None, "the range of hours")
    first = _a_time(said)
    if first is None or not any(said.take(word) for word in ("and", "to", "until", "till", "-")):
        raise Unclear(f"unclear range of hours in {said.text!r}")
    last = _a_time(said)
    if last is None or first.minute or last.minute:
        raise Unclear(f"use whole hours for the range in {said.text!r}")
    said.between = (first.hour, last.hour)
    return True


def _every(said: ScheduleWords) -> bool:
    """`every 15 minutes`, `every day`, `daily`; `every` alone means that days recur."""
    word = said.peek()
    if word in ALWAYS:
        said.place += 1
        return _often(said, ALWAYS[word])
    if not (said.take("every") or said.take("each")):
        return False
    word = said.peek()
    if word in ("other", "second", "half"):
        raise Unclear(f"'every {word}' in {said.text!r} is not supported")
    count = _number(word)
    unit = unit_seconds(said.peek(1) if count is not None else word)
    if word in EVERY:
        said.place += 1
        return _often(said, EVERY[word])
    if unit is not None:
        said.once(said.interval is None and not said.every, "the interval")
        said.interval = (1 if count is None else count, unit)
        said.place += 1 if count is None else 2
        return True
    said.every = said.every or "week"
    if not (_weekdays(said) or _monthdays(said) or _a_month(said)):
        raise Unclear(f"unclear what follows 'every' in {said.text!r}")
    return True


def _often(said: ScheduleWords, unit: Every) -> bool:
    said.once(said.interval is None and said.every in ("", unit), "the interval")
    said.every = unit
    return True


def _weekday(word: str) -> int | None:
    """The number of a weekday, from its short, long or plural name."""
    for number, (short, long) in enumerate(zip(WEEKDAYS, LONG_DAYS, strict=True)):
        if word in (short, long, f"{long}s", {"tue": "tues", "thu": "thurs"}.get(short)):
            return number
    return None


def _weekdays(said: ScheduleWords) -> bool:
    if said.take("weekday"):
        said.weekdays += GROUPS["weekdays"]
        return True
    if said.peek() in GROUPS:
        said.once(not said.weekdays, "the days")
        said.weekdays += GROUPS[said.words[said.place]]
        said.place += 1
        return True
    hyphened = said.peek().split("-")
    if len(hyphened) == 2 and all(_weekday(one) is not None for one in hyphened):
        said.words[said.place : said.place + 1] = [hyphened[0], "-", hyphened[1]]
    if _weekday(said.peek()) is None:
        return False
    said.once(not said.weekdays, "the days")
    said.one_weekday = not said.peek().endswith("days")
    while (day := _weekday(said.peek())) is not None:
        said.place += 1
        if any(said.take(word) for word in ("-", "to", "through")):
            last = _weekday(said.peek())
            if last is None:
                raise Unclear(f"a range of days in {said.text!r} has no end")
            said.place += 1
            said.weekdays += [(day + n) % 7 for n in range((last - day) % 7 + 1)]
            said.one_weekday = False
        else:
            said.weekdays.append(day)
        back = said.place
        if not _joins(said) or _weekday(said.peek()) is None:
            said.place = back
            break
        said.one_weekday = False
    return True


def _ordinal(word: str) -> int | None:
    shape = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)", word)
    return int(shape[1]) if shape else ORDINALS.get(word)


def _monthdays(said: ScheduleWords) -> bool:
    """`1st and 15th of each month`, `last day of every month`, `first monday of the month`."""
    ahead = 1 if said.peek() == "the" else 0
    first = _ordinal(said.peek(ahead))
    if first is None:
        return False
    said.once(not said.monthdays and not said.nth, "the days")
    said.place += 1 + ahead
    if (day := _weekday(said.peek())) is not None:
        said.place += 1
        said.nth, said.weekdays = first, [day]
        if abs(first) > 5:
            raise Unclear(f"no month has that many weeks: {said.text!r}")
    else:
        said.take("day")
        said.monthdays = [first]
        while _joins(said):
            said.take("the")
            another = _ordinal(said.peek())
            if another is None:
                raise Unclear(f"not a valid day of the month: {said.peek()!r} in {said.text!r}")
            said.place += 1
            said.monthdays.append(another)
        for number in said.monthdays:
            if number != -1 and not 1 <= number <= 31:
                raise UsageError(f"not a valid day of the month: {number}", "days are 1 to 31")
    if said.take("of"):
        said.take("the")
        again = said.take("each") or said.take("every")
        if said.take("month") or (again and said.take("months")):
            said.every = "month"
        elif not _a_month(said):
            raise Unclear(f"unclear which month is meant in {said.text!r}")
        elif again:
            said.every = "year"
    return True


def _a_month(said: ScheduleWords) -> bool:
    """`24 december`, `december 24 2030`."""
    word = said.peek()
    number = int(word) if word.isdigit() and len(word) < 3 else None
    name = said.peek(1) if number is not None else word
    if name not in (*MONTHS, *LONG_MONTHS, "sept"):
        return False
    said.once(not said.month, "the month")
    said.month = MONTHS.index(name[:3]) + 1
    said.place += 1 if number is None else 2
    if number is None and not said.monthdays:
        said.take("the")
        ordinal = _ordinal(said.peek())
        digits = said.peek().isdigit() and len(said.peek()) < 3
        number = ordinal if ordinal is not None else int(said.peek()) if digits else None
        said.place += number is not None
    if number is not None:
        said.once(not said.monthdays, "the day")
        said.monthdays = [number]
    said.take(",")
    if said.peek().isdigit() and len(said.peek()) == 4:
        said.year = int(said.peek())
        said.place += 1
    if said.every == "week":
        said.every = "year"
    return True


def _one_day(said: ScheduleWords) -> bool:
    """`today`, `tomorrow`, `next friday`, `in 3 days`, `in 2 hours`."""
    today = said.today()
    if said.take("today"):
        day: date | None = today
    elif said.take("the", "day", "after", "tomorrow") or said.take("day", "after", "tomorrow"):
        day = today + timedelta(days=2)
    elif said.take("tomorrow"):
        day = today + timedelta(days=1)
    elif said.peek() == "next" and (wanted := _weekday(said.peek(1))) is not None:
        said.place += 2
        ahead = (wanted - (today.weekday() + 1)) % 7 or 7
        day = today + timedelta(days=ahead)
    elif said.peek() == "in" and (count := _number(said.peek(1))) is not None:
        unit = unit_seconds(said.peek(2))
        if unit is None:
            raise Unclear(f"not a valid unit of time: {said.peek(2)!r} in {said.text!r}")
        said.place += 3
        said.once(said.date is None and said.offset is None, "the date")
        if unit < UNITS["day"]:
            said.offset = float(count * unit)
            return True
        if count > 3_660:
            raise Unclear(f"{said.text!r} is more than ten years away")
        day = today + timedelta(days=count * unit // UNITS["day"])
        said.offset = float(count * unit)
    else:
        return False
    said.once(said.date is None, "the date")
    said.date = day
    return True


_CLAUSES = (_at, _between, _every, _one_day, _weekdays, _monthdays, _a_month, _filler)


def read_plain(text: str, now: float, zone: str) -> Schedule:
    """Parse plain words; `UsageError` with examples if they are unclear."""
    said = ScheduleWords(text, now, zone)
    said.read()
    days = said.weekdays or said.monthdays or said.month
    if said.date is not None or said.offset is not None:
        if days or said.every or said.interval or said.between:
            raise Unclear(f"{text!r} mixes a single date with recurring days")
        return _once(said)
    if said.interval is not None and not (days or said.between or said.times):
        return every(text, said.interval[0] * said.interval[1], now, zone)
    if said.month and not said.every and not said.interval:
        return _dated(said)
    cron = " ".join((*_clock(said), *_calendar(said)))
    read_cron(cron)
    return Schedule("cron", text, cron, zone=zone)


def every(text: str, seconds: float, now: float, zone: str) -> Schedule:
    if not 1 <= seconds <= 3_660 * UNITS["day"]:
        raise UsageError(
            f"not a valid interval: {text!r}", "an interval is from 1 second to 10 years"
        )
    return Schedule("every", text, seconds=float(seconds), start=float(int(now)), zone=zone)


def once(text: str, moment: float, now: float, zone: str) -> Schedule:
    if moment <= now:
        raise UsageError(
            f"{text!r} is in the past: {datetime.fromtimestamp(moment, zone_of(zone)):%F %R}",
            "give a time in the future",
        )
    return Schedule("once", text, start=moment, zone=zone)


def _once(said: ScheduleWords) -> Schedule:
    if said.date is None:
        if said.times:
            raise Unclear(f"{said.text!r} gives the time twice")
        return once(said.text, int(said.now) + (said.offset or 0.0), said.now, said.zone)
    if said.times:
        at = _only_time(said)
    elif said.offset is not None:
        at = datetime.fromtimestamp(int(said.now), zone_of(said.zone)).time()
    else:
        raise Unclear(f"{said.text!r} has no time of day")
    return _at_time(said, said.date, at)


def _at_time(said: ScheduleWords, day: date, at: time) -> Schedule:
    return once(said.text, moment_of(datetime.combine(day, at), said.zone), said.now, said.zone)


def _only_time(said: ScheduleWords) -> time:
    if not said.times:
        raise Unclear(f"{said.text!r} has no time of day")
    if len(said.times) > 1:
        raise Unclear(f"{said.text!r} names several times on one day: create a job for each")
    return said.times[0]


def _dated(said: ScheduleWords) -> Schedule:
    """`24 december at 18:00`: once, on the next such day."""
    if len(said.monthdays) != 1 or said.nth or said.monthdays[0] < 0:
        raise Unclear(f"unclear which day {said.text!r} means")
    at = _only_time(said)
    today = said.today()
    for year in (said.year,) if said.year else range(today.year, today.year + 9):
        try:
            found = _at_time(said, date(year, said.month, said.monthdays[0]), at)
        except ValueError:
            continue  # no such day in this year
        except UsageError:
            if said.year:
                raise
            continue
        return found
    raise UsageError(f"not a valid date: {said.text!r}", "check the day and the month")


def _clock(said: ScheduleWords) -> tuple[str, str]:
    """The minute and hour fields."""
    if said.interval is not None or said.every == "hour":
        if said.times:
            raise Unclear(f"{said.text!r} names an interval and a time of day")
        count, unit = said.interval or (1, UNITS["hour"])
        return _steps(said, count, unit)
    if said.between is not None:
        raise Unclear(f"{said.text!r} does not say how often within those hours")
    if not (said.every or said.weekdays or said.monthdays):
        raise Unclear(f"{said.text!r} does not say which days, or whether it runs once")
    if not said.times:
        raise Unclear(f"{said.text!r} has no time of day")
    hours = sorted({one.hour for one in said.times})
    minutes = sorted({one.minute for one in said.times})
    if {(one.hour, one.minute) for one in said.times} != set(product(hours, minutes)):
        raise Unclear(f"one schedule cannot cover the times in {said.text!r}: create several")
    return ",".join(map(str, minutes)), ",".join(map(str, hours))


def _steps(said: ScheduleWords, count: int, unit: int) -> tuple[str, str]:
    begin, end = said.between or (0, 24)
    length = (end - begin) % 24 or 24
    if begin == end:
        raise Unclear(f"{said.text!r} has an empty range of hours")
    if unit == UNITS["minute"] and 0 < count < 60 and 60 % count == 0:
        # The last one lies before the second hour: it is not due outside of them.
        minute = "*" if count == 1 else f"*/{count}"
        return minute, _hours([(begin + n) % 24 for n in range(length)])
    if unit == UNITS["hour"] and 0 < count < 24 and 24 % count == 0:
        last = length + (1 if said.between else 0)
        return "0", _hours([(begin + n) % 24 for n in range(0, last, count)])
    raise Unclear(f"the interval of {said.text!r} does not fit evenly into an hour or a day")


def _hours(hours: list[int]) -> str:
    """Hours in the shortest notation."""
    step = hours[1] - hours[0] if len(hours) > 1 else 1
    ordered = step > 0 and hours == list(range(hours[0], hours[-1] + 1, step))
    if ordered and len(hours) * step == 24 and hours[0] == 0:
        return "*" if step == 1 else f"*/{step}"
    if ordered and len(hours) > 2:
        return f"{hours[0]}-{hours[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, sorted(hours)))


def _calendar(said: ScheduleWords) -> tuple[str, str, str]:
    """The day, month and weekday fields."""
    month = str(said.month) if said.month else "*"
    if said.year:
        raise Unclear(f"{said.text!r} recurs and names a year")
    if said.nth:
        if said.every not in ("month", "year") or (said.every == "year") != bool(said.month):
            raise Unclear(f"{said.text!r} does not say which months")
        place = "L" if said.nth == -1 else str(said.nth)
        return "*", month, f"{WEEKDAYS[said.weekdays[0]]}#{place}"
    if said.monthdays:
        wanted = "year" if said.month else "month"
        if said.weekdays or said.every != wanted:
            raise Unclear(f"{said.text!r} does not say which months, or whether it runs once")
        days = ("L" if day == -1 else str(day) for day in sorted(said.monthdays, key=_last_last))
        return ",".join(days), month, "*"
    if said.month or said.every in ("month", "year"):
        raise Unclear(f"{said.text!r} does not say which day")
    if said.every == "week" and not said.weekdays:
        raise Unclear(f"{said.text!r} does not say which day of the week")
    if said.one_weekday and not (said.every or said.interval):
        raise Unclear(f"{said.text!r} does not say whether once or every week")
    return "*", "*", _week(sorted(set(said.weekdays)))


def _last_last(day: int) -> int:
    return day if day > 0 else 32


def _week(days: list[int]) -> str:
    if not days or len(days) == 7:
        return "*"
    if len(days) > 2 and days == list(range(days[0], days[-1] + 1)):
        return f"{WEEKDAYS[days[0]]}-{WEEKDAYS[days[-1]]}"
    return ",".join(WEEKDAYS[day] for day in days)
