"""The commander in a runtime: what it needs of it, and the routes that speak of its work."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from starlette.requests import Request
from starlette.responses import Response

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
from hermes_agent.core.knowledge import Outcome
from hermes_agent.core.ports import Sessions, SwitchModel
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.skills import ActivatedSkill, Check, Expectation, RecallResult
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.responses import body_of, reply
from hermes_agent.incidents.backend import KEY, SkillOption
from hermes_agent.incidents.commander import COMMANDER, Commander
from hermes_agent.incidents.monitoring.scheduler import CheckOutcome
from hermes_agent.incidents.reports.closeout import BY, DrillOutcome, drilled, judged
from hermes_agent.incidents.reports.markdown import markdown
from hermes_agent.incidents.reports.report import as_json, report
from hermes_agent.learning.service import Learning
from hermes_agent.store.incidents.store import IncidentStore
from hermes_agent.store.journal.store import Journal
from hermes_agent.store.knowledge.store import KnowledgeStore

if TYPE_CHECKING:
    from hermes_agent.incidents.response.actions import IncidentTool

RESPONDER = "builtin/responder"
"""Goes to work where no model can be had."""
TOOLS = (
    "terminal", "process", "read_file", "write_file", "patch", "search_files", "read_on", "todo",
    "delegate", "skill", "write_skill", "recall", "memory", "execute_code", "incident",
)  # fmt: skip
"""Tools of an incident's session."""

log = logging.getLogger("hermes.incidents")


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


class CommanderService:
    """The commander of a runtime."""

    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        switch_model: SwitchModel,
        learning: Learning,
        watching: Monitoring,
    ) -> None:
        self._world = RuntimeBackend(
            context, sessions, completions, switch_model, learning, watching
        )
        self._commander = Commander(self._world)

    async def run(self) -> None:
        await self._commander.run()

    def wake(self) -> None:
        self._commander.wake()

    @property
    def busy(self) -> bool:
        return bool(self._commander.working)

    def lent(self, session: Session) -> "IncidentTool":
        """What the tool of an incident's session reaches."""
        return self._commander.hand(session)

    async def went(self, session: Session) -> tuple[Outcome, str]:
        """How the work of an incident's session has gone so far."""
        id = session.key.removeprefix(KEY)
        incidents = self._world.incidents
        return judged(await incidents.incident(id), await incidents.timeline(id))

    # routes

    async def report(self, request: Request) -> Response:
        made = await report(self._world, request.path_params["id"])
        if request.query_params.get("form") == "markdown":
            text = self._world.redact(markdown(made))
            return reply({"incident": made.incident, "text": text})
        return reply(as_json(made))

    async def outcome(self, request: Request) -> Response:
        told = body_of(await request.body(), DrillOutcome)
        return reply(await drilled(self._world, request.path_params["id"], told))


