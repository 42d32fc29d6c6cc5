"""When schedules are due on the days on which clocks change, and far away."""

from datetime import UTC, datetime

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.core.jobs import Schedule
from hermes_agent.jobs.schedules.slots import next_slot, slots, zone_of

BERLIN = "Europe/Berlin"


def cron(expression: str, zone: str = BERLIN) -> Schedule:
    return Schedule("cron", expression, expression, zone=zone)


def on(day: str, schedule: Schedule, hours: int = 25) -> list[str]:
    """The slots of a day, as the clock in UTC shows them."""
    zone = zone_of(schedule.zone)
    begin = datetime.fromisoformat(day).replace(tzinfo=zone).timestamp() - 1
    return [
        f"{datetime.fromtimestamp(slot, UTC):%H:%M}"
        for slot in slots(schedule, begin, begin + hours * 3600)
    ]


def test_a_time_that_does_not_exist_is_due_once_right_after_the_gap() -> None:
    assert on("2026-03-29", cron("30 2 * * *"), 23) == ["01:00"]
    assert on("2026-03-29", cron("5,30 2 * * *"), 23) == ["01:00"]
    assert on("2026-03-29", cron("0 2,3 * * *"), 23) == ["01:00"]
    assert on("2026-03-29", cron("30 2,3 * * *"), 23) == ["01:00", "01:30"]


def test_a_time_that_comes_twice_is_due_the_first_time() -> None:
    assert on("2026-10-25", cron("30 2 * * *")) == ["00:30"]
    assert on("2026-10-25", cron("0 1,2,3 * * *")) == ["23:00", "00:00", "02:00"]


def test_every_hour_and_every_quarter_go_on_in_real_time() -> None:
    assert len(on("2026-03-29", cron("30 * * * *"), 23)) == 23
    assert len(on("2026-10-25", cron("30 * * * *"))) == 25
    assert len(on("2026-03-29", cron("*/15 * * * *"), 23)) == 23 * 4
    assert len(on("2026-10-25", cron("*/15 * * * *"))) == 25 * 4
    assert len(on("2026-10-25", cron("*/15 2 * * *"))) == 8


def test_a_midnight_that_does_not_exist_is_not_lost() -> None:
    cairo = "Africa/Cairo"  # 2026-04-24 begins at 01:00
    assert on("2026-04-24", cron("0 0 * * *", cairo), 23) == ["22:00"]
    assert on("2026-04-24", cron("*/30 0 * * *", cairo), 23) == ["22:00"]
    assert on("2026-04-24", cron("0 */12 * * *", cairo), 23) == ["22:00", "09:00"]


def test_a_day_that_does_not_exist_is_made_up_for_at_once() -> None:
    apia = cron("0 8 * * fri", "Pacific/Apia")  # after 29 December 2011 came the 31st
    first = datetime(2011, 12, 29, tzinfo=UTC).timestamp()
    due = [
        datetime.fromtimestamp(slot, zone_of(apia.zone)) for slot in slots(apia, first, first + 9e5)
    ]
    assert [f"{slot:%m-%d %H:%M}" for slot in due] == ["12-31 00:00", "01-06 08:00"]


def test_intervals_count_real_seconds() -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp()
    every = Schedule("every", "every 1d", seconds=86_400.0, start=start, zone=BERLIN)
    assert slots(every, start - 1, start + 3 * 86_400) == [start + n * 86_400 for n in range(4)]
    assert slots(every, start, start + 86_400) == [start + 86_400]


def test_rare_days_are_found_and_days_that_never_come_are_none() -> None:
    now = datetime(2096, 3, 1, tzinfo=UTC).timestamp()
    leap = next_slot(cron("0 6 29 2 *", "UTC"), now)
    assert leap == datetime(2104, 2, 29, 6, tzinfo=UTC).timestamp()
    monday = next_slot(cron("0 6 * 2 mon#5", "UTC"), datetime(2017, 1, 1, tzinfo=UTC).timestamp())
    assert monday == datetime(2044, 2, 29, 6, tzinfo=UTC).timestamp()
    assert next_slot(cron("0 6 30 2 *", "UTC"), now) is None
    assert next_slot(cron("0 6 */31 * mon#2", "UTC"), now) is None
    assert next_slot(Schedule("once", "", start=5.0), 5.0) is None


@pytest.mark.parametrize(
    "name", ["", "Nowhere", "../../etc/passwd", "Europe", "\x00", "/etc/hosts"]
)
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown time zone"):
        zone_of(name)
