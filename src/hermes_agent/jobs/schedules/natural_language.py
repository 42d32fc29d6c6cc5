"""Schedules in plain words: `weekdays at 8`, `tomorrow at noon`, `on the first of each month at 6`.
What could mean two things is refused with examples, never guessed."""

from datetime import date, datetime, time
from itertools import product

from hermes_agent.core.errors import UsageError
from hermes_agent.core.jobs import Schedule
from hermes_agent.jobs.schedules.cron import WEEKDAYS, read_cron
from hermes_agent.jobs.schedules.grammar import UNITS, ScheduleWords, Unclear
from hermes_agent.jobs.schedules.slots import moment_of, zone_of


def read_plain(text: str, now: float, zone: str) -> Schedule:
    """The schedule that plain words mean; `UsageError` with examples where they are not clear."""
    said = ScheduleWords(text, now, zone)
    said.read()
    days = said.weekdays or said.monthdays or said.month
    if said.date is not None or said.offset is not None:
        if days or said.every or said.interval or said.between:
            raise Unclear(f"{text!r} names one day and others, too")
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
            f"{text!r} is no interval", "one is at least a second and at most 10 years"
        )
    return Schedule("every", text, seconds=float(seconds), start=float(int(now)), zone=zone)


def once(text: str, moment: float, now: float, zone: str) -> Schedule:
    if moment <= now:
        raise UsageError(
            f"{text!r} is over: it was {datetime.fromtimestamp(moment, zone_of(zone)):%F %R}",
            "name a time to come",
        )
    return Schedule("once", text, start=moment, zone=zone)


def _once(said: ScheduleWords) -> Schedule:
    if said.date is None:
        if said.times:
            raise Unclear(f"{said.text!r} says when twice")
        return once(said.text, int(said.now) + (said.offset or 0.0), said.now, said.zone)
    if said.times:
        at = _only_time(said)
    elif said.offset is not None:
        at = datetime.fromtimestamp(int(said.now), zone_of(said.zone)).time()
    else:
        raise Unclear(f"{said.text!r} does not say at what time")
    return _at(said, said.date, at)


def _at(said: ScheduleWords, day: date, at: time) -> Schedule:
    return once(said.text, moment_of(datetime.combine(day, at), said.zone), said.now, said.zone)


def _only_time(said: ScheduleWords) -> time:
    if not said.times:
        raise Unclear(f"{said.text!r} does not say at what time")
    if len(said.times) > 1:
        raise Unclear(f"{said.text!r} names several times of one day: make a job for each")
    return said.times[0]


def _dated(said: ScheduleWords) -> Schedule:
    """`24 december at 18:00`: once, the next time that day comes."""
    if len(said.monthdays) != 1 or said.nth or said.monthdays[0] < 0:
        raise Unclear(f"which day {said.text!r} means is not clear")
    at = _only_time(said)
    today = said.today()
    for year in (said.year,) if said.year else range(today.year, today.year + 9):
        try:
            found = _at(said, date(year, said.month, said.monthdays[0]), at)
        except ValueError:
            continue  # no such day in this year
        except UsageError:
            if said.year:
                raise
            continue
        return found
    raise UsageError(f"{said.text!r} is no day of the calendar", "look at the day and the month")


def _clock(said: ScheduleWords) -> tuple[str, str]:
    """The fields of minute and hour."""
    if said.interval is not None or said.every == "hour":
        if said.times:
            raise Unclear(f"{said.text!r} names an interval and a time of day")
        count, unit = said.interval or (1, UNITS["hour"])
        return _steps(said, count, unit)
    if said.between is not None:
        raise Unclear(f"{said.text!r} does not say how often between those hours")
    if not (said.every or said.weekdays or said.monthdays):
        raise Unclear(f"{said.text!r} does not say on which days, or whether once")
    if not said.times:
        raise Unclear(f"{said.text!r} does not say at what time")
    hours = sorted({one.hour for one in said.times})
    minutes = sorted({one.minute for one in said.times})
    if {(one.hour, one.minute) for one in said.times} != set(product(hours, minutes)):
        raise Unclear(f"one schedule cannot be due at the times of {said.text!r}: make several")
    return ",".join(map(str, minutes)), ",".join(map(str, hours))


def _steps(said: ScheduleWords, count: int, unit: int) -> tuple[str, str]:
    begin, end = said.between or (0, 24)
    length = (end - begin) % 24 or 24
    if begin == end:
        raise Unclear(f"{said.text!r} names no time between its hours")
    if unit == UNITS["minute"] and 0 < count < 60 and 60 % count == 0:
        # The last one lies before the second hour: it is not due outside of them.
        minute = "*" if count == 1 else f"*/{count}"
        return minute, _hours([(begin + n) % 24 for n in range(length)])
    if unit == UNITS["hour"] and 0 < count < 24 and 24 % count == 0:
        last = length + (1 if said.between else 0)
        return "0", _hours([(begin + n) % 24 for n in range(0, last, count)])
    raise Unclear(f"the interval of {said.text!r} does not fit evenly into an hour or a day")


def _hours(hours: list[int]) -> str:
    """As short as it can be written."""
    step = hours[1] - hours[0] if len(hours) > 1 else 1
    ordered = step > 0 and hours == list(range(hours[0], hours[-1] + 1, step))
    if ordered and len(hours) * step == 24 and hours[0] == 0:
        return "*" if step == 1 else f"*/{step}"
    if ordered and len(hours) > 2:
        return f"{hours[0]}-{hours[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, sorted(hours)))


def _calendar(said: ScheduleWords) -> tuple[str, str, str]:
    """The fields of day, month and weekday."""
    month = str(said.month) if said.month else "*"
    if said.year:
        raise Unclear(f"{said.text!r} comes again and names a year")
    if said.nth:
        if said.every not in ("month", "year") or (said.every == "year") != bool(said.month):
            raise Unclear(f"{said.text!r} does not say of which months")
        place = "L" if said.nth == -1 else str(said.nth)
        return "*", month, f"{WEEKDAYS[said.weekdays[0]]}#{place}"
    if said.monthdays:
        wanted = "year" if said.month else "month"
        if said.weekdays or said.every != wanted:
            raise Unclear(f"{said.text!r} does not say of which months, or whether once")
        days = ("L" if day == -1 else str(day) for day in sorted(said.monthdays, key=_last_last))
        return ",".join(days), month, "*"
    if said.month or said.every in ("month", "year"):
        raise Unclear(f"{said.text!r} does not say on which day")
    if said.every == "week" and not said.weekdays:
        raise Unclear(f"{said.text!r} does not say on which day of the week")
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
