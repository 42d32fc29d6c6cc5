"""What people write for a schedule, what it means, and what is refused rather than guessed."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_agent.jobs.schedules.parse import machine_zone, meaning, parse
from hermes_agent.jobs.schedules.slots import moment_of, next_slot, slots

NOW = datetime(2026, 11, 15, 14, 3, 20, 500_000, tzinfo=UTC).timestamp()
"""A Sunday; in Berlin it is 15:03."""
BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> float:
    return moment_of(datetime.fromisoformat(text), zone)


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("0 */6 * * *", "0 */6 * * *"),
        ("30 8 * * MON-FRI", "30 8 * * mon-fri"),
        ("@daily", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("TZ=America/New_York 0 9 * * *", "0 9 * * *"),
        ("weekdays at 8", "0 8 * * mon-fri"),
        ("Weekdays at 8 in America/New_York", "0 8 * * mon-fri"),
        ("every weekday at 8am", "0 8 * * mon-fri"),
        ("8:30 every weekday", "30 8 * * mon-fri"),
        ("mon-fri at 8", "0 8 * * mon-fri"),
        ("monday to friday at 8pm", "0 20 * * mon-fri"),
        ("every monday and thursday at 7:30", "30 7 * * mon,thu"),
        ("mon, wed and fri at 8, 12 and 17", "0 8,12,17 * * mon,wed,fri"),
        ("fridays at 9", "0 9 * * fri"),
        ("every week on monday at 9", "0 9 * * mon"),
        ("weekends at 10", "0 10 * * sun,sat"),
        ("noon every day", "0 12 * * *"),
        ("daily at 8:30 and 17:30", "30 8,17 * * *"),
        ("every day at 12am", "0 0 * * *"),
        ("every hour", "0 * * * *"),
        ("on the first of each month at 6", "0 6 1 * *"),
        ("on the 1st and 15th of every month at 6:30pm", "30 18 1,15 * *"),
        ("monthly on the 3rd at 6", "0 6 3 * *"),
        ("the last day of each month at 18", "0 18 L * *"),
        ("last friday of every month at 17:00", "0 17 * * fri#L"),
        ("every first monday of the month at 9", "0 9 * * mon#1"),
        ("every year on 24 december at 18:00", "0 18 24 12 *"),
        ("every june 1 at 8", "0 8 1 6 *"),
        ("every 15 minutes between 9 and 17 on weekdays", "*/15 9-16 * * mon-fri"),
        ("every 30 minutes from 22 to 6", "*/30 0,1,2,3,4,5,22,23 * * *"),
        ("every 2 hours between 8 and 18", "0 8-18/2 * * *"),
        ("hourly between 9 and 17 on weekdays", "0 9-17 * * mon-fri"),
        ("every 5 minutes on weekends", "*/5 * * * sun,sat"),
    ],
)
def test_times_that_come_again_become_cron_expressions(text: str, cron: str) -> None:
    schedule = parse(text, NOW, BERLIN)
    assert (schedule.kind, schedule.cron, schedule.given) == ("cron", cron, text)
    assert schedule.zone == ("America/New_York" if "New_York" in text else BERLIN)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every 2h", 7200),
        ("every 90 minutes", 5400),
        ("every 1h30m", 5400),
        ("every 3 days", 259200),
    ],
)
def test_intervals_count_from_now(text: str, seconds: float) -> None:
    schedule = parse(text, NOW, BERLIN)
    assert (schedule.kind, schedule.seconds, schedule.start) == ("every", seconds, float(int(NOW)))
    assert next_slot(schedule, NOW) == int(NOW) + seconds


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("30m", "2026-11-15T15:33:20"),
        ("in 2 hours", "2026-11-15T17:03:20"),
        ("tomorrow at noon", "2026-11-16T12:00"),
        ("today at 23:15", "2026-11-15T23:15"),
        ("in 3 days at 14:00", "2026-11-18T14:00"),
        ("in 3 days", "2026-11-18T15:03:20"),
        ("in a week at 9", "2026-11-22T09:00"),
        ("next friday at 9", "2026-11-20T09:00"),
        ("next sunday at 9", "2026-11-22T09:00"),
        ("24 december at 18:00", "2026-12-24T18:00"),
        ("on march 1 at 8", "2027-03-01T08:00"),
        ("29 february at 8", "2028-02-29T08:00"),
        ("2026-12-24 18:00", "2026-12-24T18:00"),
        ("2026-12-24 at 18:00", "2026-12-24T18:00"),
        ("2026-12-24T17:00Z", "2026-12-24T18:00"),
        ("2026-12-24T18:00+01:00", "2026-12-24T18:00"),
        ("2027-03-28 02:30", "2027-03-28T03:00"),  # the clock skips it
        ("2026-12-24 12:00 America/New_York", "2026-12-24T18:00"),
    ],
)
def test_single_moments_are_due_once(text: str, when: str) -> None:
    schedule = parse(text, NOW, BERLIN)
    assert (schedule.kind, schedule.start) == ("once", at(when))
    assert slots(schedule, NOW, NOW + 1e9) == [at(when)]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("61 * * * *", "invalid minute: 61", "minutes are 0 to 59"),
        ("0 24 * * *", "invalid hour: 24", "hours are 0 to 23"),
        ("0 8 32 * *", "invalid day: 32", "days are 1 to 31"),
        ("0 8 * 13 *", "invalid month: 13", "jan to dec"),
        ("0 8 * * fun", "invalid weekday: 'fun'", "sun to sat"),
        ("0 8 * * 8", "invalid weekday: 8", "0 to 7"),
        ("0 8 30 2 *", "'0 8 30 2 *' is never due", "days and months"),
        ("0 8 */31 * mon#2", "is never due", "days and months"),
        ("*/0 * * * *", "step of 0", "*/15"),
        ("*/x * * * *", "no step", "*/15"),
        ("*/99 * * * *", "a step of 99", "0 to 59"),
        ("0 22-6 * * *", "runs backwards", "0-6,22-23"),
        ("0 8 * * mon#6", "not a valid weekday position in a month: '6'", "mon#L"),
        ("* * * *", "4 fields", "minute hour day month weekday"),
        ("0 0 8 * * *", "6 fields", "minute hour day month weekday"),
        ("@reboot", "not a valid schedule: '@reboot'", "@daily"),
        ("0 8 * * * Mars/Olympus", "unknown time zone 'Mars/Olympus'", "Europe/Berlin"),
        ("every 0s", "not a valid interval", "1 second"),
        ("every saturday at 25", "not a valid time of day: 25", "0 to 23"),
        ("every saturday at 13pm", "not a valid time of day: 13pm", "1 to 12"),
        ("every monday at 7:75", "not a valid time of day: 7:75", "0 to 59"),
        ("the 32nd of each month at 8", "not a valid day of the month: 32", "1 to 31"),
        ("today at 8", "is in the past: 2026-11-15 08:00", "future"),
        ("2020-01-01 08:00", "is in the past", "future"),
        ("2026-13-24 18:00", "not a valid time: '2026-13-24 18:00' (month", "2030-01-31 09:00"),
        ("2026-12-24", "has no time of day", "2026-12-24 09:00"),
        ("30 february at 8", "not a valid date", "month"),
    ],
)
def test_what_is_wrong_is_named_with_a_way_out(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, NOW, BERLIN)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "at 8", "daily", "friday at 9", "first monday at 9", "the 15th at 8", "the",
        "weekly at 8", "monthly at 8", "every evening at 8", "every other day at 8",
        "every second monday at 9",
        "every 3 days at 8", "daily at 8 and 17:30", "every 7 minutes between 9 and 17",
        "weekdays at 8 every monday at 9", "tomorrow", "tomorrow at 8 and 9", "whenever you like",
        "every blue moon at 8", "8", "between 9 and 17", "every monday at", "next month at 8",
        "every 15 minutes between 9:30 and 17", "in 99999 days at 8", "in many days",
        "tonight at 8", "monday the 3rd at 8", "every 24 december 2027 at 8", "x" * 1000,
    ],
)  # fmt: skip
def test_what_is_unclear_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, NOW, BERLIN)
    assert "`weekdays at 8`" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mondays at 8", "at 08:00 on Monday; next Mon 2026-11-16 08:00, Mon 2026-11-23 08:00, "),
        ("*/20 8-18 * * *", "every 20 minutes from 08:00 to 18:59; "),
        ("15 * * * *", "at minute 15 of every hour; "),
        ("* * * * *", "every minute; "),
        ("0 */3 * * *", "every 3 hours; "),
        ("0 9 13 * fri", "at 09:00 on day 13 of the month, or on Friday; "),
        ("0 9 l * *", "at 09:00 on the last day of the month; "),
        ("0 9 24 12 *", "at 09:00 on day 24 of December; "),
        ("0 9 * 6-8 sat,sun", "at 09:00 on Saturday and Sunday in June, July and August; "),
        ("0 9 * * mon#1", "at 09:00 on the first Monday of the month; "),
        ("0 9 * 1,7 *", "at 09:00 every day in January and July; "),
        ("every 90m", "every 1 hour 30 minutes; next Sun 2026-11-15 16:33:20, "),
        ("every minute", "every minute; "),
        ("tomorrow at noon", "once; at Mon 2026-11-16 12:00 (Europe/Berlin)"),
    ],
)  # fmt: skip
def test_the_meaning_is_shown_with_the_next_three_times(text: str, words: str) -> None:
    schedule = parse(text, NOW, BERLIN)
    assert meaning(schedule, NOW).startswith(words)
    assert f"({BERLIN})" in meaning(schedule, NOW)
    if schedule.kind != "once":
        assert meaning(schedule, NOW).count("202") == 3
    else:
        assert "no longer due" in meaning(schedule, NOW + 1e9)


WORDS = st.sampled_from([
    "every", "each", "daily", "weekdays", "monday", "fridays", "and", "at", "on", "the", "of", "to",
    "8", "17:30", "12am", "noon", "first", "15th", "last", "month", "day", "hour", "in", "3",
    "days", "minutes", "between", "9", "17", "tomorrow", "next", "december", "24", "2027", ",", "-",
    "*", "*/5", "0", "2h", "30m", "2026-12-24", "Europe/Berlin", "UTC", "#", "½", "٣", "\x00",
    "1e9",
    "999999999999", "mon#1", "l",
])  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=9).map(" ".join)))
def test_any_text_is_a_schedule_to_come_or_refused(text: str) -> None:
    try:
        schedule = parse(text, NOW, BERLIN)
    except UsageError:
        return
    slot = next_slot(schedule, NOW)
    assert slot is not None
    assert slot > NOW
    assert meaning(schedule, NOW)


def test_the_zone_of_the_machine(tmp_path: Path) -> None:
    assert machine_zone({}, tmp_path) == "UTC"
    assert machine_zone({"TZ": ":Asia/Tokyo"}, tmp_path) == "Asia/Tokyo"
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert machine_zone({"TZ": "CET-1CEST"}, tmp_path) == "Europe/Berlin"
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/America/New_York")
    assert machine_zone({}, tmp_path) == "America/New_York"
