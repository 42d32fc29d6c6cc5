"""What became of an incident, as one value made from what is written down of it: nothing in it is
anybody's memory of what they did."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound
from hermes_agent.core.incidents import Diagnosis, Hypothesis, Incident, TimelineEntry
from hermes_agent.core.text.format import utc_stamp
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
    """Something that was really done, and what came of it."""

    time: float
    what: str
    ok: bool
    outcome: str
    session: str
    event: int
    effect: str
    undo: str = ""
    unclear: bool = False
    """Nobody can tell from its text whether it changed anything."""


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
    """What the gate did not allow."""
    timeline: tuple[TimelineEntry, ...]
    prevent: tuple[str, ...]
    needed: str = ""
    """What people must do, where it was escalated."""
    session: str = ""
    children: tuple[str, ...] = ()
    model: str = ""
    skill: str = ""
    """By which it was healed."""
    learned: str = ""
    """The skill that was written down because of it."""
    steps: int = 0
    calls: int = 0
    tokens: int = 0
    dollars: float | None = None


class _Work(Struct, frozen=True):
    """What the journal says of the work."""

    seen: IncidentTranscript
    refused: tuple[str, ...] = ()
    model: str = ""
    steps: int = 0
    tokens: int = 0
    dollars: float | None = None


async def report(world: IncidentBackend, id: str) -> IncidentReport:
    incident = await world.incidents.incident(id)
    entries = tuple(await world.incidents.timeline(id))
    work = await _work(world.journal, incident, world.results)
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
    end = f"until {utc_stamp(incident.ended)}" if incident.ended is not None else "and still is"
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
    outcome = lines[-1].strip() if lines else ""
    outcome = outcome if len(outcome) <= OUTCOME_CHARS else f"{outcome[: OUTCOME_CHARS - 1]}…"
    return ReportedAction(
        call.time, call.shown, call.ok, outcome, call.session, call.number, call.effect,
        call.undo, call.did == "unclear",
    )  # fmt: skip


def as_json(made: IncidentReport) -> dict[str, Any]:
    """As it is kept and sent."""
    shown: dict[str, Any] = msgspec.to_builtins(made)
    return shown


def needs_report(entries: Sequence[TimelineEntry]) -> bool:
    """Whether something came to an end of which no report tells."""
    ends = {"resolved", "escalated", "closed"}
    last = [entry.kind for entry in entries if entry.kind in ends or entry.kind == "report"]
    return last[-1:] != ["report"]
