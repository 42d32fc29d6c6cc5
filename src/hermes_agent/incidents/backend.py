"""The runtime as the commander sees it: stores, sessions, checks, commands and skills."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from hermes_agent.agent.completions import Completions
from hermes_agent.core import events as ev
from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.effects import Actor
from hermes_agent.core.errors import HermesError, Stopping, UsageError
from hermes_agent.core.incidents import (
    INCIDENTS,
    Incident,
    MonitoredService,
    NewNotice,
    NoticeKind,
    WatchedCheck,
)
from hermes_agent.core.ports import Sessions, SwitchModel
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.skills import ActivatedSkill, Check, Expectation, RecallResult, SkillState
from hermes_agent.host.context import RuntimeContext
from hermes_agent.incidents.monitoring.scheduler import CheckOutcome
from hermes_agent.learning.service import Learning
from hermes_agent.store.incidents.store import IncidentStore
from hermes_agent.store.journal.store import Journal

log = logging.getLogger("hermes.incidents")

SHIPPED, COPIES, WATCHING = "shipped-skill", "incident-copies", "incident-watch"
"""Sources of commands: checks of skills that ship with Hermes, copies before a change, and requests
to see whether a remedy lasts."""
SECTION_SHARE = 3
"""What incidents showed takes at most this part of `MEMORY.md`."""
KEY = "incident:"
"""Prefix of the key of an incident's session; each incident has one session."""
COMMANDER = "commander"
RESPONDER = "builtin/responder"
"""The model that takes over when no other is available."""
TOOLS = (
    "terminal", "process", "read_file", "write_file", "patch", "search_files", "read_on", "todo",
    "delegate", "skill", "write_skill", "recall", "memory", "execute_code", "incident",
    "find_tools", "use_tool",
)  # fmt: skip
"""Tools of an incident's session."""


class SkillOption(Struct, frozen=True):
    """A skill that may help."""

    name: str
    state: SkillState
    description: str
    digest: str = ""
    incident: str = ""
    """The cause of incidents that it is for; empty where it is for other work."""
    shipped: bool = False
    """It was installed with Hermes."""
    record: int = 0
    """How often it helped, less how often it did not."""


class Monitoring(Protocol):
    """What the commander needs of the monitoring."""

    def notices_for(
        self, incident: Incident, kind: NoticeKind, number: int, text: str
    ) -> Sequence[NewNotice]: ...

    def wake_notices(self) -> None: ...

    async def topology(self, terminal: str = "") -> Sequence[MonitoredService]: ...

    async def watched(self) -> Sequence[WatchedCheck]: ...

    async def run_check(
        self, check: WatchedCheck, policy: str = "", actor: Actor | None = None
    ) -> CheckOutcome: ...


