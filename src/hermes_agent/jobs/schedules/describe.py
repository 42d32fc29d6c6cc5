"""Describes cron expressions in English."""

from collections.abc import Sequence

from hermes_agent.jobs.schedules.cron import LAST, Cron, fields_of, read_cron
from hermes_agent.jobs.schedules.natural_language import LONG_DAYS, LONG_MONTHS

MAX_TIMES = 6
PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def describe_seconds(seconds: float) -> str:
    """`2 hours`, `1 hour 30 minutes`, `minute`: what follows `every`."""
    left, parts = round(seconds), list[str]()
    for name, length in UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    words = " ".join(parts) or f"{seconds:g} seconds"
    return words.removeprefix("1 ") if len(parts) == 1 else words


def describe_cron(text: str) -> str:
    cron = read_cron(text)
    return f"{_clock(text, cron)} {_days(text, cron)}".strip()


def joined(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _clock(text: str, cron: Cron) -> str:
    minute, hour, *_ = fields_of(text)
    if len(cron.times) <= MAX_TIMES:
        return "at " + joined([f"{time // 3600:02}:{time // 60 % 60:02}" for time in cron.times])
    hours = sorted({time // 3600 for time in cron.times})
    minutes = sorted({time // 60 % 60 for time in cron.times})
    whole = "" if cron.all_hours else _within(hours)
    if minute == "*":
        return f"every minute{whole}"
    step = minute.removeprefix("*/")
    if step.isdigit() and step != minute and 60 % int(step) == 0:
        return f"every {step} minutes{whole}"
    if minutes == [0]:
        step = hour.removeprefix("*/")
        if step.isdigit() and step != hour and 24 % int(step) == 0:
            return f"every {step} hours"
        return f"every hour{whole}"
    at = f"at minute{'s' if len(minutes) > 1 else ''} {_runs(minutes)}"
    return f"{at} of every hour" if cron.all_hours else f"{at}{whole}"


def _within(hours: Sequence[int]) -> str:
    if hours == list(range(hours[0], hours[-1] + 1)):
        return f" from {hours[0]:02}:00 to {hours[-1]:02}:59"
    return f" in the hours {_runs(hours)}"


def _runs(numbers: Sequence[int]) -> str:
    """Numbers, with consecutive ones as a range."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return joined([f"{row[0]} to {row[-1]}" if row[1:] else str(row[0]) for row in rows])


def _days(text: str, cron: Cron) -> str:
    _, _, day, _, weekday = fields_of(text)
    months = "the month" if len(cron.months) == 12 else _months(cron)
    numbers = _runs(sorted(cron.days - {LAST})) if cron.days - {LAST} else ""
    said = [f"day {numbers}"] if numbers else []
    if LAST in cron.days:
        said.append("the last day")
    of_month = f"on {joined(said)} of {months}" if day != "*" else ""
    of_week = f"on {_weekdays(cron, months)}" if weekday != "*" else ""
    if of_month and of_week:
        return f"{of_month}, {'or' if cron.either else 'if it is also'} {of_week}"
    if of_week and len(cron.months) < 12 and not cron.nth:
        return f"{of_week} in {months}"
    everyday = "" if len(cron.times) > MAX_TIMES else "every day"
    if len(cron.months) < 12:
        everyday = f"{everyday} in {months}".strip()
    return of_month or of_week or everyday


def _weekdays(cron: Cron, months: str) -> str:
    names = [name.capitalize() for name in LONG_DAYS]
    days = sorted((day or 7) for day in cron.weekdays)
    said = [f"the {PLACES[place]} {names[day]} of {months}" for day, place in sorted(cron.nth)]
    if len(days) > 2 and days == list(range(days[0], days[-1] + 1)):
        return joined([f"{names[days[0]]} to {names[days[-1] % 7]}", *said])
    return joined([*(names[day % 7] for day in days), *said])


def _months(cron: Cron) -> str:
    return joined([LONG_MONTHS[month - 1].capitalize() for month in sorted(cron.months)])