class RuntimeBackend:
    """What the commander needs, of a runtime."""

    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        switch_model: SwitchModel,
        learning: Learning,
        watching: Monitoring,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._switch_model = switch_model
        self._learning = learning
        self._watching = watching

    @property
    def incidents(self) -> IncidentStore:
        return self._context.store.incidents

    @property
    def journal(self) -> Journal:
        return self._context.store

    @property
    def knowledge(self) -> KnowledgeStore:
        return self._context.store.knowledge

    @property
    def folder(self) -> Path:
        return self._context.home.path / "incidents"

    @property
    def results(self) -> Path:
        return self._context.home.results

    @property
    def parallel(self) -> int:
        return self._context.settings.watch.parallel

    def clock(self) -> float:
        return self._context.clock()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def redact(self, text: str) -> str:
        return self._context.redact(text)

    # what is watched

    def notices(self, incident: Incident, kind: NoticeKind, text: str) -> Sequence[NewNotice]:
        return self._watching.notices_for(incident, kind, 1, text)

    def wake_notices(self) -> None:
        self._watching.wake_notices()

    async def topology(self, incident: Incident) -> Sequence[MonitoredService]:
        return await self._watching.topology(incident.terminal)

    async def watched(self, incident: Incident) -> Sequence[WatchedCheck]:
        place = self._place(incident.terminal)
        return [one for one in await self._watching.watched() if self._place(one.terminal) == place]

    def _place(self, terminal: str) -> str:
        return terminal or self._context.settings.terminal.default

    # the session

    async def open(self, incident: Incident) -> Session:
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
        """Whom a drill names is replaced by nobody: its figures would be those of another."""
        try:
            return self._completions.full_name(named, needed=bool(named)) or RESPONDER
        except HermesError as error:
            raise UsageError(f"{named} cannot go to work: {error.message}", error.hint) from None

    async def _model(self, incident: Incident) -> str:
        """Whom a drill names to heal it; the settings' own model for all others."""
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
        offered: Sequence[str],
        opened: ActivatedSkill | None,
    ) -> None:
        skills = (opened,) if opened is not None else ()
        recalled = RecallResult(skills=tuple(offered))
        to = await self._context.store.session(session)
        # The team is asked what a rule leaves to people; in a drill nobody is there.
        asks = (await self.incidents.incident(to.key.removeprefix(KEY))).source != "drill"
        inbound = SessionMessage(key, text, COMMANDER, asks, recalled=recalled, skills=skills)
        while True:
            try:
                await self._sessions.submit(to, inbound)
                return
            except Stopping:
                await asyncio.Event().wait()  # the next runtime sends it

    async def end(self, session: str, key: str) -> ev.TurnFinished:
        return await self._sessions.finished(session, key)

    async def events(self, session: str) -> AsyncIterator[ev.Recorded]:
        async for recorded in self._sessions.events(session):
            yield recorded
        await asyncio.Event().wait()

    async def interrupt(self, session: str, why: str) -> None:
        await self._sessions.interrupt(session, why)

    async def fall_back(self, session: str) -> str:
        found = await self._context.store.session(session)
        incident = await self.incidents.incident(found.key.removeprefix(KEY))
        if found.model == RESPONDER or await self._model(incident):
            return ""
        try:
            await self._switch_model(found, RESPONDER, "", COMMANDER, anyway=True)
        except HermesError as error:
            log.warning("session %s stays with its model: %s", session, error.message)
            return ""
        return RESPONDER

    async def look(
        self,
        session: str,
        command: str,
        timeout: float | None,  # noqa: ASYNC109
        *,
        source: str = "",
    ) -> CommandOutcome:
        found = await self._context.store.session(session)
        check = WatchedCheck(
            INCIDENTS, Check(command, Expectation(exit=None), timeout), terminal=found.terminals[0]
        )
        # What people let their checks do is not for commands that a session or a skill thought of.
        written = {one.check.run for one in await self._watching.watched()}
        actor = None if command in written else Actor("user", "", source or INCIDENTS)
        done = await self._watching.run_check(check, found.policy, actor)
        if done.refused or done.code is None:
            return CommandOutcome(None, done.detail)
        return CommandOutcome(done.code, done.output)

    # skills

    async def skills(self) -> Sequence[SkillOption]:
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
            for one in await learning.knowledge.book.offered(TOOLS)
        ]  # fmt: skip

    async def runbook(
        self, skill: str, arguments: str, facts: Mapping[str, str]
    ) -> ActivatedSkill | None:
        try:
            book = self._learning.knowledge.book
            found = await book.open(skill, arguments, run=True, facts=facts)
        except HermesError:  # it has none, wants other arguments, or is gone
            return None
        return found.opened

    async def settle(self, skill: str) -> None:
        await self._learning.chores.settle(skill)

    async def settled(self) -> None:
        await self._sessions.settle()

    async def promote(self, skill: str, why: str) -> None:
        await self._learning.knowledge.book.set_state(skill, "proven", why, BY)
