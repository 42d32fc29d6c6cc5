"""When a cron expression is due, found the slow way: one minute of the year after the other, by
nothing but the clock of the zone. It shares no code with what it checks."""

import calendar
from array import array
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

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


def _day(fields: list[str], wall: date) -> bool:
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
    """The clock of a zone over a time, read for each minute of it; asked for many expressions."""

    def __init__(self, zone: str, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.first = int(begin // 3_600) * 3_600
        self.walls = array("q")
        """What the clock shows, in minutes since it showed 1970."""
        self.again = bytearray()
        """Whether it has shown that before."""
        there = ZoneInfo(zone)
        for hour in range(self.first, int(end) + 1, 3_600):
            ends = [self._read(hour, there), self._read(hour + 3_540, there)]
            if ends[1][0] - ends[0][0] == 59 and ends[0][1] == ends[1][1]:
                self.walls.extend(range(ends[0][0], ends[0][0] + 60))
                self.again.extend(bytes((ends[0][1],)) * 60)
                continue
            for moment in range(hour, hour + 3_600, 60):  # the clock changes within this hour
                wall, fold = self._read(moment, there)
                self.walls.append(wall)
                self.again.append(fold)
        self.skips = [
            (place, range(self.walls[place - 1] + 1, self.walls[place]))
            for place in range(1, len(self.walls))
            if self.walls[place] - self.walls[place - 1] > 1
        ]

    def _read(self, moment: int, zone: ZoneInfo) -> tuple[int, int]:
        shown = datetime.fromtimestamp(moment, zone)
        return int(shown.replace(tzinfo=UTC).timestamp()) // 60, shown.fold

    def slots(self, expression: str) -> list[float]:
        """All with `begin < slot <= end`."""
        fields = expression.lower().split()
        hours = [_listed(fields[1], 0, 23, hour) for hour in range(24)]
        times = [
            hours[minute // 60] and _listed(fields[0], 0, 59, minute % 60) for minute in range(1440)
        ]
        days: dict[int, bool] = {}

        def due(wall: int) -> bool:
            if not times[wall % 1440]:
                return False
            if (day := wall // 1440) not in days:
                days[day] = _day(fields, date(1970, 1, 1) + timedelta(days=day))
            return days[day]

        twice = fields[0][0] == "*" or all(hours)
        found = {
            place
            for place, wall in enumerate(self.walls)
            if times[wall % 1440] and due(wall) and (twice or not self.again[place])
        }
        if not all(hours):
            found |= {place for place, skipped in self.skips if any(map(due, skipped))}
        moments = (float(self.first + place * 60) for place in sorted(found))
        return [moment for moment in moments if self.begin < moment <= self.end]
