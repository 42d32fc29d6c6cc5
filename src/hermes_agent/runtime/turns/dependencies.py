"""Builds the dependencies of a session's turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermes_agent.agent.budgets.limits import with_share
from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.agent.completions import ModelRoles
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.core.effects import Actor
from hermes_agent.core.errors import ToolError
from hermes_agent.core.gateway import Chat, person_of
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.messages import Media
from hermes_agent.core.records import AfterCommand, Session
from hermes_agent.core.tools import EgressCheck, IncidentActions, ToolServices
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import OutboundMessages
from hermes_agent.host.policy_gates import GateFactory
from hermes_agent.host.terminal_pool import TerminalPool
from hermes_agent.incidents.service import IncidentService
from hermes_agent.jobs.scheduler import JobScheduler
from hermes_agent.jobs.service import JobService
from hermes_agent.jobs.tool_backend import JobTool
from hermes_agent.learning.service import Learning
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.runtime.tools.media import ConfiguredMedia
from hermes_agent.runtime.tools.selection import ToolSelection
from hermes_agent.runtime.tools.services import ToolServiceFactory
from hermes_agent.runtime.turns.subagents import SubagentManager


@dataclass(eq=False, repr=False)
class TurnDependenciesFactory:
    _context: RuntimeContext
    _tools: ToolSelection
    _pool: TerminalPool
    _gates: GateFactory
    _roles: ModelRoles
    _reservations: BudgetReservations
    _capabilities: "SessionCapabilities"

    async def build(self, session: Session) -> TurnDependencies:
        context = self._context
        embedded = self._tools.embedded.get(session.id)
        prompt = await context.store.prompt(session.prompt)
        self._gates.expect(session.policy)
        return TurnDependencies(
            journal=context.store,
            # A session that was opened without a model uses that of the settings.
            route=lambda use, chosen: self._roles.route(use, chosen or context.settings.model),
            tools=self._tools.tools(session.id, prompt),
            gate=self._gates.gate(session.policy, None if embedded is None else embedded.granted),
            terminals=self._pool.terminals(session),
            settings=with_share(context.settings, session),
            publish=context.bus.publish,
            redact=context.redact,
            results=context.home.results / session.id,
            clock=context.clock,
            ticks=context.ticks,
            reservations=self._reservations,
            actor=_actor(session, await self._capabilities.job_name(session)),
            workspace=session.workspace,
            places=self._pool.kinds(session),
            secret=context.secret,
            http=_client,
            services=self._capabilities.services(session),
            depth=session.depth,
            bounds=session.share.bounds,
            trouble=self._gates.trouble(),
        )


@dataclass(eq=False, repr=False)
class SessionCapabilities:
    """What the domains offer a session's tools."""

    _context: RuntimeContext
    _tool_services: ToolServiceFactory
    _subagents: SubagentManager
    _learning: Learning
    _incidents: IncidentService
    _jobs: JobScheduler
    _job_service: JobService
    _outbound: OutboundMessages
    _models: ModelRegistry

    def services(self, session: Session) -> ToolServices:
        return self._tool_services.services(
            session,
            self._subagents,
            self._learning.tool_backend(session),
            self._incident_actions(session),
            JobTool(self._context, self._job_service, session),
            SessionMessenger(self._context, self._outbound, session),
            ConfiguredMedia(self._models, self._context),
        )

    def _incident_actions(self, session: Session) -> IncidentActions | None:
        if session.source != INCIDENTS:
            return None
        return self._incidents.commander.tool_for(session)

    async def job_name(self, session: Session) -> str:
        """The name of the session's job; empty when it has none."""
        if session.source != JOBS or session.parent:
            return ""
        return await self._jobs.name_of(session)


def _actor(session: Session, job: str = "") -> Actor:
    if session.parent:
        return Actor("agent", session.parent, session.source)
    if session.source == JOBS:
        return Actor("job", job, session.source)
    if (person := person_of(session.key)) is not None:
        return Actor("user", person, session.source)
    return Actor("program" if session.source == "library" else "user", "", session.source)


def _client(reach: EgressCheck, **options: Any) -> Any:
    from hermes_agent.policy.network.egress import guarded_client

    return guarded_client(reach, **options)


HERE = "here"


@dataclass(eq=False, repr=False)
class SessionMessenger:
    _context: RuntimeContext
    _outbound: OutboundMessages
    _session: Session

    async def send(self, key: str, target: str, text: str, files: Sequence[Media]) -> Sequence[str]:
        """Queue the message once per key; returns its targets."""
        chats = await self._chats(target)
        await self._outbound.send(f"effect/{key}", chats, text, files=files)
        return [chat.channel if target != HERE else HERE for chat in chats]

    async def send_after(self, key: str, target: str, text: str, command: str) -> Sequence[str]:
        chats = await self._chats(target)
        store, text = self._context.store, self._context.redact(text)
        if not await store.background_commands(self._session.id, command):
            raise ToolError(
                f"no background command {command!r} that has yet to end",
                "`process` shows what became of it; send a message without `after`",
                "changed",
            )
        waiting = [AfterCommand(f"effect/{key}", chat.target, text) for chat in chats]
        if not await store.add_after_command(command, waiting):
            raise ToolError(f"{command} has just ended", "send it without `after`", "changed")
        return [chat.channel for chat in chats]

    async def _chats(self, target: str) -> list[Chat]:
        chats = [await self._here()] if target == HERE else self._outbound.chats([target])
        if not chats:
            raise ToolError(f"unknown target: {target!r}", "name a channel or a chat", "changed")
        return chats

    async def _own_chat(self) -> Chat | None:
        session = await self._context.store.root_session(self._session.id)
        binding = await self._context.store.gateway.binding_of(session.id)
        return None if binding is None else binding.chat

    async def _here(self) -> Chat:
        if (chat := await self._own_chat()) is None:
            raise ToolError(
                "this session has no chat",
                "say it in your answer, or name a target",
                "changed",
            )
        return chat
