"""When a cron expression is due, found the slow way: one minute of the year after the other, by
nothing but the clock of the zone. It shares no code with what it checks."""

import calendar
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
NAMES = {
    name: number
    for names, low in ((calendar.month_abbr[1:], 1), (("sun", "mon", "tue", "wed", "thu", "fri",
                                                       "sat"), 0))
    for number, name in enumerate((name.lower() for name in names), low)
}  # fmt: skip


def _value(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


def _listed(field: str, low: int, high: int, number: int) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            begin, end = low, high
        elif "-" in span:
            begin, end = (_value(one) for one in span.split("-"))
        else:
            begin = _value(span)
            end = high if step else begin
        if begin <= number <= end and (number - begin) % int(step or 1) == 0:
            return True
    return False


def _day(fields: list[str], wall: datetime) -> bool:
    _, _, days, months, weekdays = fields
    if not _listed(months, 1, 12, wall.month):
        return False
    length = calendar.monthrange(wall.year, wall.month)[1]
    weekday = (wall.weekday() + 1) % 7
    in_month = any(
        wall.day == length if part == "l" else _listed(part, 1, 31, wall.day)
        for part in days.split(",")
    )
    in_week = False
    for part in weekdays.split(","):
        name, hash, place = part.partition("#")
        if not hash:
            in_week |= _listed(part, 0, 6, weekday) or (
                weekday == 0 and part[:1] != "*" and _listed(part, 0, 7, 7)
            )
        elif _value(name) % 7 == weekday:
            in_week |= (
                wall.day + 7 > length if place == "l" else (wall.day - 1) // 7 + 1 == int(place)
            )
    both = days[0] == "*" or weekdays[0] == "*"
    return (in_month and in_week) if both else (in_month or in_week)


class Oracle:
    """The clock of a zone over a time, read once each minute; asked for many expressions."""

    def __init__(self, zone: str, begin: float, end: float) -> None:
        there = ZoneInfo(zone)
        first = int(begin - begin % 60)
        self.readings = [
            (moment, datetime.fromtimestamp(moment, there))
            for moment in range(first, int(end) + 1, 60)
        ]
        self.begin, self.end = begin, end

    def slots(self, expression: str) -> list[float]:
        """All with `begin < slot <= end`."""
        fields = expression.lower().split()
        minute, hour = fields[0], fields[1]
        minutes = [_listed(minute, 0, 59, number) for number in range(60)]
        hours = [_listed(hour, 0, 23, number) for number in range(24)]
        days: dict[object, bool] = {}

        def due(wall: datetime) -> bool:
            if not (minutes[wall.minute] and hours[wall.hour]):
                return False
            if (day := wall.date()) not in days:
                days[day] = _day(fields, wall)
            return days[day]

        found: list[float] = []
        before: datetime | None = None
        for moment, wall in self.readings:
            is_due = due(wall) and (wall.fold == 0 or minute[0] == "*" or all(hours))
            if before is not None and wall - before > MINUTE and not all(hours):
                skipped = before + MINUTE
                while skipped < wall:
                    is_due |= due(skipped)
                    skipped += MINUTE
            if is_due and self.begin < moment <= self.end:
                found.append(float(moment))
            before = wall
        return found
