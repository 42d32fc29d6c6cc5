"""The commander: has every incident worked on until it is resolved, closed or escalated, then has
the report and the skill written. All its state is in the store and the journal, and each message
that it sends has a key: after a crash the next runtime continues, and nothing is done twice."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, HermesError, NotFound, Stopping, UsageError
from hermes_agent.core.incidents import OPEN, Diagnosis, Incident
from hermes_agent.core.knowledge import Outcome
from hermes_agent.core.records import Session
from hermes_agent.core.skills import ActivatedSkill
from hermes_agent.core.tools import Provenance
from hermes_agent.incidents.backend import COMMANDER, KEY, RESPONDER, SHIPPED, IncidentBackend
from hermes_agent.incidents.reports.closeout import judge_uses, judged, learn, save_report
from hermes_agent.incidents.reports.knowledge import learn_topology, remember
from hermes_agent.incidents.reports.report import needs_report
from hermes_agent.incidents.response.actions import IncidentTool, escalate
from hermes_agent.incidents.response.candidates import Findings
from hermes_agent.incidents.response.context import (
    Extent,
    earlier,
    findings,
    got_worse,
    known_before,
    near,
)
from hermes_agent.incidents.response.facts import ServiceFacts
from hermes_agent.incidents.response.hypotheses import best_guess
from hermes_agent.incidents.response.known_fix import KnownFix, record_fix
from hermes_agent.incidents.response.prompts import again, brief
from hermes_agent.incidents.response.runbooks import RUNBOOK, begun, first_runbook, healed
from hermes_agent.incidents.response.timeline import follow
from hermes_agent.incidents.response.verification import (
    BESIDE_SECONDS,
    START,
    RunCommand,
    as_start,
    check_all,
    neighbours,
)
from hermes_agent.models.runbook import OPENING

log = logging.getLogger("hermes.incidents")

POLL_SECONDS = 5.0
"""How often it checks for incidents without being woken."""
AGAIN = 3
"""How often a session that stopped early is told to continue."""
PATIENCE_SECONDS = 1_800.0
"""How long a turn may take before the incident is escalated."""
GLANCE_SECONDS = 1.0
"""How often it checks whether somebody else has ended an incident."""
BROKEN = 5
"""After so many unexpected failures in a row the incident is escalated."""
ENDED = 50
"""How many of the last ended incidents are checked for a missing report."""
BRIEF = "brief"
ALIKE = "alike"
"""The key of a timeline entry that names earlier incidents of the same kind."""


class Commander:
    def __init__(self, backend: IncidentBackend) -> None:
        self._backend = backend
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._woken = asyncio.Event()
        self._facts: dict[str, dict[str, ServiceFacts]] = {}
        """A cache of the facts of services, by incident."""
        self._broken: dict[str, int] = {}
        """Failures in a row, by incident."""
        self._reported: set[tuple[str, str]] = set()
        """Incidents and the state in their report; an escalated one may be resolved later."""

    def wake(self) -> None:
        self._woken.set()

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def tool_for(self, session: Session) -> IncidentTool:
        """The backend of the `incident` tool in an incident's session."""
        id = session.key.removeprefix(KEY)
        lock = self._locks.setdefault(id, asyncio.Lock())
        return IncidentTool(self._backend, id, session.id, lock, self._facts.setdefault(id, {}))

    async def outcome(self, session: Session) -> tuple[Outcome, str]:
        """How the work of an incident's session has gone so far."""
        id, incidents = session.key.removeprefix(KEY), self._backend.incidents
        return judged(await incidents.incident(id), await incidents.timeline(id))

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self._woken.clear()
                try:
                    await self._begin_all()
                except Degraded as trouble:
                    log.warning("incidents wait: %s", trouble.message)
                except Exception:
                    log.exception("the commander failed; it continues")
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._woken.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _begin_all(self) -> None:
        """Start work on open incidents, the worst and oldest first, then on missing reports."""
        store = self._backend.incidents
        waiting = sorted(
            await store.incidents(open=True), key=lambda one: (one.severity, one.opened)
        )
        for ended in await store.incidents(open=False, limit=ENDED):
            if ended.id in self._tasks or (ended.id, ended.state) in self._reported:
                continue
            if needs_report(await store.timeline(ended.id)):
                waiting.append(ended)
            else:
                self._reported.add((ended.id, ended.state))
        for incident in waiting:
            if incident.id not in self._tasks and len(self._tasks) < self._backend.parallel:
                task = asyncio.create_task(self._work(incident.id), name=f"incident {incident.id}")
                self._tasks[incident.id] = task
                task.add_done_callback(partial(self._worked, incident.id))

    def _worked(self, id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(id, None)
        if not task.cancelled():
            if (error := task.exception()) is not None:
                log.error("work on %s failed; retrying", id, exc_info=error)
            else:
                self.wake()  # there is room for the next

    async def _work(self, id: str) -> None:
        """Work on an incident once. After several unexpected failures it is escalated."""
        try:
            await self._work_on(id)
        except (Degraded, Stopping):
            raise
        except Exception as error:
            self._broken[id] = self._broken.get(id, 0) + 1
            if self._broken[id] >= BROKEN:
                await self._broke(id, type(error).__name__)
            raise
        self._broken.pop(id, None)

    async def _broke(self, id: str, what: str) -> None:
        why = f"work on it crashed {self._broken.pop(id)} times in a row ({what})"
        incident = await self._backend.incidents.incident(id)
        if incident.state in OPEN:
            await self._give_up(id, why, "continue by hand; `hermes logs` shows the cause")
        else:  # the next runtime tries it again
            self._reported.add((id, incident.state))
            text = f"no report, and nothing learned: {why}; see `hermes logs`"
            await self._backend.incidents.change(id, [("note", text, {})])

    async def _work_on(self, id: str) -> None:
        incident = await self._backend.incidents.incident(id)
        if incident.state in OPEN:
            try:
                await self._respond(incident)
            except (UsageError, NotFound) as error:
                # Its terminal, its policy or its session does not exist.
                needed = error.hint or "investigate it, or close it"
                await self._give_up(id, f"it could not be worked on: {error.message}", needed)
        incident = await self._backend.incidents.incident(id)
        if incident.state in OPEN:
            return
        await record_fix(self._backend, incident)
        await learn_topology(self._backend, incident, self._facts.get(id, {}))
        await remember(self._backend, incident)
        await save_report(self._backend, id, final=False)
        try:
            await learn(self._backend, incident)
        except (UsageError, NotFound) as error:
            log.warning("nothing was learned from %s: %s", id, error.message)
        if incident.session:
            entries = await self._backend.incidents.timeline(id)
            await judge_uses(self._backend, incident, *judged(incident, entries))
        await save_report(self._backend, id, final=True)

    # responding

    async def _respond(self, incident: Incident) -> None:
        session = await self._begin(incident)
        following = asyncio.create_task(follow(self._backend, incident.id, session.id))
        try:
            await self._until_over(incident.id, session)
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _begin(self, incident: Incident) -> Session:
        """Open its session, and record the state of all checks before anything changes."""
        session = await self._backend.open(incident)
        run = self._runner(session.id)
        if incident.session != session.id:
            await self._backend.incidents.change(
                incident.id, [("state", "investigating", {"session": session.id})], (), OPEN,
                state="investigating", session=session.id,
            )  # fmt: skip
        entries = await self._backend.incidents.timeline(incident.id)
        if not any(START in entry.data for entry in entries):
            watched = await self._backend.watched(incident)
            own, beside = await asyncio.gather(
                check_all(incident.checks, run),
                check_all(neighbours(incident, watched), run, BESIDE_SECONDS),
            )
            stood = "; ".join(held.line for held in (*own, *beside)) or "there is no check"
            text = self._backend.redact(f"at the start: {stood}")
            await self._backend.incidents.change(
                incident.id, [("note", text, as_start(own, beside))], (), OPEN
            )
        return session

    def _runner(self, session: str, source: str = "") -> RunCommand:
        return partial(self._backend.run, session, source=source)

    async def _until_over(self, id: str, session: Session) -> None:
        """Send the next message and wait for its turn, until the incident is over."""
        while True:
            incident = await self._backend.incidents.incident(id)
            key = await self._last_key(session.id)
            if key:
                end = await self._end_of(incident, session.id, key)
                incident = await self._backend.incidents.incident(id)
                if incident.state not in OPEN:
                    return
                if key == RUNBOOK and await self._is_healed(incident, session.id):
                    return
                if trouble := _stopped(end):
                    await self._give_up(id, trouble, "continue by hand, or in the session")
                    return
                if end.reason == "failed" and (model := await self._backend.fall_back(session.id)):
                    text = f"the model failed ({end.error}); {model} takes over"
                    await self._backend.incidents.change(id, [("note", text, {})], (), OPEN)
            if incident.state not in OPEN:
                return
            if not await self._send_next(incident, session, key):
                needed = "find the cause; no hypothesis is on the board"
                if incident.hypotheses:
                    needed = "continue from the hypotheses on the board"
                await self._give_up(id, f"no outcome after {AGAIN + 1} turns", needed)
                return

    async def _is_healed(self, incident: Incident, session: str) -> bool:
        """Whether the runbook has fixed it."""
        skill = begun(await self._backend.incidents.timeline(incident.id))
        known = self._facts.setdefault(incident.id, {})
        return await healed(self._backend, incident, session, skill, known)

    async def _last_key(self, session: str) -> str:
        """The key of the commander's last message that a turn has taken."""
        keys = [
            one.event.key
            for one in await self._backend.journal.events(session)
            if isinstance(one.event, ev.MessageTaken) and one.event.source == COMMANDER
        ]
        return keys[-1] if keys else ""

    async def _send_next(self, incident: Incident, session: Session, key: str) -> bool:
        """False when there is nothing left to send."""
        run = self._runner(session.id)
        if key in {"", RUNBOOK}:
            fix, found = await self._findings(incident, session)
            self._facts[incident.id] = dict(found.facts)
            text = await self._brief(incident, run, found, fix)
            opened = None if key else await first_runbook(self._backend, incident, found)
            if opened is not None:
                text, names = f"{OPENING}\n\n{text}", [opened.skill]
                await self._send(session, RUNBOOK, text, names, opened)
            else:
                fitting = [one.skill.name for one in found.candidates if one.fits]
                names = [*dict.fromkeys(fitting), *(one.name for one in found.others)]
                await self._send(session, BRIEF, text, names)
        else:
            number = 1 if key == BRIEF else int(key.rpartition("-")[2]) + 1
            if number > AGAIN:
                return False
            held = await check_all(incident.checks, run)
            worse = await got_worse(self._backend, incident, run)
            text = again(number, held, worse, incident)
            await self._send(session, f"again-{number}", text)
        return True

    async def _send(
        self,
        session: Session,
        key: str,
        text: str,
        offered: Sequence[str] = (),
        opened: ActivatedSkill | None = None,
    ) -> None:
        await self._backend.send(session.id, key, text, offered, opened)
        await self._taken(session.id, key)

    async def _taken(self, session: str, key: str) -> None:
        """Wait until a turn has taken the message, so that `_last_key` finds it."""
        async for recorded in self._backend.events(session):
            if isinstance(recorded.event, ev.MessageTaken) and recorded.event.key == key:
                return

    async def _findings(
        self, incident: Incident, session: Session
    ) -> tuple[KnownFix | None, Findings]:
        """What fixed it before, and what applies now. What is known is tried first, and nothing
        else if its signs are there, except for the responder, which can only follow skills."""
        run, shipped = self._runner(session.id), self._runner(session.id, SHIPPED)
        fix = await known_before(self._backend, incident, run)
        enough = fix is not None and fix.present and session.model != RESPONDER
        extent: Extent = "learned" if enough else "learned-first"
        found = await findings(self._backend, incident, run, shipped, fix, extent=extent)
        return fix, found

    async def _brief(
        self, incident: Incident, run: RunCommand, found: Findings, fix: KnownFix | None
    ) -> str:
        alike = await earlier(self._backend, incident)
        await self._note_alike(incident.id, alike)
        return brief(
            incident,
            await self._backend.incidents.signals(incident=incident.id, limit=5),
            await check_all(incident.checks, run),
            await near(self._backend, incident),
            found,
            alike,
            fix,
        )

    async def _note_alike(self, id: str, alike: Sequence[Incident]) -> None:
        """Put the earlier incidents on the timeline, once."""
        causes = [(one.id, one.diagnosis) for one in alike if one.diagnosis is not None]
        entries = await self._backend.incidents.timeline(id)
        if not causes or any(ALIKE in entry.data for entry in entries):
            return
        named = ", ".join(f"{one}: {why.category} in {why.component}" for one, why in causes)
        text, data = self._backend.redact(f"like {named}"), {ALIKE: [one for one, _ in causes]}
        await self._backend.incidents.change(id, [("note", text, data)], (), OPEN)

    async def _end_of(self, incident: Incident, session: str, key: str) -> ev.TurnFinished:
        """Wait for the end of a turn; closing the incident interrupts it."""
        ending = asyncio.create_task(self._backend.end(session, key))
        deadline = self._backend.clock() + PATIENCE_SECONDS
        stopped = False
        try:
            while not (await asyncio.wait((ending,), timeout=GLANCE_SECONDS))[0]:
                why = await self._why_stop(incident.id, session, deadline)
                if why and not stopped:
                    stopped = True
                    await self._backend.interrupt(session, why)
            return ending.result()
        finally:
            ending.cancel()

    async def _why_stop(self, id: str, session: str, deadline: float) -> str:
        incident = await self._backend.incidents.incident(id)
        if incident.state not in OPEN and not await self._ended_here(id, session):
            return "somebody else ended the incident"
        return "it took too long" if self._backend.clock() > deadline else ""

    async def _ended_here(self, id: str, session: str) -> bool:
        entries = await self._backend.incidents.timeline(id)
        ends = [one for one in entries if one.kind in {"resolved", "escalated", "closed"}]
        return bool(ends) and ends[-1].data.get("session") == session

    async def _give_up(self, id: str, why: str, needed: str) -> None:
        """Escalate with the best hypothesis so far."""
        incident = await self._backend.incidents.incident(id)
        if incident.state not in OPEN:
            return
        found = best_guess(incident)
        diagnosis = Diagnosis(
            found.component, found.category, found.locus, f"{why}; {found.summary}", found.evidence
        )
        by = Provenance(incident.session, f"{id}-given-up")
        with suppress(HermesError):  # it ended in the same moment
            await escalate(self._backend, incident, diagnosis, needed, by)


def _stopped(end: ev.TurnFinished) -> str:
    match end.reason:
        case "interrupted":
            return "the session was interrupted"
        case "budget":
            return f"the budget is used up: {end.error}"
    return ""
