"""What is fetched each time though it could be kept for a while: a setting says that it is good for
no time at all, and whoever has it is slow."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import Idea, lines, undo_of
from hermes_agent.models.responder.rules.reach import DRAIN, SLOW_SECONDS, waits
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.settings import Settings

_KEPT = re.compile(
    r"(?i)ttl|max_?age|refresh|cach|expir|fresh|life_?time|valid_?for|reload|update_?every|re_?fetch|"
    r"poll|keep_?for|stale"
)
_OTHER = re.compile(r"(?i)size|entries|items|dir|path|file|url|host|port|jitter|retr|timeout|bytes")
_GUARDS = re.compile(
    r"(?i)auth|login|passw|token|secret|session|\bacl|permi|revo|\bcrl|ocsp|attempt|brute|lock_?out"
    r"|retain|retention|delet|purge|trash"
)
"""What keeps strangers out, or says when something is cleared away: none of it is guessed."""
_NOT_AT_ALL = re.compile(r"(?i)(0+(?:\.0+)?|1)( ?(?:ms|s|secs?|seconds?|m|min|h|d))?")
_OFF = {"off": "on", "false": "true", "no": "yes", "none": "memory", "disabled": "enabled"}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_TOLD = re.compile(
    r"(?i)\b(half an?|an?|one|two|three|five|ten|\d+(?:\.\d+)?) ?"
    r"(ms|s|m|h|d|sec\w*|min\w*|hours?|days?)\b"
)
_USUAL = re.compile(r"(?i)(?:usual\w*|default\w*|normal\w*|was|were|before|formerly)\D{0,20}?(\d+)")
_COUNTS = {"half an": 0.5, "half a": 0.5, "a": 1, "an": 1, "one": 1, "two": 2, "three": 3,
           "five": 5, "ten": 10}  # fmt: skip
_WAITS = re.compile(r"(?i)delay|pause|sleep|throttl|latenc|slow|linger|think_?time|wait_?before")
_SPAN = re.compile(r"(?i)(\d{1,9}(?:\.\d+)?)( ?(?:ms|s|secs?|seconds?|m|min))?")
LONG = 0.3
"""Seconds that one call may be held up on purpose."""
SECONDS = 600.0
"""How long it is kept where nobody says how long it should be."""
REMARKS = 3
"""Lines above a setting in which it is told what it means."""
PREVENT = ("keep what seldom changes for a while", "set a deadline for each call")


def each_time(case: Case) -> Iterator[Idea]:
    """Somebody waits for what it needs, and that asks somebody slow each time for the same."""
    for service in needed.chain(case, case.brief.service):
        spoken = waits(case, case.brief.service) or waits(case, service)
        for path, values in case.sources(service) if spoken else ():
            for key, value in values.items():
                right = _longer(case, path, key, value)
                if not right or not path:
                    continue
                yield from _kept(case, service, (path, values), (key, value, right), spoken)


def _kept(
    case: Case, service: str, place: tuple[str, Settings], change: tuple[str, str, str], spoken: str
) -> Iterator[Idea]:
    (path, values), (key, value, right) = place, change
    urls = [one.url for one in needed.in_text(case, " ".join(values.values())) if one.url]
    if not urls and path in case.helpers(service):
        return
    looks = [probes.timed(url) for url in urls[:2]]
    claim = f"{key} in {path} is {value}: {service} fetches each time what it could keep"
    if wants := case.missing(looks):
        yield Idea("slow-dependency", service, claim, 0.62, f"{path}: {key}", lines(spoken), wants)
        return
    took = [re.search(r"after ([\d.]+) s", case.text(one)) for one in looks]
    slow = any(one and parse.number(one[1]) > SLOW_SECONDS for one in took)
    rows = _saying(case, path, key.rpartition(".")[2], value)
    if len(rows) != 1 or not slow:
        return
    anew = () if _is_read_anew(case, service, path) else (case.restart(service),)
    yield Idea(
        "slow-dependency", service, claim, 0.84, f"{path}: {rows[0].strip()}",
        lines(rows[0], spoken, *(case.text(one) for one in looks)), (),
        (*_set(path, rows[0], value, right), *anew), undo_of(path), PREVENT,
    )  # fmt: skip


def paused(case: Case) -> Iterator[Idea]:
    """Somebody is late, and a setting that was written lately has it wait on purpose: it is made
    as remarks, or others that do the same, have it."""
    lately = {row.path for row in parse.sizes(case.text(probes.CHANGED))}
    for service in needed.chain(case, case.brief.service):
        spoken = waits(case, case.brief.service)
        for path, values in case.sources(service) if spoken else ():
            for key, value in values.items():
                found = _SPAN.fullmatch(value) if _holds_up(key) and path in lately else None
                own = key.rpartition(".")[2]
                if not found or float(found[1]) * _unit(own, found[2] or "") < LONG:
                    continue
                rows = _saying(case, path, own, value)
                others = [
                    case.settings(one).get(key, "") for one in case.services if one != service
                ]
                theirs = next((one for one in others if _SPAN.fullmatch(one) and one != value), "")
                told = _told(case.content(path), own)[1]
                right = told or theirs or f"0{found[2] or ''}"
                if len(rows) != 1 or right == value:
                    continue
                yield Idea(
                    "slow-dependency", service, f"{service} waits on purpose: {key} in {path} is "
                    f"{value}", 0.8 if told or theirs else 0.66, f"{path}: {rows[0].strip()}",
                    lines(rows[0], spoken), (),
                    (*_set(path, rows[0], value, right), case.restart(service), DRAIN),
                    undo_of(path), PREVENT,
                )  # fmt: skip


def _holds_up(key: str) -> bool:
    """Whether a setting holds up each call; what waits before it tries again does not, nor what
    bounds or measures something, or holds up who guesses."""
    return bool(_WAITS.search(key)) and not _GUARDS.search(key) and not re.search(
        r"(?i)retr|back_?off|shut|grace|restart|reconnect|log|(?:^|[._-])(?:max|min(?![a-z]))|limit"
        r"|rate(?:$|[._-])|thresh|budget|warn|alert|quer|slow_?start|start_?up|throttle$", key,
    )  # fmt: skip


def _saying(case: Case, path: str, own: str, value: str) -> list[str]:
    """The lines of a file that say so."""
    said = re.compile(
        rf"^\s*(?:export\s+)?[\"']?{re.escape(own)}[\"']?\s*[=:\s]\s*[\"']?{re.escape(value)}\b"
    )
    return [row for row in case.content(path).splitlines() if said.match(row)]


def _set(path: str, row: str, value: str, right: str) -> tuple[str, ...]:
    """Commands that give a line another value: where it stands first behind its key, not in a
    remark after it."""
    found = re.match(rf"(.*?[=:\s]\s*[\"']?){re.escape(value)}\b", row)
    end = found.end(1) if found else row.rindex(value)
    return swapped(path, row, f"{row[:end]}{right}{row[end + len(value) :]}")


def _is_read_anew(case: Case, service: str, path: str) -> bool:
    """Whether only what it runs each time goes by a file."""
    return any(path in case.text(probes.show(one)) for one in case.helpers(service))


def _longer(case: Case, path: str, key: str, value: str) -> str:
    """What a setting should be that says that nothing is kept; empty where it does not."""
    own = key.rpartition(".")[2]
    if not _KEPT.search(key) or _OTHER.search(own) or _GUARDS.search(key):
        return ""
    if value.lower() in _OFF and re.search(r"(?i)cach", key):
        return _OFF[value.lower()]
    found = _NOT_AT_ALL.fullmatch(value)
    if found is None or (found[1] == "1" and _unit(own, found[2] or "") > 1.0):
        return ""
    text = case.content(path)
    seconds, plain = _told(text, own)
    if plain:
        return f"{plain}{found[2] or ''}"
    return f"{seconds / _unit(own, found[2] or ''):.0f}{found[2] or ''}"


def _told(text: str, own: str) -> tuple[float, str]:
    """How long it should be, in seconds, or as it is to be written: by the remarks beside it."""
    rows = text.splitlines()
    at = next((n for n, row in enumerate(rows) if re.search(rf"\b{re.escape(own)}\b\W", row)), 0)
    near = [row for row in rows[max(0, at - REMARKS) : at] if row.lstrip()[:1] in ("#", ";", "/")]
    remark = " ".join([*near, rows[at].partition("#")[2] if rows else ""])
    if found := _TOLD.search(remark):
        count = _COUNTS.get(found[1].lower()) or parse.number(found[1])
        unit = "ms" if found[2].lower() == "ms" else found[2][0].lower()
        if count > 0:
            return count * _UNITS[unit], ""
    usual = _USUAL.search(remark)
    return SECONDS, usual[1] if usual and int(usual[1]) > 1 else ""


def _unit(own: str, told: str) -> float:
    """Of how many seconds a number tells: by its own unit, or by the end of its key."""
    if told.strip():
        word = told.strip().lower()
        return _UNITS["ms" if word == "ms" else word[0]]
    ends = re.search(r"(?i)(?:^|[_.-])(ms|millis\w*|s|sec\w*|m|min\w*|h|hours?|d|days?)$", own)
    if not ends:
        return 1.0
    word = ends[1].lower()
    return _UNITS["ms" if word.startswith(("ms", "milli")) else word[0]]


RULES = (each_time, paused)
