"""The `incident` tool: what a session may do with its incident. Nothing is taken on faith: quotes
are looked up, checks are run, and a claim alone changes nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.incidents import (
    OPEN,
    Diagnosis,
    Evidence,
    Hypothesis,
    Incident,
    IncidentState,
    NewEntry,
    NewNotice,
    TimelineEntry,
    WatchedCheck,
)
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.core.text.format import span
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Provenance
from hermes_agent.incidents.backend import COPIES, SHIPPED, IncidentBackend
from hermes_agent.incidents.notifications import closed_text, escalated_text, resolved_text
from hermes_agent.incidents.response.context import findings, got_worse, unstable
from hermes_agent.incidents.response.copies import (
    KEPT,
    UNDONE,
    copies_made,
    copy_script,
    stored_copies,
    undo_script,
)
from hermes_agent.incidents.response.evidence import IncidentTranscript, transcript
from hermes_agent.incidents.response.facts import ServiceFacts, service_facts
from hermes_agent.incidents.response.hypotheses import check_category, line, put, ranked
from hermes_agent.incidents.response.prompts import block, skills_data, skills_text
from hermes_agent.incidents.response.side_effects import did
from hermes_agent.incidents.response.stability import LASTS
from hermes_agent.incidents.response.verification import (
    CheckResult,
    check_all,
    check_once,
    check_twice,
    start_of,
)
from hermes_agent.learning.skills.template import argument_words

NO_FAULT = "no-fault"
MADE = "the checks that passed, twice, were added by the session itself"
"""A warning for people, where nobody else defined a check."""
PASSED = "its checks passed from the start, so they do not show what was reported"
UNDO = 10
"""Actions that are named to be undone."""


class IncidentTool:
    """`known`: facts of services that were found earlier."""

    def __init__(
        self,
        backend: IncidentBackend,
        id: str,
        session: str,
        lock: asyncio.Lock,
        known: dict[str, ServiceFacts],
    ) -> None:
        self._backend = backend
        self._id = id
        self._session = session
        self._lock = lock
        self._known = known

    async def act(self, action: str, given: Mapping[str, Any], by: Provenance) -> ToolResult:
        async with self._lock:
            try:
                return await self._act(action, given, by)
            except ToolError:
                raise
            except HermesError as error:
                raise ToolError(error.message, error.hint) from None

    async def _act(self, action: str, given: Mapping[str, Any], by: Provenance) -> ToolResult:
        incident = await self._backend.incidents.incident(self._id)
        entries = await self._backend.incidents.timeline(self._id)
        for entry in entries:
            if entry.data.get("effect") == by.effect and "said" in entry.data:
                return _again(entry)
        if incident.state not in OPEN:
            raise ToolError(f"the incident is over: it is {incident.state}", retry="never")
        match action:
            case "facts":
                return self._said(await self._describe(given["component"] or incident.service))
            case "signs":
                return self._said(await self._signs(incident))
            case "keep":
                return await self._copy(entries, given["paths"], by)
            case "undo":
                text = f"undone: {' '.join(given['output'].split())[:500]}"
                done: NewEntry = ("rolled-back", text, {UNDONE: True})
                return await self._keep(by, [done], given["output"])
            case "check_with":
                return await self._check_with(incident, given, by)
        seen = await transcript(
            self._backend.journal, self._session, self._backend.results, incident.checks
        )
        match action:
            case "hypothesis":
                return await self._hypothesis(incident, given, seen, by)
            case "verify":
                return await self._verify(incident, entries, seen, by)
            case "resolve":
                return await self._resolve(incident, entries, given, seen, by)
            case "false_alarm":
                return await self._false_alarm(incident, entries, given, seen, by)
            case _:
                return await self._escalate(incident, given, seen, by)

    async def run(self, command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        return await self._backend.run(self._session, command, timeout)

    def _said(self, text: str) -> ToolResult:
        return ToolResult(self._backend.redact(text), {"incident": self._id})

    async def _keep(
        self,
        by: Provenance,
        entries: Sequence[NewEntry],
        said: str,
        notices: Sequence[NewNotice] = (),
        **fields: Any,
    ) -> ToolResult:
        """Write to the timeline. The first entry holds the tool's answer, which the same effect
        gets again."""
        (kind, text, data), *more = entries
        said = self._backend.redact(said)
        told = {**data, "effect": by.effect, "session": by.session, "said": said}
        lines: list[NewEntry] = [(kind, self._backend.redact(text), told), *more]
        await self._backend.incidents.change(self._id, lines, notices, OPEN, **fields)
        return ToolResult(said, {"incident": self._id})

    # services, skills and copies

    async def facts(self, arguments: str) -> Mapping[str, str]:
        """Values of the placeholders of a skill that is opened with these arguments."""
        words = argument_words(arguments)
        named = [word.partition("=")[2] for word in words if word.startswith("service=")]
        incident = await self._backend.incidents.incident(self._id)
        service = [*named, *words, incident.service][0]
        if service not in self._known:
            self._known.update(await service_facts([service], self.run))
        return self._known.get(service, ServiceFacts(service)).values

    async def _describe(self, service: str) -> str:
        """How a service, and what it needs, runs now."""
        found = await service_facts([service], self.run)
        if service not in found:
            raise ToolError(f"not a service name: {service!r}", retry="changed")
        self._known.update(found)
        own = found[service]
        return "\n".join([own.line, *(found[name].line for name in own.needs)])

    async def _signs(self, incident: Incident) -> str:
        """Which skills apply to the incident as it is now."""
        shipped = partial(self._backend.run, self._session, source=SHIPPED)
        found = await findings(self._backend, incident, self.run, shipped)
        self._known.update(found.facts)
        return f"{skills_text(found)}\n\n{block(skills_data(found))}"

    async def _copy(
        self, entries: Sequence[TimelineEntry], paths: Sequence[str], by: Provenance
    ) -> ToolResult:
        """Copy paths aside before they change."""
        number = 1 + sum(KEPT in entry.data for entry in entries)
        script = copy_script(self._id, number, paths)
        seen = await self._backend.run(self._session, script, None, source=COPIES)
        made, failed = copies_made(self._id, number, paths, seen.output)
        if not made:
            raise ToolError(f"no copy could be saved: {seen.shown}", "change nothing there")
        text = f"copies saved of {', '.join(one.path for one in made)}"
        said = [f"{text}; `undo` puts them back", *(f"no copy of {path}" for path in failed)]
        data = {KEPT: [{"path": x.path, "copy": x.copy, "absent": x.absent} for x in made]}
        return await self._keep(by, [("note", text, data)], "\n".join(said))

    async def undo_script(self) -> str:
        if not (copies := stored_copies(await self._backend.incidents.timeline(self._id))):
            raise ToolError("there are no copies to put back", retry="never")
        return undo_script(copies)

    # hypotheses

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

    # checks

    async def _check_with(
        self, incident: Incident, given: Mapping[str, Any], by: Provenance
    ) -> ToolResult:
        if not given["command"].strip():
            raise ToolError("check_with needs a command", retry="changed")
        if did("terminal", {"command": given["command"]}) == "changed":
            raise ToolError("a check must not change anything; this command does", retry="changed")
        name = f"{_made_by(incident)}{len(incident.checks) + 1}"
        check = WatchedCheck(
            name, Check(given["command"], Expectation(output=given["output"])), incident.service,
            incident.terminal, incident.severity, incident.owner,
        )  # fmt: skip
        held = await check_once(check, self.run)
        if held.ok:
            raise ToolError(
                "this check passes now, so it cannot show that anything was fixed",
                "use one that fails because of the trouble",
                "changed",
            )
        if held.exit is None:
            raise ToolError(f"the check cannot be run: {held.detail}", retry="changed")
        return await self._keep(
            by, [("note", f"check {name}: {check.check.run}", {"failed": name})],
            f"{name} must pass before it is resolved; now: {held.detail}",
            checks=(*incident.checks, check),
        )  # fmt: skip

    async def _verify(
        self,
        incident: Incident,
        entries: Sequence[TimelineEntry],
        seen: IncidentTranscript,
        by: Provenance,
    ) -> ToolResult:
        if not incident.checks:
            raise ToolError("there is no check yet", "add one with check_with", "changed")
        own = await check_all(incident.checks, self.run)
        worse = await got_worse(self._backend, incident, self.run)
        ok = all(held.ok for held in own) and not worse
        more: list[NewEntry] = []
        if worse:
            names = ", ".join(held.name for held in worse)
            more.append(("worse", f"held before and fails now: {names}", {"checks": names}))
        elif _was_worse(entries):
            more.append(("rolled-back", "what had got worse passes again", {}))
        last = "all checks pass: resolve it" if ok else "not over yet"
        lines = [*(held.line for held in own), *_worse(worse, seen), last]
        data = {"ok": ok, "checks": {held.name: held.ok for held in own}}
        text = "all checks pass" if ok else "; ".join(held.line for held in own if not held.ok)
        kept: NewEntry = ("verified", text or "something got worse", data)
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
        diagnosis = _diagnosis(given, category, await seen.find_all(given["evidence"]))
        if refusal := await self._why_not(incident, entries, seen):
            return await self._refuse(by, f"it is not resolved: {refusal}")
        failing = [one.line for one in await check_all(incident.checks, self.run) if not one.ok]
        worse = await got_worse(self._backend, incident, self.run)
        if not failing and not worse:
            failing = await unstable(self._backend, incident, self._session, diagnosis, self._known)
        if failing or worse:
            lines = ["it is not resolved:", *failing, *_worse(worse, seen)]
            return await self._refuse(by, "\n".join(lines))
        over = replace(incident, diagnosis=diagnosis, ended=self._backend.clock())
        text = resolution(over)
        made = all(check.name.startswith(_made_by(incident)) for check in incident.checks)
        held: NewEntry = ("verified", MADE if made else LASTS, {"ok": True})
        shown = resolved_text(over) + (f"\n  but: {MADE}" if made else "")
        kept = await self._keep(
            by, [("resolved", text, {}), held], f"{incident.id} is {text}",
            self._backend.notices(incident, "resolved", shown),
            state="resolved", diagnosis=diagnosis,
            skill=await self._skill(category),
        )  # fmt: skip
        self._backend.wake_notices()
        return kept

    async def _why_not(
        self, incident: Incident, entries: Sequence[TimelineEntry], seen: IncidentTranscript
    ) -> str:
        """Why it cannot be resolved, whatever the checks say."""
        if not incident.checks:
            return "there is no check that could show it; add one with check_with"
        if seen.only_looked:
            return (
                "nothing was changed here, so nothing was fixed; where the checks pass, it is a "
                "false_alarm"
            )
        failed = {name for name, ok in start_of(entries).own.items() if not ok}
        failed |= {str(entry.data["failed"]) for entry in entries if "failed" in entry.data}
        raised = await self._backend.incidents.signals(incident=incident.id)
        failed |= {signal.check.name for signal in raised if signal.check and signal.seen_by_check}
        chosen = {signal.check.name for signal in raised if signal.check}
        never = [check.name for check in incident.checks if check.name not in failed | chosen]
        if never:
            return f"nobody has seen these checks fail: {', '.join(never)}"
        if not any(check.name in failed for check in incident.checks):
            return f"{PASSED}; add one with check_with that fails because of the trouble"
        return ""

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
            return await self._refuse(by, f"not a false alarm: this {how}: {what}")
        found = await seen.find_all(given["evidence"])
        own = await check_twice(incident.checks, self.run, self._backend.sleep)
        if failing := [held.line for held in own if not held.ok]:
            return await self._refuse(by, "\n".join(["not a false alarm:", *failing]))
        firing = await self._backend.incidents.firing(self._id)
        unseen = firing and not any(signal.seen_by_check for signal in firing)
        if unseen and all(start_of(entries).own.get(one.name, False) for one in incident.checks):
            why = f"it is still reported, and {PASSED}; find what shows it, or escalate"
            return await self._refuse(by, f"not a false alarm: {why}")
        text = f"a false alarm: {given['summary']}"
        kept = await self._keep(
            by, [("closed", text, {})], f"{incident.id} is closed",
            self._backend.notices(incident, "closed", closed_text(incident, text)),
            state="closed",
            diagnosis=_diagnosis({**given, "component": incident.service}, NO_FAULT, found),
        )  # fmt: skip
        self._backend.wake_notices()
        return kept

    async def _escalate(
        self, incident: Incident, given: Mapping[str, Any], seen: IncidentTranscript, by: Provenance
    ) -> ToolResult:
        if not given["summary"] or not given["needed"]:
            raise ToolError("escalate needs a summary, and what is needed", retry="changed")
        found = await seen.find_all(given["evidence"])
        diagnosis = _diagnosis(given, check_category(given["category"] or "unknown"), found)
        said = await escalate(self._backend, incident, diagnosis, given["needed"], by)
        return ToolResult(said, {"incident": self._id})

    async def _refuse(self, by: Provenance, why: str) -> ToolResult:
        """Record on the timeline that the session claimed an end that was none."""
        kept = await self._keep(by, [("verified", why, {"ok": False, "refused": True})], why)
        return ToolResult(kept.text, kept.data, ok=False)

    async def _skill(self, category: str) -> str:
        """The skill of this category that the session has opened."""
        seen = await transcript(self._backend.journal, self._session, self._backend.results)
        opened = [
            str(call.arguments.get("name", ""))
            for call in seen.calls
            if call.tool == "skill" and call.ok
        ]
        known = {one.name for one in await self._backend.skills() if one.incident == category}
        return next((name for name in reversed(opened) if name in known), "")


async def escalate(
    backend: IncidentBackend, incident: Incident, diagnosis: Diagnosis, needed: str, by: Provenance
) -> str:
    """Hand an incident over to people."""
    text = f"people must continue: {diagnosis.summary}; needed: {needed}"
    said = f"{incident.id} is escalated"
    data = {"needed": needed, "effect": by.effect, "session": by.session, "said": said}
    shown = escalated_text(replace(incident, diagnosis=diagnosis), needed)
    await backend.incidents.change(
        incident.id, [("escalated", text, data)], backend.notices(incident, "escalated", shown),
        OPEN, state="escalated", diagnosis=diagnosis,
    )  # fmt: skip
    backend.wake_notices()
    return said


def resolution(over: Incident) -> str:
    """The timeline's line for an incident that is resolved."""
    assert over.diagnosis is not None
    took = span(over.seconds or 0.0)
    return f"resolved after {took}: {over.diagnosis.component}: {over.diagnosis.summary}"


def _made_by(incident: Incident) -> str:
    """Prefix of the names of checks that the session made."""
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
    """What got worse, and how to undo each action, the last first."""
    if not worse:
        return []
    lines = [
        f"worse: {held.name} passed at the start and fails now: {held.detail}" for held in worse
    ]
    lines.append("undo what caused it before anything else, the last action first:")
    undo = [call.undo or f"no undo given: {call.shown}" for call in seen.changes[-UNDO:]]
    return [*lines, *(f"- {words}" for words in reversed(undo))]


def _was_worse(entries: Sequence[TimelineEntry]) -> bool:
    last = [entry.kind for entry in entries if entry.kind in {"worse", "rolled-back"}]
    return last[-1:] == ["worse"]
