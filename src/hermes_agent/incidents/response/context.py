"""What is known that may help: skills, the services nearby, incidents like it, and how what runs
beside it stands."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Incident, MonitoredService
from hermes_agent.incidents.backend import IncidentBackend, SkillOption
from hermes_agent.incidents.reports.closeout import learns
from hermes_agent.incidents.response.candidates import Findings, find_candidates
from hermes_agent.incidents.response.verification import (
    BESIDE_SECONDS,
    Baseline,
    CheckResult,
    RunCommand,
    check_all,
    neighbours,
    start_of,
)

SKILLS = 20
EARLIER = 5
ALIKE = 3
"""Words that a skill has in common with an incident, to be spoken of."""
_WORD = re.compile(r"\w{3,}")


async def got_worse(
    world: IncidentBackend, incident: Incident, look: RunCommand
) -> tuple[CheckResult, ...]:
    """Checks beside it that held at the start and do not now."""
    start = start_of(await world.incidents.timeline(incident.id)) or Baseline({}, {})
    near = neighbours(incident, await world.watched(incident))
    return start.worse(await check_all(near, look, BESIDE_SECONDS))


async def findings(
    world: IncidentBackend, incident: Incident, look: RunCommand, shipped: RunCommand
) -> Findings:
    """Facts of the services, and which skills are for this case. Learned skills that are not proven
    are tried in drills only, which is their proof. `shipped`: how checks of Hermes' own skills are
    run."""
    known = await world.skills()
    if not await learns(world, incident):
        known = [one for one in known if one.shipped]
    proving = incident.source == "drill"
    tried = [one for one in known if one.incident and (proving or one.state != "candidate")]
    words = set(_words(incident))
    others = [one for one in known if one not in tried]
    others = [one for one in others if one.incident or len(words & _of(one)) >= ALIKE]
    found = await find_candidates(world, incident, tried, look, shipped)
    return replace(found, others=tuple(others[:SKILLS]))


def _of(skill: SkillOption) -> set[str]:
    return set(_WORD.findall(f"{skill.name} {skill.description}".lower()))


async def near(world: IncidentBackend, incident: Incident) -> Sequence[MonitoredService]:
    """The service, what it needs, and what needs it, however far."""
    services = {one.name: one for one in await world.topology(incident)}
    wanted = {incident.service, *incident.related}
    grown = True
    while grown:
        more = {need for name in wanted if name in services for need in services[name].needs}
        more |= {name for name, one in services.items() if wanted & set(one.needs)}
        grown = not more <= wanted
        wanted |= more
    known = [one for name, one in services.items() if name in wanted]
    unknown = sorted(wanted - set(services) - {""})
    return [*known, *(MonitoredService(name) for name in unknown)]


async def earlier(world: IncidentBackend, incident: Incident) -> Sequence[Incident]:
    """Incidents that were like it, those of its service first."""
    if not await learns(world, incident):
        return ()
    docs = await world.knowledge.find_docs(_words(incident), ["incident"], limit=EARLIER * 3)
    found = []
    for doc in docs:
        if doc.ref == incident.id:
            continue
        try:
            one = await world.incidents.incident(doc.ref)
        except HermesError:  # the database was restored from before it
            continue
        # What drills have taught stays among them, and what was real is no help there.
        if one.diagnosis is not None and (one.source == "drill") == (incident.source == "drill"):
            found.append(one)
    return sorted(found, key=lambda one: one.service != incident.service)[:EARLIER]


def _words(incident: Incident) -> list[str]:
    text = " ".join([incident.title, incident.service, *incident.related]).lower()
    return list(dict.fromkeys(_WORD.findall(text)))
