"""Context for an incident: skills, related services, similar incidents, other checks."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Diagnosis, Incident, MonitoredService
from hermes_agent.incidents.backend import WATCHING, IncidentBackend, SkillOption
from hermes_agent.incidents.response.candidates import Findings, dependency_chain, find_candidates
from hermes_agent.incidents.response.facts import ServiceFacts, service_facts
from hermes_agent.incidents.response.known_fix import KnownFix, known_fix, with_signs
from hermes_agent.incidents.response.stability import StabilityWatch, not_lasting
from hermes_agent.incidents.response.verification import (
    BESIDE_SECONDS,
    CheckResult,
    RunCommand,
    check_all,
    neighbours,
    start_of,
)

SKILLS = 20
EARLIER = 5
ALIKE = 3
"""Words that a skill must share with an incident to be mentioned."""
LEARNING = "learning"
"""The label of a drill's signal that says `off` where nothing is to be learned, nor used."""
Extent = Literal["all", "learned-first", "learned"]
"""Whether bundled skills are tried always, only if no learned one fits, or never."""
_WORD = re.compile(r"\w{3,}")


async def learns(backend: IncidentBackend, incident: Incident) -> bool:
    """Whether to learn from an incident and to use learned skills. Only a drill's label can turn it
    off."""
    raised = await backend.incidents.signals(incident=incident.id)
    return all(one.source != "drill" or one.labels.get(LEARNING, "") != "off" for one in raised)


async def got_worse(
    backend: IncidentBackend, incident: Incident, run: RunCommand
) -> tuple[CheckResult, ...]:
    """Other checks on the terminal that held at the start and fail now."""
    start = start_of(await backend.incidents.timeline(incident.id))
    near = neighbours(incident, await backend.watched(incident))
    return start.worse(await check_all(near, run, BESIDE_SECONDS))


async def unstable(
    backend: IncidentBackend,
    incident: Incident,
    session: str,
    diagnosis: Diagnosis,
    known: dict[str, ServiceFacts],
) -> list[str]:
    """Why what holds now will not last; empty where nothing suggests that."""
    run = partial(backend.run, session)
    names = [incident.service, *incident.related, diagnosis.component]
    if not known:
        known.update(await service_facts(filter(None, names), run))
    chain = dependency_chain(names, await backend.topology(incident), known)
    return await not_lasting(
        StabilityWatch(
            incident.checks, {name: known[name] for name in chain if name in known},
            diagnosis.category, [one.quote for one in diagnosis.evidence], run,
            partial(backend.run, session, source=WATCHING), backend.sleep,
        )
    )  # fmt: skip


async def known_before(
    backend: IncidentBackend, incident: Incident, run: RunCommand
) -> KnownFix | None:
    """What fixed the same trouble last, and whether its signs are there again."""
    if not await learns(backend, incident):
        return None
    fix = await known_fix(backend, incident)
    return None if fix is None else await with_signs(fix, run)


async def findings(
    backend: IncidentBackend,
    incident: Incident,
    run: RunCommand,
    shipped: RunCommand,
    fix: KnownFix | None = None,
    *,
    extent: Extent = "all",
) -> Findings:
    """Facts of the services, and the skills that apply. Learned skills are tried only once proven,
    except in drills, which prove them, and if the signs of a `fix` are there, that learned it.
    `shipped`: runs checks of the bundled skills."""
    known = await backend.skills()
    if not await learns(backend, incident):
        known = [one for one in known if one.shipped]
    again = fix.skill if fix is not None and fix.present else ""
    tried = [
        one
        for one in known
        if one.incident
        and (incident.source == "drill" or one.state != "candidate" or one.name == again)
    ]
    words = set(_words(incident))
    others = [one for one in known if one not in tried]
    others = [one for one in others if one.incident or len(words & _of(one)) >= ALIKE]
    learned = [one for one in tried if not one.shipped or one.name == again]
    rest = [one for one in tried if one not in learned]
    groups = {"all": [tried], "learned-first": [learned, rest], "learned": [learned]}
    found = await find_candidates(backend, incident, groups[extent], run, shipped)
    return replace(found, others=tuple(others[:SKILLS]))


def _of(skill: SkillOption) -> set[str]:
    return set(_WORD.findall(f"{skill.name} {skill.description}".lower()))


async def near(backend: IncidentBackend, incident: Incident) -> Sequence[MonitoredService]:
    """The services of an incident, with all that they need and all that need them."""
    services = {one.name: one for one in await backend.topology(incident)}
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


async def earlier(backend: IncidentBackend, incident: Incident) -> Sequence[Incident]:
    """Similar incidents, those of the same service first."""
    if not await learns(backend, incident):
        return ()
    docs = await backend.knowledge.find_docs(_words(incident), ["incident"], limit=EARLIER * 3)
    found = []
    for doc in docs:
        if doc.ref == incident.id:
            continue
        try:
            one = await backend.incidents.incident(doc.ref)
        except HermesError:  # the database was restored from an older backup
            continue
        # Drills and real incidents do not inform each other.
        if one.diagnosis is not None and (one.source == "drill") == (incident.source == "drill"):
            found.append(one)
    return sorted(found, key=lambda one: one.service != incident.service)[:EARLIER]


def _words(incident: Incident) -> list[str]:
    text = " ".join([incident.title, incident.service, *incident.related]).lower()
    return list(dict.fromkeys(_WORD.findall(text)))
