"""Proven runbooks, which fix a known kind of incident without a model."""

import re
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.incidents import OPEN, Diagnosis, Evidence, Incident, TimelineEntry
from hermes_agent.core.skills import ActivatedSkill
from hermes_agent.incidents.backend import IncidentBackend, SkillOption
from hermes_agent.incidents.notifications import resolved_text
from hermes_agent.incidents.response.actions import resolution
from hermes_agent.incidents.response.candidates import Findings, RunbookCandidate
from hermes_agent.incidents.response.context import got_worse, unstable
from hermes_agent.incidents.response.evidence import (
    LEAST,
    MAX_COUNT,
    IncidentTranscript,
    squeezed,
    transcript,
)
from hermes_agent.incidents.response.facts import ServiceFacts
from hermes_agent.incidents.response.stability import LASTS
from hermes_agent.incidents.response.verification import check_all
from hermes_agent.models.runbook import RUNBOOK_MODEL

RUNBOOK = "runbook"
"""The key of the message that starts one, of the note that names it, and of the label by which a
drill asks for it."""
_SAID = r"^{what}: (.+)$"
"""How a step of a runbook reports the `component` or the `locus`."""
SETTLE_SECONDS = (0.25, 0.75, 2.0)
"""Pauses before the checks are run again: a restarted service may take a while to answer."""
_MARK = re.compile(r"\[[^\]\n]*\]")


async def runs_unattended(backend: IncidentBackend, skill: SkillOption) -> bool:
    """Whether a runbook may run without a model: its current version fixed the last drill alone, as
    the hidden checks confirmed, or a person marked it proven."""
    if skill.state != "proven":
        return False
    mine = [
        one
        for one in await backend.knowledge.trials(skill.name)
        if one.digest == skill.digest and one.model == f"{RUNBOOK_MODEL}{skill.name}"
    ]
    if mine and max(mine, key=lambda one: one.time).ok:
        return True
    authors = [
        one.by for one in await backend.knowledge.skill_changes(skill.name) if one.what == "proven"
    ]
    return authors[:1] == ["person"]


def begun(entries: Sequence[TimelineEntry]) -> str:
    """The skill whose runbook was started without a model."""
    return next((str(entry.data[RUNBOOK]) for entry in entries if RUNBOOK in entry.data), "")


async def healed_alone(backend: IncidentBackend, incident: Incident, skill: str) -> bool:
    """Whether the runbook resolved the incident without any reply of a model."""
    if incident.state != "resolved" or incident.skill != skill or incident.ended is None:
        return False
    spoken = [
        one.event.model
        for one in await backend.journal.events(incident.session)
        if isinstance(one.event, ev.Replied) and one.time <= incident.ended
    ]
    return bool(spoken) and set(spoken) == {f"{RUNBOOK_MODEL}{skill}"}


async def first_runbook(
    backend: IncidentBackend, incident: Incident, found: Findings
) -> ActivatedSkill | None:
    """The one runbook that fits and may run without a model. The choice is recorded first, so that
    a later runtime does not choose again."""
    entries = await backend.incidents.timeline(incident.id)
    chosen = next((entry.data for entry in reversed(entries) if RUNBOOK in entry.data), None)
    if chosen is None:
        one, text = await _choice(backend, incident, found)
        chosen = {RUNBOOK: one.skill.name if one else "", "service": one.service if one else ""}
        await backend.incidents.change(incident.id, [("note", text, chosen)], (), OPEN)
    if not chosen[RUNBOOK]:
        return None
    service = str(chosen.get("service", "")) or incident.service
    facts = found.facts.get(service, ServiceFacts(service))
    return await backend.runbook(str(chosen[RUNBOOK]), f"service={service}", facts.values)


async def _choice(
    backend: IncidentBackend, incident: Incident, found: Findings
) -> tuple[RunbookCandidate | None, str]:
    """The only learned skill that fits, or none, and why. If several fit, a model decides."""
    fitting = [one for one in found.candidates if one.fits and not one.skill.shipped]
    names = ", ".join(dict.fromkeys(one.skill.name for one in fitting))
    if not fitting or not incident.checks:
        return None, "no proven runbook fits"
    if len(fitting) > 1:
        return None, f"several runbooks fit, so none was run automatically: {names}"
    if not await _is_asked_for(backend, incident) and not await runs_unattended(
        backend, fitting[0].skill
    ):
        return None, f"{names} fits, but its runbook has not resolved a drill on its own yet"
    return fitting[0], f"running {names} without a model"


async def _is_asked_for(backend: IncidentBackend, incident: Incident) -> bool:
    """Whether a drill asks for the runbook, so that it can prove itself."""
    raised = await backend.incidents.signals(incident=incident.id)
    return incident.source == "drill" and any(
        one.source == "drill" and one.labels.get(RUNBOOK, "") == "on" for one in raised
    )


async def healed(
    backend: IncidentBackend,
    incident: Incident,
    session: str,
    skill: str,
    known: dict[str, ServiceFacts],
) -> bool:
    """Resolve the incident if the runbook fixed it: the checks hold, nothing got worse, and it
    lasts. Returns whether it did."""
    run = partial(backend.run, session)
    seen = await transcript(backend.journal, session, backend.results, incident.checks)
    if not incident.checks or seen.only_looked:
        return False
    held = await check_all(incident.checks, run)
    for pause in SETTLE_SECONDS:
        if all(one.ok for one in held):
            break
        await backend.sleep(pause)
        held = await check_all(incident.checks, run)
    if not all(one.ok for one in held) or await got_worse(backend, incident, run):
        return False
    causes = {one.name: one.incident for one in await backend.skills()}
    category = causes.get(skill) or "unknown"
    diagnosis = Diagnosis(
        _said(seen, "component") or incident.service,
        category,
        _said(seen, "locus"),
        summary=f"it was {category} again; the runbook of {skill} fixed it",
        evidence=_evidence(seen),
        prevent=(f"find out why it keeps coming back; {skill} fixed it again",),
    )
    if reasons := await unstable(backend, incident, session, diagnosis, known):
        text = backend.redact("; ".join(reasons))
        await backend.incidents.change(incident.id, [("verified", text, {"ok": False})], (), OPEN)
        return False
    over = replace(incident, diagnosis=diagnosis, ended=backend.clock())
    await backend.incidents.change(
        incident.id,
        [
            ("resolved", resolution(over), {"session": session, "skill": skill}),
            ("verified", LASTS, {"ok": True}),
        ],
        backend.notices(incident, "resolved", resolved_text(over)),
        OPEN,
        state="resolved",
        diagnosis=diagnosis,
        skill=skill,
    )
    backend.wake_notices()
    return True


def _said(seen: IncidentTranscript, what: str) -> str:
    """A value that a step of the runbook printed."""
    pattern = re.compile(_SAID.format(what=what), re.MULTILINE)
    said = [line for call in seen.calls for line in pattern.findall(call.text)]
    return squeezed(said[0]) if said else ""


def _evidence(seen: IncidentTranscript) -> tuple[Evidence, ...]:
    """What the runbook's commands printed before it changed anything."""
    first = seen.changes[0].time if seen.changes else float("inf")
    shown = {
        squeezed(call.text)[:MAX_COUNT]: call.effect
        for call in reversed(seen.calls)
        if call.tool == "terminal" and call.time < first and _says_something(call.text)
    }
    return tuple(Evidence(effect, quote) for quote, effect in reversed(shown.items()))


def _says_something(text: str) -> bool:
    """Whether there is more than the command's exit status."""
    return len(squeezed(text)) >= LEAST and not _MARK.fullmatch(text.strip())