class IncidentBackend:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        switch_model: SwitchModel,
        learning: Learning,
        monitoring: Monitoring,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._switch_model = switch_model
        self._learning = learning
        self._monitoring = monitoring
        self.incidents: IncidentStore = context.store.incidents
        self.journal: Journal = context.store
        self.knowledge = context.store.knowledge
        self.folder = context.home.path / "incidents"
        """Where reports are kept."""
        self.results = context.home.results
        """Where large results of sessions are kept whole."""
        self.clock = context.clock
        self.redact = context.redact
        self.sleep = asyncio.sleep
        self.wake_notices = monitoring.wake_notices

    @property
    def parallel(self) -> int:
        """How many incidents are worked on at once."""
        return self._context.settings.watch.parallel

    # monitoring

    def notices(self, incident: Incident, kind: NoticeKind, text: str) -> Sequence[NewNotice]:
        """One notice for each channel of the incident."""
        return self._monitoring.notices_for(incident, kind, 1, text)

    async def topology(self, incident: Incident) -> Sequence[MonitoredService]:
        return await self._monitoring.topology(incident.terminal)

    async def watched(self, incident: Incident) -> Sequence[WatchedCheck]:
        """All checks on the incident's terminal."""
        place = self._place(incident.terminal)
        watched = await self._monitoring.watched()
        return [one for one in watched if self._place(one.terminal) == place]

    def _place(self, terminal: str) -> str:
        return terminal or self._context.settings.terminal.default

    # the session

    async def open(self, incident: Incident) -> Session:
        """Open the incident's session, or return the one it has."""
        self._context.refresh_settings()
        folder = self.folder / "work" / incident.id
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        return await self._sessions.open_session(
            workspace=str(folder),
            model=self._resolved(await self._model(incident)),
            policy=incident.policy or self._context.settings.watch.policy,
            source=INCIDENTS,
            key=f"{KEY}{incident.id}",
            once=True,
            terminals=(self._place(incident.terminal),),
            use=TOOLS,
        )

    def _resolved(self, named: str) -> str:
        """A model that a drill names is never replaced: the figures would be another model's."""
        try:
            return self._completions.full_name(named, needed=bool(named)) or RESPONDER
        except HermesError as error:
            what = f"cannot use the model {named!r}: {error.message}"
            raise UsageError(what, error.hint) from None

    async def _model(self, incident: Incident) -> str:
        """The model that a drill names; empty for all other incidents."""
        if incident.source != "drill":
            return ""
        raised = await self.incidents.signals(incident=incident.id)
        named = (one.labels.get("model", "") for one in raised if one.source == "drill")
        return next(filter(None, named), "")

    async def send(
        self,
        session: str,
        key: str,
        text: str,
        offered: Sequence[str] = (),
        opened: ActivatedSkill | None = None,
    ) -> None:
        """Send the session a message, once for each key. `offered`: skills that the message names;
        `opened`: one whose runbook is run before a model is asked."""
        skills = (opened,) if opened is not None else ()
        recalled = RecallResult(skills=tuple(offered))
        to = await self._context.store.session(session)
        # People answer approvals for real incidents; in a drill there is nobody to ask.
        asks = (await self.incidents.incident(to.key.removeprefix(KEY))).source != "drill"
        inbound = SessionMessage(key, text, COMMANDER, asks, recalled=recalled, skills=skills)
        try:
            await self._sessions.submit(to, inbound)
        except Stopping:
            await asyncio.Event().wait()  # the next runtime sends it

    async def end(self, session: str, key: str) -> ev.TurnFinished:
        """Wait until the turn that took this message is over."""
        return await self._sessions.finished(session, key)

    async def events(self, session: str) -> AsyncIterator[ev.Recorded]:
        """Past and future events of a session."""
        async for recorded in self._sessions.events(session):
            yield recorded
        await asyncio.Event().wait()

    async def interrupt(self, session: str, why: str) -> None:
        await self._sessions.interrupt(session, why)

    async def fall_back(self, session: str) -> str:
        """Switch to the built-in model; returns its name, or nothing if it cannot be switched."""
        found = await self._context.store.session(session)
        incident = await self.incidents.incident(found.key.removeprefix(KEY))
        if found.model == RESPONDER or await self._model(incident):
            return ""
        try:
            await self._switch_model(found, RESPONDER, "", COMMANDER, anyway=True)
        except HermesError as error:
            log.warning("session %s keeps its model: %s", session, error.message)
            return ""
        return RESPONDER

    async def run(
        self,
        session: str,
        command: str,
        timeout: float | None,  # noqa: ASYNC109
        *,
        source: str = "",
    ) -> CommandOutcome:
        """Run a command on the incident's terminal, in its own shell and through the gate.
        `source`: how policies recognise commands that the runtime runs for itself."""
        found = await self._context.store.session(session)
        check = WatchedCheck(
            INCIDENTS, Check(command, Expectation(exit=None), timeout), terminal=found.terminals[0]
        )
        # What people allow their own checks does not extend to commands of a session or a skill.
        written = {one.check.run for one in await self._monitoring.watched()}
        actor = None if command in written else Actor("user", "", source or INCIDENTS)
        done = await self._monitoring.run_check(check, found.policy, actor)
        if done.refused or done.code is None:
            return CommandOutcome(None, done.detail)
        return CommandOutcome(done.code, done.output)

    # memory

    async def remember(self, source: str, lines: Sequence[str]) -> None:
        """Keep a section in `MEMORY.md`."""
        if self._context.settings.learning.notes != "off":
            most = self._context.settings.memory.memory_chars // SECTION_SHARE
            await self._learning.knowledge.memory.write_section(source, lines, most)

    # skills

    async def skills(self) -> Sequence[SkillOption]:
        """All skills that an incident's session can use."""
        learning = self._learning
        await learning.knowledge.sync()
        record: Counter[str] = Counter()
        for use in await self.knowledge.uses():
            if use.opened:
                record[use.skill] += {"good": 1, "bad": -1}.get(use.outcome, 0)
        return [
            SkillOption(
                one.name, one.state, one.description, one.digest, one.incident,
                one.shipped, record[one.name],
            )
            for one in await learning.knowledge.skills.offered(TOOLS)
        ]  # fmt: skip

    async def runbook(
        self, skill: str, arguments: str, facts: Mapping[str, str]
    ) -> ActivatedSkill | None:
        """The skill opened to be run, filled in with facts of the service; None where it has no
        runbook, or none for these arguments."""
        try:
            book = self._learning.knowledge.skills
            found = await book.open(skill, arguments, run=True, facts=facts)
        except HermesError:
            return None
        return found.opened

    async def settle(self, skill: str) -> None:
        """Promote or demote a skill by how its uses went."""
        await self._learning.tasks.settle(skill)

    async def settled(self) -> None:
        """Wait for the work that follows turns that have ended."""
        await self._sessions.settle()

    async def promote(self, skill: str, why: str) -> None:
        await self._learning.knowledge.skills.set_state(skill, "proven", why, "drills")
