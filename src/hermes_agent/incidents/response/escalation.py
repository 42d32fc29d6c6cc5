"""Handing an incident over to people."""

from msgspec.structs import replace

from hermes_agent.core.incidents import OPEN, Diagnosis, Incident
from hermes_agent.core.tools import Provenance
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.notification_sinks import escalated_text


async def escalated(
    world: IncidentBackend, incident: Incident, diagnosis: Diagnosis, needed: str, by: Provenance
) -> str:
    text = f"people must go on: {diagnosis.summary}; needed: {needed}"
    said = f"{incident.id} is escalated"
    data = {"needed": needed, "effect": by.effect, "session": by.session, "said": said}
    shown = escalated_text(replace(incident, diagnosis=diagnosis), needed)
    told = world.notices(incident, "escalated", shown)
    await world.incidents.change(
        incident.id, [("escalated", text, data)], told, OPEN,
        state="escalated", diagnosis=diagnosis,
    )  # fmt: skip
    world.wake_notices()
    return said
