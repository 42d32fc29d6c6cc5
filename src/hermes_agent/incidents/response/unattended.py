"""Which runbooks may work without a model, and which have done so."""

from collections.abc import Sequence

from hermes_agent.core import events as ev
from hermes_agent.core.incidents import Incident, TimelineEntry
from hermes_agent.incidents.backend import IncidentBackend, SkillOption
from hermes_agent.models.runbook import RUNBOOK_MODEL

RUNBOOK = "runbook"
"""The key of the message that begins one, of the note that says which, and of the label by which a
drill asks for it."""


async def runs_unattended(world: IncidentBackend, skill: SkillOption) -> bool:
    """Whether a runbook may work without a model: as it stands it has healed a drill by itself, by
    the word of the hidden checks, the last time too; or a person has called it proven."""
    if skill.state != "proven":
        return False
    mine = [
        one
        for one in await world.knowledge.trials(skill.name)
        if one.digest == skill.digest and one.model == f"{RUNBOOK_MODEL}{skill.name}"
    ]
    if mine and max(mine, key=lambda one: one.time).ok:
        return True
    told = [
        one.by for one in await world.knowledge.skill_changes(skill.name) if one.what == "proven"
    ]
    return told[:1] == ["person"]


def begun(entries: Sequence[TimelineEntry]) -> str:
    """The skill whose runbook was worked through without a model, at least at first."""
    return next((str(entry.data[RUNBOOK]) for entry in entries if RUNBOOK in entry.data), "")


async def healed_alone(world: IncidentBackend, incident: Incident, skill: str) -> bool:
    """Whether its runbook has resolved an incident and no model had a word in it."""
    if incident.state != "resolved" or incident.skill != skill or incident.ended is None:
        return False
    spoken = [
        one.event.model
        for one in await world.journal.events(incident.session)
        if isinstance(one.event, ev.Replied) and one.time <= incident.ended
    ]
    return bool(spoken) and set(spoken) == {f"{RUNBOOK_MODEL}{skill}"}
