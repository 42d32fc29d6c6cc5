"""Parses schedules as people write them, and says in words what a schedule means."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from hermes_agent.core.errors import UsageError
from hermes_agent.core.jobs import Schedule
from hermes_agent.jobs.schedules.cron import fields_of, read_cron
from hermes_agent.jobs.schedules.describe import describe_cron, describe_seconds
from hermes_agent.jobs.schedules.natural_language import (
    EXAMPLES,
    Unclear,
    every,
    once,
    read_plain,
    seconds_of,
)
from hermes_agent.jobs.schedules.slots import moment_of, next_slot, slots, zone_of

MAX_LETTERS = 200
SHOWN = 3
YEARS_AHEAD = 41 * 366 * 86_400.0

_ZONE_BEFORE = re.compile(r"(?:cron_)?tz=(\S+)\s+", re.IGNORECASE)
_ZONE_WITHIN = re.compile(
    r"(?:^|[\s,])+(?:in\s+)?([a-z]+(?:/[a-z_+-]+\d*)+|utc|gmt)\b", re.IGNORECASE
)
_CRON_FIELD = re.compile(r"[\d*][\w*/,#-]*|[a-z]{3}[\w,#-]*|l[\d,-]*")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}t|\d{4}-w\d{2}")


def machine_zone(environ: Mapping[str, str], etc: Path = Path("/etc")) -> str:
    """The time zone of this machine; UTC if it has none."""
    link = etc / "localtime"
    names = [environ.get("TZ", "").removeprefix(":")]
    if link.is_symlink():
        names.append(str(link.readlink()).partition("zoneinfo/")[2])
    if (etc / "timezone").is_file():
        names.append((etc / "timezone").read_text(errors="replace").strip())
    for name in names:
        try:
            return zone_of(name).key
        except UsageError:
            continue
    return "UTC"


def parse(text: str, now: float, zone: str) -> Schedule:
    """Parse a cron expression, `every 2h`, `30m`, an ISO time or plain words. `zone` applies to
    texts that name none. `UsageError` if the text is wrong or unclear."""
    given = " ".join(text.split())
    if not given:
        raise Unclear("no schedule given")
    if len(given) > MAX_LETTERS or not given.isascii():
        raise Unclear(f"not a valid schedule: {given[:40]!r}")
    said, zone = _zone_of(given, zone)
    lower = said.lower()
    if lower.startswith("@") or _looks_like_cron(lower):
        fields = fields_of(lower)
        read_cron(" ".join(fields))
        return _coming(Schedule("cron", given, " ".join(fields), zone=zone), now)
    if _ISO.match(lower):
        return once(given, _iso(said, zone), now, zone)
    if (seconds := seconds_of(lower.removeprefix("in "))) is not None:
        if seconds <= 0:
            raise UsageError(f"{given!r} means right now", "`hermes task run` runs a job at once")
        return once(given, int(now) + seconds, now, zone)
    if lower.startswith("every ") and (seconds := seconds_of(lower[6:])) is not None:
        return every(given, seconds, now, zone)
    return _coming(replace(read_plain(said, now, zone), given=given), now)


def _coming(schedule: Schedule, now: float) -> Schedule:
    if next_slot(schedule, now) is None:
        raise UsageError(f"{schedule.given!r} is never due", "check its days and months")
    return schedule


def _zone_of(text: str, zone: str) -> tuple[str, str]:
    """The text without its zone, and the zone, which defaults to `zone`."""
    named = _ZONE_BEFORE.match(text)
    if named is None:
        named = _ZONE_WITHIN.search(text)
    if named is None:
        return text, zone_of(zone).key
    name = named[1].upper() if named[1].lower() in ("utc", "gmt") else named[1]
    return (text[: named.start()] + " " + text[named.end() :]).strip(), zone_of(name).key


def _looks_like_cron(text: str) -> bool:
    fields = text.split()
    if len(fields) < 2 or not all(_CRON_FIELD.fullmatch(field) for field in fields):
        return False
    return "*" in text or (len(fields) == 5 and fields[0][0].isdigit() and fields[1][0].isdigit())


def _iso(text: str, zone: str) -> float:
    written = re.sub(r"\s+at\s+|\s+", "T", text, count=1)
    try:
        moment = datetime.fromisoformat(written)
    except ValueError as error:
        raise UsageError(
            f"not a valid time: {text!r} ({error})",
            "write it as `2030-01-31 09:00` or with `+01:00`",
        ) from error
    if not re.search(r"t\d", written, re.IGNORECASE):
        raise UsageError(f"{text!r} has no time of day", f"write it as `{text} 09:00`")
    return moment.timestamp() if moment.tzinfo else moment_of(moment, zone)


def meaning(schedule: Schedule, now: float, *, active: bool = True) -> str:
    """What a schedule means, its next times if it is active, and its zone."""
    match schedule.kind:
        case "cron":
            words = describe_cron(schedule.cron)
        case "every":
            words = f"every {describe_seconds(schedule.seconds)}"
        case "once":
            words = "once"
    if not active and schedule.kind != "once":
        return f"{words} ({schedule.zone})"
    times = slots(schedule, now, now + YEARS_AHEAD, SHOWN)
    if not times:
        return f"{words}; no longer due ({schedule.zone})"
    shown = ", ".join(shown_time(slot, schedule.zone) for slot in times)
    label = "at" if schedule.kind == "once" else "next"
    return f"{words}; {label} {shown} ({schedule.zone})"


def shown_time(moment: float, zone: str) -> str:
    there = datetime.fromtimestamp(moment, zone_of(zone))
    return f"{there:%a %Y-%m-%d %H:%M}" + (f":{there:%S}" if there.second else "")


__all__ = ["EXAMPLES", "machine_zone", "meaning", "parse", "shown_time"]
