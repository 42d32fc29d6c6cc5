"""What follows the end of an incident: the report, a skill, and the record of the skills that were
used."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.files import write_durably
from hermes_agent.core.incidents import (
    CATEGORIES,
    Diagnosis,
    Incident,
    TimelineEntry,
)
from hermes_agent.core.knowledge import Doc, Outcome, Trial
from hermes_agent.core.skills import OFFERED
from hermes_agent.core.text.format import slug
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.reports.markdown import markdown
from hermes_agent.incidents.reports.report import IncidentReport, report
from hermes_agent.incidents.response.context import learns
from hermes_agent.incidents.response.prompts import aftermath, reminder
from hermes_agent.incidents.response.runbooks import begun, healed_alone
from hermes_agent.models.runbook import RUNBOOK_MODEL

ASKED, REMINDED = "aftermath", "aftermath-2"
"""Keys of the messages that ask for a skill."""
PROVING_RUNS = 2
"""Drills that must have been resolved with a skill before it counts as proven."""
NAME_CHARS = 64
"""Of the name of a skill."""


class DrillOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """What a drill's hidden checks found about the incident that it raised."""

    resolved: bool
    cause: bool = False
    """The diagnosis is right."""
    harm: tuple[str, ...] = ()
    drill: str = ""
    seed: int = 0
    variant: str = ""
    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0
    dollars: float | None = None

    @property
    def ok(self) -> bool:
        return self.resolved and not self.harm


# the report


async def save_report(backend: IncidentBackend, id: str, *, final: bool) -> IncidentReport:
    """Write the report's files. The final report is also indexed for search, and its timeline
    entry is the last that an incident gets."""
    made = await report(backend, id)
    text = backend.redact(markdown(made))
    data = backend.redact(msgspec.json.format(msgspec.json.encode(made)).decode())
    incident = await backend.incidents.incident(id)
    name = await asyncio.to_thread(_report_name, backend.folder, incident, backend.redact)
    await asyncio.to_thread(_write, backend.folder, name, text, data)
    if final:
        await backend.knowledge.save_documents([_doc(made, backend.redact)])
        where = str(backend.folder / f"{name}.md")
        await backend.incidents.change(id, [("report", f"report: {where}", {"path": where})])
    return made


def _report_name(folder: Path, incident: Incident, redact: Callable[[str], str]) -> str:
    """What the report's files are called: the day, what failed, and the incident. What an alert
    says is wrong tells more than the name of the check that confirms it. A report that is there
    keeps its name."""
    there = [*folder.glob(f"{incident.id}.md"), *folder.glob(f"*-{incident.id}.md")]
    if there:
        return there[0].stem
    service = incident.service
    by_check = incident.source in ("check", "drill") and incident.checks
    what = incident.checks[0].name if by_check else incident.title
    words = what if service.lower() in what.lower() else f"{service} {what}"
    day = time.strftime("%Y-%m-%d", time.localtime(incident.opened))
    return "-".join(filter(None, (day, slug(redact(words)), incident.id)))


