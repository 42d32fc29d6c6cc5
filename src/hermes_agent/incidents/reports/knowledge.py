"""What the runtime itself learns from ended incidents: what depends on what, what failed together,
when, what worked, and what did not. All of it is in the store; `MEMORY.md` shows the essence."""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from hermes_agent.core.errors import Degraded, HermesError, Stopping
from hermes_agent.core.incidents import Incident, MonitoredService
from hermes_agent.core.text.format import shortened, span
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.response.facts import ServiceFacts
from hermes_agent.incidents.response.known_fix import KnownFix, recorded, still_good

log = logging.getLogger("hermes.incidents")

SECTION = "incidents"
"""The source of the note in memory."""
HEADING = "What incidents showed (Hermes keeps this; `hermes incidents` has all):"
CONSIDERED = 200
"""The last ended incidents that are considered."""
SERVICES, COMMANDS, COMMAND_CHARS = 8, 2, 120
HOURS = 3
"""Incidents of a service within so many hours of the day are a pattern."""
OFTEN = 0.6
"""Share of a service's incidents that makes a time a pattern."""


async def learn_topology(
    backend: IncidentBackend, incident: Incident, facts: Mapping[str, ServiceFacts]
) -> None:
    """Save what depends on what, as seen: a service on what was at fault, and on the known services
    that its configuration names."""
    if incident.source == "drill":
        return
    known = {one.name for one in await backend.topology(incident)}
    known |= {check.service or check.name for check in await backend.watched(incident)}
    known |= {incident.service, *incident.related} - {""}
    needs = {name: list(one.needs) for name, one in facts.items() if name in known}
    found = incident.diagnosis
    if found is not None and incident.service and incident.state == "resolved":
        needs.setdefault(incident.service, []).append(found.component)
    for name, some in needs.items():
        if seen := tuple(need for need in dict.fromkeys(some) if need in known - {name}):
            about = f"learned in {incident.id}"
            await backend.incidents.learn_service(
                MonitoredService(name, seen, about=about, learned=True)
            )


async def remember(backend: IncidentBackend, incident: Incident) -> None:
    """Bring the section in `MEMORY.md` up to date with the store; the same however often it is
    done."""
    if incident.source == "drill":
        return
    ended = await backend.incidents.incidents(open=False, limit=CONSIDERED)
    real = [one for one in ended if one.source != "drill" and is_name(one.service)]
    fixes = {}
    for one in real:
        if (fix := recorded(one, await backend.incidents.timeline(one.id))) is not None:
            fixes[one.id] = fix
    needs = {one.name: one.needs for one in await backend.incidents.services()}
    try:
        await backend.remember(SECTION, [HEADING, *section(real, fixes, needs)])
    except (Degraded, Stopping):
        raise
    except HermesError as error:  # a note that is refused, or a file that others keep writing
        log.warning("MEMORY.md does not show %s: %s", incident.id, error.message)


def is_name(text: str) -> bool:
    """Whether a text can only be a name. What an alert calls its service, or a model the component
    at fault, may be anybody's sentence, and memory is read as our own words."""
    return re.fullmatch(r"[\w.@:/-]{1,63}", text) is not None


def section(
    incidents: Sequence[Incident],
    fixes: Mapping[str, KnownFix],
    needs: Mapping[str, Sequence[str]],
) -> list[str]:
    """A line for each service, the last to fail first; `incidents` come newest first."""
    by_service: dict[str, list[Incident]] = defaultdict(list)
    for one in incidents:
        if one.state != "closed":
            by_service[one.service].append(one)
    return [
        " ".join([*_happened(service, some, incidents, needs), *_worked(some, fixes)])
        for service, some in list(by_service.items())[:SERVICES]
    ]


def _happened(
    service: str,
    some: Sequence[Incident],
    incidents: Sequence[Incident],
    needs: Mapping[str, Sequence[str]],
) -> list[str]:
    causes = Counter(
        f"{one.diagnosis.category} in {one.diagnosis.component}"
        if is_name(one.diagnosis.component)
        else one.diagnosis.category
        for one in some
        if one.diagnosis and one.diagnosis.category != "unknown"
    )
    often = ", ".join(
        f"{cause} ({count}x)" if count > 1 else cause for cause, count in causes.most_common(2)
    )
    times = f"{len(some)} times" if len(some) > 1 else "once"
    text = [
        f"{service}: {times}, {_when([one.opened for one in some])}: {often or 'cause unknown'}."
    ]
    text += [f"Needs {', '.join(needs[service])}."] if needs.get(service) else []
    together = Counter(name for one in some for name in _with(one, incidents))
    together.pop(service, None)
    text += [f"Failed with {', '.join(sorted(together))}."] if together else []
    return text


def _with(incident: Incident, incidents: Sequence[Incident]) -> set[str]:
    """Services that failed at the same time."""
    end = incident.ended or incident.changed
    return {name for name in incident.related if is_name(name)} | {
        one.service
        for one in incidents
        if one.opened <= end and incident.opened <= (one.ended or one.changed)
    }


def _when(times: Sequence[float]) -> str:
    """The last day, and the day of the week and the time of day of most of them, if there is more
    than one day."""
    dates = [datetime.fromtimestamp(one, UTC) for one in times]
    if len(dates) == 1:
        return f"{dates[0]:%a %Y-%m-%d %H:%M} UTC"
    said = [f"last {dates[0]:%Y-%m-%d}"]
    if len({one.date() for one in dates}) == 1:
        return said[0]
    day, count = Counter(f"{one:%a}" for one in dates).most_common(1)[0]
    said += [f"mostly on {day}"] if count >= OFTEN * len(dates) else []
    for hours in range(1, HOURS + 1):
        near = {h: sum((one.hour - h) % 24 < hours for one in dates) for h in range(24)}
        hour = max(near, key=lambda h: near[h])
        if near[hour] >= OFTEN * len(dates):
            said.append(f"mostly {hour:02}:00 to {(hour + hours) % 24:02}:00 UTC")
            break
    return ", ".join(said)


def _worked(some: Sequence[Incident], fixes: Mapping[str, KnownFix]) -> list[str]:
    known = [fixes[one.id] for one in some if one.id in fixes]
    worked = still_good(known)
    text = []
    if worked is not None:
        text.append(f"Fixed by {_listed(worked.remedy)} in {span(worked.seconds)}.")
    good = set(worked.remedy) if worked is not None else set()
    bad = dict.fromkeys(two for one in known for two in one.unhelpful if two not in good)
    text += [f"Did not help: {_listed(list(bad))}."] if bad else []
    escalated = sum(one.state == "escalated" for one in some)
    return [*text, f"Waiting for a person: {escalated}."] if escalated else text


def _listed(commands: Sequence[str]) -> str:
    return ", ".join(f"`{shortened(one, COMMAND_CHARS)}`" for one in commands[-COMMANDS:])
