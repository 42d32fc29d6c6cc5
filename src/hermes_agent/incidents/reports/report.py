"""The report of an incident, built from the timeline and the journal alone."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound
from hermes_agent.core.incidents import Diagnosis, Hypothesis, Incident, TimelineEntry
from hermes_agent.core.text.format import shortened, utc_stamp
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.response.evidence import EvidenceCall, IncidentTranscript, transcript
from hermes_agent.store.journal.store import Journal

OUTCOME_CHARS = 200


class Pointer(Struct, frozen=True, omit_defaults=True):
    """Evidence, and where it stands in the journal."""

    quote: str
    session: str
    event: int
    effect: str
    tool: str = ""
    command: str = ""


class ReportedAction(Struct, frozen=True, omit_defaults=True):
    """An action that was carried out, and its outcome."""

    time: float
    what: str
    ok: bool
    outcome: str
    session: str
    event: int
    effect: str
    undo: str = ""
    unclear: bool = False
    """Its text does not show whether it changed anything."""


class IncidentReport(Struct, frozen=True, omit_defaults=True):
    incident: str
    title: str
    severity: str
    state: str
    source: str
    service: str
    owner: str
    opened: float
    ended: float | None
    seconds: float | None
    """Time to recover."""
    impact: str
    """Who was affected, from when to when."""
    diagnosis: Diagnosis | None
    evidence: tuple[Pointer, ...]
    hypotheses: tuple[Hypothesis, ...]
    actions: tuple[ReportedAction, ...]
    refused: tuple[str, ...]
    """What the gate denied."""
    timeline: tuple[TimelineEntry, ...]
    prevent: tuple[str, ...]
    needed: str = ""
    """What people must do, where it was escalated."""
    session: str = ""
    children: tuple[str, ...] = ()
    model: str = ""
    skill: str = ""
    """The skill that healed it."""
    learned: str = ""
    """The skill that was written because of it."""
    steps: int = 0
    calls: int = 0
    tokens: int = 0
    dollars: float | None = None


class _Work(Struct, frozen=True):
    """What the journal says about the work."""

    seen: IncidentTranscript
    refused: tuple[str, ...] = ()
    model: str = ""
    steps: int = 0
    tokens: int = 0
    dollars: float | None = None


async def report(backend: IncidentBackend, id: str) -> IncidentReport:
    incident = await backend.incidents.incident(id)
    entries = tuple(await backend.incidents.timeline(id))
    work = await _work(backend.journal, incident, backend.results)
    diagnosis = incident.diagnosis
    needed = [str(entry.data["needed"]) for entry in entries if "needed" in entry.data]
    learned = [str(entry.data.get("skill", "")) for entry in entries if entry.kind == "learned"]
    return IncidentReport(
        incident=incident.id,
        title=incident.title,
        severity=incident.severity,
        state=incident.state,
        source=incident.source,
        service=incident.service,
        owner=incident.owner,
        opened=incident.opened,
        ended=incident.ended,
        seconds=incident.seconds if incident.state != "closed" else None,
        impact=_impact(incident),
        diagnosis=diagnosis,
        evidence=_pointers(incident, work.seen),
        hypotheses=incident.hypotheses,
        actions=tuple(_action(call) for call in work.seen.calls if call.did != "looked"),
        refused=work.refused,
        timeline=entries,
        prevent=diagnosis.prevent if diagnosis else (),
        needed=needed[-1] if needed and incident.state == "escalated" else "",
        session=incident.session,
        children=tuple(
            dict.fromkeys(c.session for c in work.seen.calls if c.session != incident.session)
        ),
        model=work.model,
        skill=incident.skill,
        learned=learned[-1] if learned else "",
        steps=work.steps,
        calls=len(work.seen.calls),
        tokens=work.tokens,
        dollars=work.dollars,
    )


async def _work(journal: Journal, incident: Incident, results: Path) -> _Work:
    session = incident.session
    if not session:
        return _Work(IncidentTranscript("", (), results))
    try:
        seen = await transcript(journal, session, results, incident.checks)
        events = [one.event for one in await journal.events(session)]
    except NotFound:  # somebody has deleted it
        return _Work(IncidentTranscript(session, (), results))
    ends = [event for event in events if isinstance(event, ev.TurnFinished)]
    dollars, tokens = await journal.spent_by(session)
    return _Work(
        seen,
        tuple(
            f"{event.text}: {event.reason}"
            for event in events
            if isinstance(event, ev.CallJudged) and event.action == "deny"
        ),
        next((e.model for e in reversed(events) if isinstance(e, ev.Replied) and e.model), ""),
        sum(isinstance(event, ev.Replied) for event in events),
        tokens,
        None if any(end.cost is None for end in ends) else dollars,
    )


def _impact(incident: Incident) -> str:
    hit = [name for name in dict.fromkeys([incident.service, *incident.related]) if name]
    end = f"until {utc_stamp(incident.ended)}" if incident.ended is not None else "until now"
    count = f"{incident.signals} signal{'s' if incident.signals != 1 else ''}"
    return f"{', '.join(hit) or 'unknown'}, from {utc_stamp(incident.opened)} {end} ({count})"


def _pointers(incident: Incident, seen: IncidentTranscript) -> tuple[Pointer, ...]:
    calls = {call.effect: call for call in seen.calls}
    found = incident.diagnosis.evidence if incident.diagnosis else ()
    pointers = []
    for one in found:
        call = calls.get(one.effect)
        pointers.append(
            Pointer(
                one.quote, one.session or incident.session, call.number if call else 0, one.effect,
                call.tool if call else "", str(call.arguments.get("command", "")) if call else "",
            )
        )  # fmt: skip
    return tuple(pointers)


def _action(call: EvidenceCall) -> ReportedAction:
    lines = [line for line in call.text.splitlines() if line.strip()]
    outcome = shortened(lines[-1], OUTCOME_CHARS) if lines else ""
    return ReportedAction(
        call.time, call.shown, call.ok, outcome, call.session, call.number, call.effect,
        call.undo, call.did == "unclear",
    )  # fmt: skip


def needs_report(entries: Sequence[TimelineEntry]) -> bool:
    """Whether the incident ended (again) after its last report."""
    ends = {"resolved", "escalated", "closed"}
    last = [entry.kind for entry in entries if entry.kind in ends or entry.kind == "report"]
    return last[-1:] != ["report"]
