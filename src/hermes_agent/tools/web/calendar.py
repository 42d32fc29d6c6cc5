"""Reads calendars by their ICS address, with events that recur, in a process of their own."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.web.documents.extract import Enough, Extracted

CALENDAR_BYTES = 10_000_000
SHOWN = 100
ABOUT_CHARS = 200
TIMES = ("DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID")


@tool(capabilities=("network",), repeatable=True, hosts=("url",))
async def calendar(
    context: ToolContext,
    url: str,
    start: str = "",
    days: Annotated[int, Meta(ge=1, le=370)] = 7,
) -> ToolResult:
    """Events of a calendar by its ICS address, from a day (default: today) for some days; recurring
    ones as often as they happen."""
    from hermes_agent.tools.web.documents.worker import read_apart

    try:
        day = date.fromisoformat(start) if start else _here(context.clock()).date()
    except ValueError:
        raise ToolError(f"not a date: {start!r}", "such as 2026-11-19", "changed") from None
    data = await _fetched(context, url)
    made = await read_apart("calendar:read", data, url, day.isoformat(), days)
    text = wrap_untrusted("calendar", url, made.text or "no events")
    return ToolResult("\n".join([text, *made.notes]), {"events": made.count})


def read(data: bytes, start: str, days: int, _enough: Enough) -> Extracted:
    """The events of so many days."""
    day = date.fromisoformat(start)
    events, broken = _events(data, _midnight(day), _midnight(day + timedelta(days=days)))
    rows = [_row(*one) for one in events[:SHOWN]]
    notes = [f"[{len(events) - SHOWN} more]"] if len(events) > SHOWN else []
    notes += [f"[{broken} events have no time that can be read]"] if broken else []
    return Extracted("\n".join(rows), notes=tuple(notes), count=len(events))


async def _fetched(context: ToolContext, url: str) -> bytes:
    from hermes_agent.tools.web.client import ask

    address = url.replace("webcal://", "https://", 1)
    got = await ask(context, "GET", address, most=CALENDAR_BYTES)
    if got.status != 200:
        raise ToolError(f"the calendar answers {got.status}", "check the address", "changed")
    return got.data


def _events(data: bytes, first: datetime, last: datetime) -> tuple[list[tuple[Any, Any, Any]], int]:
    """Those of a time, and how many of the calendar are broken."""
    import icalendar
    import recurring_ical_events

    try:
        parsed = icalendar.Calendar.from_ical(data)
        every = parsed.subcomponents
        parsed.subcomponents = [one for one in every if not _is_broken(one)]
        found = recurring_ical_events.of(parsed).between(first, last)
    except (ValueError, KeyError, IndexError) as error:
        raise ToolError(
            f"it is no calendar: {error}", "it must be an ICS file", "changed"
        ) from None
    rows = [(one.start, one.end, one) for one in found]
    return sorted(rows, key=lambda row: _moment(row[0])), len(every) - len(parsed.subcomponents)


def _is_broken(part: Any) -> bool:
    """Whether it is an event that would make its calendar unreadable."""
    broken = "DTSTART" not in part or any(name in TIMES for name, _ in part.errors)
    return part.name == "VEVENT" and broken


def _moment(value: date | datetime) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()


def _midnight(day: date) -> datetime:
    """Of this machine's zone, in which events are shown."""
    return datetime(day.year, day.month, day.day).astimezone()


def _here(time: float) -> datetime:
    return datetime.fromtimestamp(time).astimezone()


def _row(start: Any, end: Any, event: Any) -> str:
    if isinstance(start, datetime):
        begin, stop = _here(start.timestamp()), _here(end.timestamp())
        day = "" if begin.date() == stop.date() else f"{stop:%a %Y-%m-%d} "
        when = f"{begin:%a %Y-%m-%d %H:%M} to {day}{stop:%H:%M}"
    else:
        when = f"{start:%a %Y-%m-%d} all day"
    place = f" ({event.get('location')})" if event.get("location") else ""
    state = " CANCELLED" if event.get("status") == "CANCELLED" else ""
    about = shortened(str(event.get("description", "")), ABOUT_CHARS)
    return f"{when}  {event.get('summary', 'no title')}{place}{state}\n  {about}".rstrip()
