"""Lines of logs in the usual forms: when they were written, and how grave they are."""

import re
from datetime import UTC, datetime, timedelta, timezone

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = re.compile(
    r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,]\d+)?"
    r"\s?(Z|[+-]\d\d:?\d\d)?(?!\d)"
)
_WEB = re.compile(r"(\d{1,2})/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d)(?: ([+-]\d{4}))?")
_SYSLOG = re.compile(
    r"\b([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:[.,]\d+)?(?: (\d{4})\b)?"
)
_DAY = re.compile(
    r"\b(\d{1,2})(?: |-|\.|/)([A-Z][a-z]{2})(?: |-|\.|/)(\d{4})[ T](\d\d):(\d\d):(\d\d)(?:[.,]\d+)?"
    r"(?: ?(Z|[+-]\d\d:?\d\d))?"
)
_DOTS = re.compile(r"(?<![\d.])(\d\d)\.(\d\d)\.(\d{4}),? (\d\d):(\d\d):(\d\d)")
_PLAIN = re.compile(r"^\W{0,2}(20\d\d)(\d\d)(\d\d)[T _-]?(\d\d):?(\d\d):?(\d\d)(Z)?(?!\d)")
_EPOCH = re.compile(
    r"(?:^\W{0,2}|\b(?:ts|time|timestamp|at|epoch|t|when|date)\"?\s?[=:]\s?\"?)"
    r"(1[5-9]\d{8}|2[0-4]\d{8})(?:\.\d+|\d{3}|\d{6}|\d{9})?\b"
)
_GLOG = re.compile(r"^[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)")
_FORMS = (
    ("iso", _ISO), ("web", _WEB), ("epoch", _EPOCH), ("syslog", _SYSLOG), ("glog", _GLOG),
    ("web", _DAY), ("dots", _DOTS), ("iso", _PLAIN),
)  # fmt: skip
HEAD = 48
"""Letters of a line in which these may stand: further on it speaks of something else."""
_EARLY = (_DAY, _DOTS, _PLAIN)
_TOLD = re.compile(
    r"(?:^|[\s{,])\"?@?(?:ts|time|timestamp|datetime)\"?\s?[=:]\s?\"?(?=\d{4}[-/]|\d{10})"
)
AHEAD = 4.0
"""By how many times a moment to come must be nearer than one that was."""
_KEY = r"\b(?i:level|lvl|severity|log\.level|levelname)\"?\s?[=:]\s?\"?"
_CALM = re.compile(
    rf"{_KEY}(?i:info|debug|trace|notice|[123]0\b)"
    r"|[\[<(|](?i:info|debug|trace|notice|inf|dbg|verbose|[67])[\])>|]"
    r"|\b(?:INFO|DEBUG|TRACE|NOTICE|INF|DBG)\b|^[ID]\d{4} |^(?:info|debug|trace)[: ]"
)
_GRAVE = re.compile(
    rf"{_KEY}(?i:err|crit|fatal|emerg|alert|panic|[56]0\b)"
    r"|[\[<(|](?i:error|err|crit|critical|fatal|emerg|alert|panic|[0-3])[\])>|]"
    r"|\b(?:ERROR|CRITICAL|FATAL|EMERG|ALERT|PANIC|SEVERE|ERR)\b|^[EF]\d{4} "
    r"|^(?i:error|fatal|panic):"
)


def stamp(line: str, now: float = 0.0, offset: float = 0.0) -> float:
    """When a line of a log was written, as it says itself; 0 where it does not. `offset`: seconds
    by which the clock of whoever wrote it is ahead of UTC, where the line names no zone."""
    head = line[:400]
    told = _TOLD.search(head)
    parts = [head[told.start() :], head] if told else [head]
    for part in parts:  # what it calls its time goes before what it speaks of
        found = [
            (each.start(), name, each)
            for name, form in _FORMS
            if (each := form.search(part[:HEAD] if form in _EARLY else part))
        ]
        if found:
            _, name, first = min(found, key=lambda one: one[0])
            return _read(name, first, now, offset)
    return 0.0


def _read(name: str, found: re.Match[str], now: float, offset: float) -> float:
    match name:
        case "iso":
            return _moment([int(part) for part in found.groups()[:6]], found[7] or "", offset)
        case "web":
            month = _month(found[2])
            numbers = [int(found[3]), month, int(found[1]), *(int(found[at]) for at in (4, 5, 6))]
            return _moment(numbers, found[7] or "", offset) if month else 0.0
        case "dots":
            day, month, *rest = (int(part) for part in found.groups())
            return _moment([rest[0], month, day, *rest[1:]], "", offset)
        case "syslog":
            month = _month(found[1])
            clock = [int(found[2]), *(int(found[at]) for at in (3, 4, 5))]
            return _nearest(month, clock, found[6] or "", now, offset) if month else 0.0
        case "glog":
            clock = [int(found[at]) for at in (2, 3, 4, 5)]
            return _nearest(int(found[1]), clock, "", now, offset)
    return float(found[1])


def is_calm(line: str) -> bool:
    """Whether a line says itself that it tells of nothing grave."""
    return _CALM.search(line[:300]) is not None and not is_grave(line)


def is_grave(line: str) -> bool:
    """Whether a line says itself that something failed."""
    return _GRAVE.search(line[:300]) is not None


def _month(name: str) -> int:
    return MONTHS.index(name.lower()) + 1 if name.lower() in MONTHS else 0


def _nearest(month: int, clock: list[int], year: str, now: float, offset: float) -> float:
    """A moment whose year is not said: the one that is nearest to now. Logs tell of what was: what
    is to come must be nearer by far."""
    if year:
        return _moment([int(year), month, *clock], "", offset)
    if not now:
        return 0.0
    this = datetime.fromtimestamp(now, UTC).year
    found = [_moment([this + more, month, *clock], "", offset) for more in (-1, 0, 1)]
    told = [one for one in found if one]
    return min(told, key=lambda one: max(now - one, AHEAD * (one - now)), default=0.0)


def _moment(numbers: list[int], zone: str, offset: float) -> float:
    at = UTC if zone in ("Z", "") else _zone(zone)
    try:
        moment = datetime(*numbers, tzinfo=at).timestamp()  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError, TypeError):
        return 0.0
    return moment if zone else moment - offset


def _zone(text: str) -> timezone:
    hours, minutes = int(text[1:3]), int(text[-2:])
    ahead = timedelta(hours=min(hours, 23), minutes=min(minutes, 59))
    return timezone(-ahead if text[0] == "-" else ahead)
