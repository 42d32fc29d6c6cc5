"""What a session may do with its incident: the tool's side. Nothing is taken on faith: quotes are
looked up, checks are run, and what was only said changes nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.incidents import (
    OPEN,
    Diagnosis,
    EntryKind,
    Evidence,
    Hypothesis,
    Incident,
    IncidentState,
    NewNotice,
    TimelineEntry,
    WatchedCheck,
)
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Provenance
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.notification_sinks import closed_text, resolved_text, span
from hermes_agent.incidents.response.assistance import Assistance
from hermes_agent.incidents.response.copies import UNDONE
from hermes_agent.incidents.response.escalation import escalated
from hermes_agent.incidents.response.evidence import IncidentTranscript, transcript
from hermes_agent.incidents.response.facts import ServiceFacts
from hermes_agent.incidents.response.hypotheses import check_category, line, put, ranked
from hermes_agent.incidents.response.side_effects import did
from hermes_agent.incidents.response.stability import LASTS
from hermes_agent.incidents.response.verification import (
    BESIDE_SECONDS,
    Baseline,
    CheckResult,
    check_all,
    check_once,
    check_twice,
    neighbours,
    start_of,
)

Line = tuple[EntryKind, str, Mapping[str, Any]]

NO_FAULT = "no-fault"
MADE = "the checks that hold now, twice, were made by the session itself"
"""What people must know where nobody else has said how to see that all is well."""
UNDO = 10
"""Actions that are named to be undone."""


class IncidentTool:
    """The incident `id`, for its session."""

    def __init__(
        self,
        world: IncidentBackend,
        id: str,
        session: str,
        lock: asyncio.Lock,
        known: dict[str, ServiceFacts],
    ) -> None:
        self._world = world
        self._id = id
        self._session = session
        self._lock = lock
        self._assistance = Assistance(world, id, session, known)

    async def act(self, action: str, given: Mapping[str, Any], by: Provenance) -> ToolResult:
        async with self._lock:
            try:
                return await self._act(action, given, by)
            except ToolError:
                raise
            except HermesError as error:
                raise ToolError(error.message, error.hint) from None

    async def _act(self, action: str, given: Mapping[str, Any], by: Provenance) -> ToolResult:
        incident = await self._world.incidents.incident(self._id)
        entries = await self._world.incidents.timeline(self._id)
        for entry in entries:
            if entry.data.get("effect") == by.effect and "said" in entry.data:
                return _again(entry)
        if incident.state not in OPEN:
            raise ToolError(f"the incident is {incident.state}: it is over", retry="never")
        seen = await transcript(
            self._world.journal, self._session, self._world.results, incident.checks
        )
        match action:
            case "hypothesis":
                return await self._hypothesis(incident, given, seen, by)
            case "check_with":
                return await self._check_with(incident, given, by)
            case "verify":
                return await self._verify(incident, entries, seen, by)
            case "resolve":
                return await self._resolve(incident, entries, given, seen, by)
            case "facts":
                return self._said(await self._assistance.describe(given["component"]))
            case "signs":
                return self._said(await self._assistance.signs())
            case "keep":
                said, kept = await self._assistance.keep(entries, given["paths"])
                return await self._keep(by, [kept], said)
            case "undo":
                text = f"undone: {' '.join(given['output'].split())[:500]}"
                return await self._keep(
                    by, [("rolled-back", text, {UNDONE: True})], given["output"]
                )
            case "false_alarm":
                return await self._false_alarm(incident, entries, given, seen, by)
            case _:
                return await self._escalate(incident, given, seen, by)

    async def facts(self, arguments: str) -> Mapping[str, str]:
        return await self._assistance.values(arguments)

    async def undo_script(self) -> str:
        return self._assistance.undo_script(await self._world.incidents.timeline(self._id))

    def _said(self, text: str) -> ToolResult:
        return ToolResult(self._world.redact(text), {"incident": self._id})

    async def look(self, command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        return await self._world.look(self._session, command, timeout)

    async def _keep(
        self,
        by: Provenance,
        entries: Sequence[Line],
        said: str,
        notices: Sequence[NewNotice] = (),
        **fields: Any,
    ) -> ToolResult:
        """Write it down; the first entry has what the session is told, for the same effect to
        be told again."""
        (kind, text, data), *more = entries
        said = self._world.redact(said)
        told = {**data, "effect": by.effect, "session": by.session, "said": said}
        lines: list[Line] = [(kind, self._world.redact(text), told), *more]
        await self._world.incidents.change(self._id, lines, notices, OPEN, **fields)
        return ToolResult(said, {"incident": self._id})

    # believing

    async def _hypothesis(
        self, incident: Incident, given: Mapping[str, Any], seen: IncidentTranscript, by: Provenance
    ) -> ToolResult:
        if not given["claim"] and not given["id"]:
            raise ToolError("a hypothesis needs a claim", retry="changed")
        new = Hypothesis(
            given["id"], given["claim"], given["component"],
            check_category(given["category"] or "unknown"), given["confidence"], given["state"],
            await seen.find_all(given["evidence"]), await seen.find_all(given["against"]),
        )  # fmt: skip
        board, made = put(incident.hypotheses, new)
        shown = "\n".join(line(one) for one in ranked(board))
        data = {"hypothesis": made.id, "state": made.state, "confidence": made.confidence}
        return await self._keep(
            by, [("hypothesis", line(made), data)], f"{made.id} is on the board:\n{shown}",
            hypotheses=board,
        )  # fmt: skip

    # checking

    async def _check_with(
        self, incident: Incident, given: Mapping[str, Any], by: Provenance
    ) -> ToolResult:
        if not given["command"].strip():
            raise ToolError("check_with needs a command", retry="changed")
        if did("terminal", {"command": given["command"]}) == "changed":
            raise ToolError("a check only looks: this changes something", retry="changed")
        name = f"{_made_by(incident)}{len(incident.checks) + 1}"
        check = WatchedCheck(
            name, Check(given["command"], Expectation(output=given["output"])), incident.service,
            incident.terminal, incident.severity, incident.owner,
        )  # fmt: skip
        held = await check_once(check, self.look)
        if held.ok:
            raise ToolError(
                "this check holds now, so it cannot show that anything was mended",
                "use one that fails because of the trouble",
                "changed",
            )
        if held.exit is None:
            raise ToolError(f"the check cannot be run: {held.detail}", retry="changed")
        return await self._keep(
            by, [("note", f"check {name}: {check.check.run}", {"failed": name})],
            f"{name} must hold before it is resolved; now: {held.detail}",
            checks=(*incident.checks, check),
        )  # fmt: skip

    async def _looked(
        self, incident: Incident, entries: Sequence[TimelineEntry], *, twice: bool
    ) -> tuple[tuple[CheckResult, ...], tuple[CheckResult, ...]]:
        """How its own checks stand, and what got worse beside them."""
        own = (
            await check_twice(incident.checks, self.look, self._world.sleep)
            if twice
            else await check_all(incident.checks, self.look)
        )
        start = start_of(entries) or Baseline({}, {})
        near = neighbours(incident, await self._world.watched(incident))
        return own, start.worse(await check_all(near, self.look, BESIDE_SECONDS))

    async def _verify(
        self,
        incident: Incident,
        entries: Sequence[TimelineEntry],
        seen: IncidentTranscript,
        by: Provenance,
    ) -> ToolResult:
        if not incident.checks:
            raise ToolError("there is no check yet", "add one with check_with", "changed")
        own, worse = await self._looked(incident, entries, twice=False)
        lines = [held.line for held in own]
        lines += _worse(worse, seen)
        ok = all(held.ok for held in own) and not worse
        more: list[Line] = []
        if worse:
            names = ", ".join(held.name for held in worse)
            more.append(("worse", f"held before and fails now: {names}", {"checks": names}))
        elif _was_worse(entries):
            more.append(("rolled-back", "what had got worse holds again", {}))
        lines.append("all checks hold: resolve it" if ok else "it is not over")
        data = {"ok": ok, "checks": {held.name: held.ok for held in own}}
        text = "all checks hold" if ok else "; ".join(held.line for held in own if not held.ok)
        kept: Line = ("verified", text or "something got worse", data)
        return await self._keep(by, [kept, *more], "\n".join(lines), state=_state(ok=ok, seen=seen))

    # ending

    async def _resolve(
        self,
        incident: Incident,
        entries: Sequence[TimelineEntry],
        given: Mapping[str, Any],
        seen: IncidentTranscript,
        by: Provenance,
    ) -> ToolResult:
        category = check_category(given["category"])
        if category == NO_FAULT:
            raise ToolError("nothing was wrong? then it is a false_alarm", retry="changed")
        missing = [name for name in ("component", "summary", "evidence") if not given[name]]
        if missing:
            raise ToolError(f"resolve needs {', '.join(missing)}", retry="changed")
        found = await seen.find_all(given["evidence"])
        if refusal := await self._why_not(incident, entries, seen):
            return await self._refuse(by, f"it is not resolved: {refusal}")
        own, worse = await self._looked(incident, entries, twice=False)
        failing = [held.line for held in own if not held.ok]
        diagnosis = _diagnosis(given, category, found)
        if not failing and not worse:
            failing = await self._assistance.not_lasting(incident, diagnosis)
        if failing or worse:
            lines = ["it is not resolved:", *failing, *_worse(worse, seen)]
            return await self._refuse(by, "\n".join(lines))
        over = replace(incident, diagnosis=diagnosis, ended=self._world.clock())
        took = span(over.seconds or 0.0)
        text = f"resolved after {took}: {diagnosis.component}: {diagnosis.summary}"
        made = all(check.name.startswith(_made_by(incident)) for check in incident.checks)
        by_whom = MADE if made else LASTS
        held: Line = ("verified", by_whom, {"ok": True})
        shown = resolved_text(over) + (f"\n  but: {MADE}" if made else "")
        told = self._world.notices(incident, "resolved", shown)
        kept = await self._keep(
            by, [("resolved", text, {}), held], f"{incident.id} is {text}", told,
            state="resolved", diagnosis=diagnosis,
            skill=await self._skill(category),
        )  # fmt: skip
        self._world.wake_notices()
        return kept

    async def _why_not(
        self, incident: Incident, entries: Sequence[TimelineEntry], seen: IncidentTranscript
    ) -> str:
        """What keeps it from being resolved, before any check is run."""
        if not incident.checks:
            return "there is no check that could show it; add one with check_with"
        if seen.only_looked:
            return (
                "nothing was changed here, so nothing was mended; where the checks hold, it is a "
                "false_alarm"
            )
        start = start_of(entries) or Baseline({}, {})
        failed = {name for name, ok in start.own.items() if not ok}
        failed |= {str(entry.data["failed"]) for entry in entries if "failed" in entry.data}
        raised = await self._world.incidents.signals(incident=incident.id)
        failed |= {signal.check.name for signal in raised if signal.check}
        never = [check.name for check in incident.checks if check.name not in failed]
        return f"nobody has seen these checks fail: {', '.join(never)}" if never else ""

    async def _false_alarm(
        self,
        incident: Incident,
        entries: Sequence[TimelineEntry],
        given: Mapping[str, Any],
        seen: IncidentTranscript,
        by: Provenance,
    ) -> ToolResult:
        if not given["summary"]:
            raise ToolError("false_alarm needs a summary", retry="changed")
        if not incident.checks:
            raise ToolError(
                "no check could show that all is well", "escalate it instead", "changed"
            )
        if touched := [call for call in seen.calls if call.did != "looked"]:
            what = "; ".join(call.shown for call in touched[:UNDO])
            how = "was changed" if seen.changes else "may have changed something"
            return await self._refuse(by, f"it is no false alarm: this {how}: {what}")
        found = await seen.find_all(given["evidence"])
        own, _ = await self._looked(incident, entries, twice=True)
        if failing := [held.line for held in own if not held.ok]:
            return await self._refuse(by, "\n".join(["it is no false alarm:", *failing]))
        diagnosis = Diagnosis(
            incident.service, NO_FAULT, given["locus"], given["summary"], found, given["prevent"]
        )
        text = f"a false alarm: {given['summary']}"
        told = self._world.notices(incident, "closed", closed_text(incident, text))
        kept = await self._keep(
            by, [("closed", text, {})], f"{incident.id} is closed", told,
            state="closed", diagnosis=diagnosis,
        )  # fmt: skip
        self._world.wake_notices()
        return kept

    async def _escalate(
        self, incident: Incident, given: Mapping[str, Any], seen: IncidentTranscript, by: Provenance
    ) -> ToolResult:
        if not given["summary"] or not given["needed"]:
            raise ToolError("escalate needs a summary, and what is needed", retry="changed")
        found = await seen.find_all(given["evidence"])
        category = check_category(given["category"] or "unknown")
        kept = await escalated(
            self._world, incident, _diagnosis(given, category, found), given["needed"], by
        )
        return ToolResult(kept, {"incident": self._id})

    async def _refuse(self, by: Provenance, why: str) -> ToolResult:
        """It is part of the timeline that an end was claimed and was none."""
        kept = await self._keep(by, [("verified", why, {"ok": False, "refused": True})], why)
        return ToolResult(kept.text, kept.data, ok=False)

    async def _skill(self, category: str) -> str:
        """The skill of this category that the session has opened."""
        opened = [
            str(call.arguments.get("name", ""))
            for call in (await transcript(
                self._world.journal, self._session, self._world.results
            )).calls
            if call.tool == "skill" and call.ok
        ]  # fmt: skip
        known = {one.name for one in await self._world.skills() if one.incident == category}
        return next((name for name in reversed(opened) if name in known), "")


def _made_by(incident: Incident) -> str:
    """How the names of checks begin that its session made."""
    return f"{incident.id}-check-"


def _again(entry: TimelineEntry) -> ToolResult:
    data = {"incident": entry.incident}
    return ToolResult(str(entry.data["said"]), data, ok=not entry.data.get("refused", False))


def _diagnosis(
    given: Mapping[str, Any], category: str, evidence: tuple[Evidence, ...]
) -> Diagnosis:
    return Diagnosis(
        given["component"], category, given["locus"], given["summary"], evidence,
        tuple(given["prevent"]),
    )  # fmt: skip


def _state(*, ok: bool, seen: IncidentTranscript) -> IncidentState:
    if ok:
        return "verifying"
    return "mitigating" if seen.changes else "investigating"


def _worse(worse: Sequence[CheckResult], seen: IncidentTranscript) -> list[str]:
    """What got worse, with how what was done can be undone, the last first."""
    if not worse:
        return []
    lines = [f"worse: {held.name} held at the start and fails now: {held.detail}" for held in worse]
    lines.append("undo what caused it before anything else, the last action first:")
    undo = [call.undo or f"it says no way back: {call.shown}" for call in seen.changes[-UNDO:]]
    return [*lines, *(f"- {words}" for words in reversed(undo))]


def _was_worse(entries: Sequence[TimelineEntry]) -> bool:
    last = [entry.kind for entry in entries if entry.kind in {"worse", "rolled-back"}]
    return last[-1:] == ["worse"]
