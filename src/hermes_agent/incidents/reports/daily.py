"""The hourly audit and the daily briefing: Markdown files in `incidents/` about checks, incidents,
trends and risks, written without a model."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.files import write_durably
from hermes_agent.core.incidents import CheckHourStats, Incident
from hermes_agent.core.protocols import Clock
from hermes_agent.core.text.format import hour_of, span
from hermes_agent.incidents.monitoring.scheduler import CheckStatus
from hermes_agent.store.incidents.store import IncidentStore

HOUR = 3_600.0
DAY = 86_400.0
SLOWER = 1.5
"""A check that takes so many times as long as before is reported."""
AGAIN = 3
"""So many incidents of a service in a week are reported."""


class BriefingFacts(Struct, frozen=True):
    """What a briefing is made of."""

    now: float
    checks: Sequence[CheckStatus]
    hours: Sequence[CheckHourStats]
    incidents: Sequence[Incident]
    troubles: Sequence[str] = ()
    """What keeps the monitoring itself from working."""


def _stamp(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def audit_text(facts: BriefingFacts, since: float) -> str:
    """One section: the hour that began then."""
    lines = [_hour(since), ""]
    lines += _checked(facts, since, since + HOUR)
    mine = [one for one in facts.incidents if _was_open(one, since, since + HOUR)]
    lines += ["", *(_incident_lines(mine, facts.now) or ["No incidents."])]
    lines += ["", *(f"- risk: {risk}" for risk in risks(facts))]
    return "\n".join(lines).rstrip() + "\n"


def _hour(since: float) -> str:
    """With the zone: in autumn an hour comes twice."""
    return f"## {time.strftime('%H:00 %Z', time.localtime(since))}"


def _was_open(incident: Incident, since: float, until: float) -> bool:
    return incident.opened < until and (incident.ended is None or incident.ended >= since)


def briefing_text(facts: BriefingFacts) -> str:
    since = facts.now - DAY
    day = [one for one in facts.incidents if _was_open(one, since, facts.now)]
    ended = [one.seconds for one in day if one.seconds is not None and one.state == "resolved"]
    mean = f"; mean time to recover {span(sum(ended) / len(ended))}" if ended else ""
    lines = [
        f"# Briefing of {time.strftime('%A, %Y-%m-%d', time.localtime(facts.now))}",
        "",
        f"Incidents since yesterday: {len(day)}, resolved: {len(ended)}{mean}.",
        "",
        "## Incidents",
        "",
        *(_incident_lines(day, facts.now) or ["None."]),
        "",
        "## Checks",
        "",
        *_checked(facts, since, facts.now),
        "",
        "## Trends",
        "",
        *(_trends(facts) or ["No change from the week before."]),
        "",
        "## Risks",
        "",
        *([f"- {risk}" for risk in risks(facts)] or ["None visible in the figures."]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _checked(facts: BriefingFacts, since: float, until: float) -> list[str]:
    if not facts.checks:
        return ["No checks: `hermes watch add` adds one."]
    rows = [
        "| check | service | now | runs | failures | seconds each |",
        "|---|---|---|--:|--:|--:|",
    ]
    for check in facts.checks:
        runs, failures, seconds = _sum(facts.hours, check.name, since, until)
        now = {True: "OK", False: "**fails**", None: "not run yet"}[check.state.ok]
        each = f"{seconds / runs:.2f}" if runs else "-"
        rows.append(f"| {check.name} | {check.service} | {now} | {runs} | {failures} | {each} |")
    return rows


def _sum(
    hours: Sequence[CheckHourStats], name: str, since: float, until: float
) -> tuple[int, int, float]:
    mine = [one for one in hours if one.name == name and since - HOUR < one.hour < until]
    return (
        sum(one.runs for one in mine),
        sum(one.failures for one in mine),
        sum(one.seconds for one in mine),
    )


def _incident_lines(incidents: Sequence[Incident], now: float) -> list[str]:
    lines = []
    for one in incidents:
        over = one.seconds is not None
        took = f"after {span(one.seconds or 0)}" if over else f"for {span(now - one.opened)}"
        cause = one.diagnosis
        why = f": {cause.category} in {cause.component}" if cause is not None else ""
        title = one.title.replace("|", "\\|").replace("*", "\\*")
        drill = " (drill)" if one.source == "drill" else ""
        what = f"{one.id} {one.severity} {title}{drill}"
        lines.append(f"- {_stamp(one.opened)} {what}: {one.state} {took}{why}")
    return lines


def _trends(facts: BriefingFacts) -> list[str]:
    """The last day against the six before it."""
    found = []
    for check in facts.checks:
        runs, failures, seconds = _sum(facts.hours, check.name, facts.now - DAY, facts.now)
        earlier = _sum(facts.hours, check.name, facts.now - 7 * DAY, facts.now - DAY - HOUR)
        if not runs or not earlier[0]:
            continue
        rate, rate_before = failures / runs, earlier[1] / earlier[0]
        if abs(rate - rate_before) >= 0.01:
            how = "more" if rate > rate_before else "less"
            figures = f"{rate:.1%} of its runs, {rate_before:.1%} before"
            found.append(f"- {check.name} fails {how} often: {figures}")
        each, each_before = seconds / runs, earlier[2] / earlier[0]
        if each_before and each / each_before >= SLOWER:
            found.append(f"- {check.name} is slower: {each:.2f} s, {each_before:.2f} s before")
    return found


def risks(facts: BriefingFacts) -> list[str]:
    """What may become a problem."""
    found = list(facts.troubles)
    for check in facts.checks:
        if check.state.ok is False:
            detail = check.state.detail.split("\n", 1)[0]
            found.append(
                f"{check.name} has been failing since {_stamp(check.state.since)}: {detail}"
            )
    week = [one for one in facts.incidents if one.opened >= facts.now - 7 * DAY]
    counts = Counter(one.service for one in week if one.service and one.source != "drill")
    found += [
        f"{name} had {count} incidents in a week" for name, count in sorted(counts.items())
        if count >= AGAIN
    ]  # fmt: skip
    found += [
        f"{one.id} was escalated and is still open: {one.title}"
        for one in facts.incidents
        if one.state == "escalated"
    ]
    return found


class Briefing:
    """Writes the files, each once."""

    def __init__(
        self,
        folder: Path,
        store: IncidentStore,
        *,
        statuses: Callable[[], Awaitable[Sequence[CheckStatus]]],
        troubles: Callable[[], Sequence[str]],
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._store = store
        self._statuses = statuses
        self._troubles = troubles
        self._clock = clock

    async def write_audit(self) -> str:
        """Write the audit of the last hour, unless it is written or nothing was watched then."""
        now = self._clock()
        since = hour_of(now) - HOUR
        path = self._folder / "audits" / f"{_day(since)}.md"
        if await asyncio.to_thread(_holds, path, f"{_hour(since)}\n"):
            return ""
        facts = await self._facts(now)
        if not _something(facts, since, since + HOUR):
            return ""
        text = audit_text(facts, since)
        await asyncio.to_thread(_append, path, f"# Audits of {_day(since)}\n", text)
        return text

    async def write_briefing(self) -> str:
        """Write today's briefing, likewise."""
        now = self._clock()
        path = self._folder / "briefings" / f"{_day(now)}.md"
        if await asyncio.to_thread(path.exists):
            return ""
        facts = await self._facts(now)
        if not _something(facts, now - DAY, math.inf):
            return ""
        text = briefing_text(facts)
        await asyncio.to_thread(_append, path, "", text)
        return text

    async def _facts(self, now: float) -> BriefingFacts:
        hours = await self._store.check_hours(now - 8 * DAY)
        incidents = await self._store.incidents(limit=1_000)
        return BriefingFacts(now, await self._statuses(), hours, incidents, self._troubles())


def _something(facts: BriefingFacts, since: float, until: float) -> bool:
    """Whether a check ran or an incident was opened in a period."""
    times = [*(one.hour for one in facts.hours), *(one.opened for one in facts.incidents)]
    return any(since <= one < until for one in times)


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def _holds(path: Path, line: str) -> bool:
    try:
        return line in path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def _append(path: Path, title: str, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else title
    write_durably(path, f"{before}\n{text}".lstrip().encode())