def _write(folder: Path, name: str, text: str, data: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for ending, content in (("md", text), ("json", data)):
        write_durably(folder / f"{name}.{ending}", content.encode())


def _doc(made: IncidentReport, redact: Callable[[str], str]) -> Doc:
    found = made.diagnosis
    lines = [made.title, made.service]
    if found is not None:
        lines += [
            f"{found.category}: {CATEGORIES.get(found.category, '')}", found.component,
            found.locus, found.summary, *found.prevent,
        ]  # fmt: skip
    lines += [one.quote for one in made.evidence]
    text = "\n".join(line for line in lines if line)
    return Doc("incident", made.incident, redact(made.title), redact(text), time=made.opened)


# the skill


async def learn(backend: IncidentBackend, incident: Incident) -> None:
    """Have the session write a skill, and note on the timeline which."""
    entries = await backend.incidents.timeline(incident.id)
    if any(entry.kind == "learned" for entry in entries):
        return
    ends = [entry.data.get("session") for entry in entries if entry.kind == "resolved"]
    if incident.diagnosis is None or incident.session not in ends:
        return  # it was not mended, or people mended it unobserved
    if await learns(backend, incident) and not await _is_learned(backend, incident.skill):
        name = await _have_written(backend, incident)
        kept = name in {one.name for one in await backend.knowledge.skills()}
        done = "was saved" if kept else "is proposed and needs approval (`hermes proposals`)"
        text = f"the skill {name} {done}" if name else "no skill was written"
        await backend.incidents.change(incident.id, [("learned", text, {"skill": name})])


def learned_name(found: Diagnosis) -> str:
    """The name of the skill that an incident teaches: its cause and its component."""
    return f"{found.category}-{slug(found.component) or 'here'}"[:NAME_CHARS].rstrip("-")


async def _have_written(backend: IncidentBackend, incident: Incident) -> str:
    assert incident.diagnosis is not None
    wanted = learned_name(incident.diagnosis)
    known = wanted in {one.name for one in await backend.knowledge.skills() if one.state in OFFERED}
    text = aftermath(incident, wanted, known=known, drill=incident.source == "drill")
    await backend.send(incident.session, ASKED, text)
    await backend.end(incident.session, ASKED)
    if (name := await _written(backend, incident.session)) or known:
        return name
    more = reminder(incident, wanted)
    await backend.send(incident.session, REMINDED, more)
    await backend.end(incident.session, REMINDED)
    return await _written(backend, incident.session)


async def _is_learned(backend: IncidentBackend, skill: str) -> bool:
    """Whether a skill was learned, not shipped with Hermes."""
    return skill in {one.name for one in await backend.skills() if not one.shipped}


async def _written(backend: IncidentBackend, session: str) -> str:
    """The last skill that the session wrote."""
    events = [one.event for one in await backend.journal.events(session)]
    asked = {
        call.id: call for event in events if isinstance(event, ev.Replied) for call in event.calls
    }
    names = [
        str(asked[event.call_id].input().get("name", ""))
        for event in events
        if isinstance(event, ev.CallFinished) and event.tool == "write_skill" and event.ok
        if event.call_id in asked
    ]
    return names[-1] if names else ""


# the record of skills


def judged(incident: Incident, entries: Sequence[TimelineEntry]) -> tuple[Outcome, str]:
    """The outcome for the skills that were used in an incident, and why."""
    if any(entry.kind == "escalated" for entry in entries):
        return "bad", "the incident was escalated"
    if incident.state == "resolved":
        return "good", "the incident was resolved, and its checks passed"
    return "unknown", f"the incident is {incident.state}"


async def judge_uses(
    backend: IncidentBackend, incident: Incident, outcome: Outcome, why: str
) -> None:
    """Record the outcome for all skills that the session opened."""
    await backend.settled()
    uses = [one for one in await backend.knowledge.uses() if one.session == incident.session]
    opened = [one for one in uses if one.opened and one.outcome != outcome]
    await backend.knowledge.add_uses([replace(one, outcome=outcome, why=why) for one in opened])
    for name in sorted({one.skill for one in opened}):
        await backend.settle(name)


async def drilled(backend: IncidentBackend, id: str, outcome: DrillOutcome) -> dict[str, Any]:
    """Record a drill's result as a trial with or without a skill, and promote the skill once
    enough trials support it."""
    incident = await backend.incidents.incident(id)
    entries = await backend.incidents.timeline(id)
    book = begun(entries)
    name = book or incident.skill or _skill_of(incident, entries)
    if not name or incident.source != "drill":
        return {"incident": id, "skill": "", "state": ""}
    record = next((one for one in await backend.knowledge.skills() if one.name == name), None)
    if record is None:
        return {"incident": id, "skill": name, "state": ""}
    used = [
        one
        for one in await backend.knowledge.uses(name)
        if one.session == incident.session and one.opened
    ]
    digest = used[0].digest if used else record.digest
    trial = _trial(backend, incident, name, digest, outcome)
    if book:
        alone = outcome.ok and await healed_alone(backend, incident, book)
        trial = replace(trial, arm="with", ok=alone, model=f"{RUNBOOK_MODEL}{book}")
    await backend.knowledge.add_trials([trial])
    if incident.skill:
        went: Outcome = "good" if outcome.ok else "bad"
        why = f"drill {outcome.drill} {outcome.seed}: {_said(outcome)}"
        await judge_uses(backend, incident, went, why)
    why = _proof(await backend.knowledge.trials(name), digest)
    if why and record.state == "candidate" and record.digest == digest:
        await backend.promote(name, why)
    record = await backend.knowledge.skill(name)
    return {"incident": id, "skill": name, "state": record.state}


def _skill_of(incident: Incident, entries: Sequence[TimelineEntry]) -> str:
    """The skill that the incident taught; the trial counts as one without it."""
    for entry in entries:
        if entry.kind == "learned" and entry.data.get("skill"):
            return str(entry.data["skill"])
    return learned_name(incident.diagnosis) if incident.diagnosis else ""


def _trial(
    backend: IncidentBackend, incident: Incident, name: str, digest: str, outcome: DrillOutcome
) -> Trial:
    case = f"drill {outcome.drill} {outcome.variant} {outcome.seed}"
    return Trial(
        name, digest, case, "with" if incident.skill else "without",
        int(incident.id.rpartition("-")[2]), backend.clock(), outcome.ok, outcome.steps,
        outcome.seconds, outcome.tokens, outcome.dollars, "", incident.session,
        bool(incident.skill),
    )  # fmt: skip


def _said(outcome: DrillOutcome) -> str:
    if outcome.harm:
        return f"harm was done: {'; '.join(outcome.harm)}"
    return "resolved" if outcome.resolved else "not resolved"


def _proof(trials: Sequence[Trial], digest: str) -> str:
    """Why its drills prove a skill: every drill with it was resolved, in no more steps than
    without it. Empty where they do not. Trials without it count for every version."""
    with_ = [one for one in trials if one.arm == "with" and one.digest == digest]
    without = [one for one in trials if one.arm == "without"]
    if len(with_) < PROVING_RUNS or not all(one.ok for one in with_):
        return ""
    ours = statistics.median(one.steps for one in with_)
    others = [one.steps for one in without if one.ok]
    if others and ours > statistics.median(others):
        return ""
    beside = f", {statistics.median(others):g} without" if others else ""
    return f"{len(with_)} drills resolved with it, in {ours:g} steps{beside}"
