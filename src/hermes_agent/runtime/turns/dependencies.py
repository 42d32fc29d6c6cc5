"""Puts together what a session's turn is handed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_agent.agent.budgets.limits import with_share
from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.core.effects import Actor
from hermes_agent.core.gateway import person_of
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.messages import ToolSpec
from hermes_agent.core.records import Session
from hermes_agent.core.tool_services import EgressCheck, IncidentActions
from hermes_agent.core.tools import Tool
from hermes_agent.runtime.messaging.session_messenger import SessionMessenger
from hermes_agent.runtime.models.roles import ModelRoles
from hermes_agent.runtime.policy_gates import GateFactory
from hermes_agent.runtime.terminals.pool import TerminalPool
from hermes_agent.runtime.tools import builtin
from hermes_agent.runtime.tools.services import ToolServiceFactory
from hermes_agent.runtime.turns.subagents import SubagentManager

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime


class EmbeddedTools(NamedTuple):
    """What a program gives a session: tools of its own, the capabilities that it has, and whether
    it may use the built-in tools."""

    own: Mapping[str, Tool]
    granted: frozenset[str]
    builtin: bool


class TurnDependenciesFactory:
    """`tools` are those of every session, where they are not the built-in ones."""

    def __init__(
        self,
        runtime: "Runtime",
        tools: Sequence[Tool] | None,
        pool: TerminalPool,
        gates: GateFactory,
        uses: ModelRoles,
        reservations: BudgetReservations,
        tool_services: ToolServiceFactory,
        subagents: SubagentManager,
    ) -> None:
        self._runtime = runtime
        self._tools = None if tools is None else {tool.name: tool for tool in tools}
        self._pool = pool
        self._gates = gates
        self._uses = uses
        self._reservations = reservations
        self._tool_services = tool_services
        self._subagents = subagents
        self._lent: dict[str, EmbeddedTools] = {}

    def lend(self, session: str, loan: EmbeddedTools) -> None:
        self._lent[session] = loan

    def is_attached(self, session: str) -> bool:
        return session in self._lent

    def inherit(self, parent: str, child: str) -> bool:
        """Give a child what its parent's program lent; False when there is no program."""
        if parent in self._lent:
            self._lent[child] = self._lent[parent]
        return parent in self._lent

    def specs(
        self, use: Sequence[str] | None, parent: str = "", loan: EmbeddedTools | None = None
    ) -> tuple[ToolSpec, ...]:
        """What the model is shown of the tools that a session uses: these, or all there are. A
        child has those of its parent's program, too."""
        loan = loan or self._lent.get(parent)
        own = self._tools if loan is None else loan.own
        shown: tuple[ToolSpec, ...] = ()
        if loan.builtin if loan is not None else self._tools is None:
            shown = self._builtin(use, parent)
        mine = [tool.spec for name, tool in (own or {}).items() if use is None or name in use]
        return (*shown, *mine)

    def _builtin(self, use: Sequence[str] | None, parent: str) -> tuple[ToolSpec, ...]:
        settings = self._runtime.settings
        if use is None:
            return builtin.specs(builtin.chosen(settings.tools.use), settings)
        # A child's are names of tools, never of toolsets: some are both.
        return builtin.specs(use if parent else builtin.chosen(use), settings)

    async def parts(self, session: Session) -> TurnDependencies:
        runtime = self._runtime
        loan = self._lent.get(session.id)
        own = self._tools if loan is None else loan.own
        with_builtin = self._tools is None if loan is None else loan.builtin
        granted = None if loan is None else loan.granted
        prompt = await runtime.store.prompt(session.prompt)
        self._gates.expect(session.policy)
        return TurnDependencies(
            journal=runtime.store,
            route=self._uses.route,
            tools=builtin.SessionTools(
                [spec.name for spec in prompt.tools], own, builtin=with_builtin
            ),
            gate=self._gates.gate(session.policy, granted),
            terminals=self._pool.terminals(session),
            settings=with_share(runtime.settings, session),
            publish=runtime.bus.publish,
            redact=runtime.redact,
            results=runtime.home.results / session.id,
            clock=runtime.clock,
            reservations=self._reservations,
            actor=_actor(session, await self._job(session)),
            workspace=session.workspace,
            places=self._pool.kinds(session),
            secret=runtime.secret,
            http=_client,
            lent=self._tool_services.lent(
                session,
                self._subagents,
                runtime.learning.lent(session),
                self._commanded(session),
                runtime.jobs.lent(session),
                SessionMessenger(runtime, session),
            ),
            depth=session.depth,
            bounds=session.share.bounds,
        )

    async def _job(self, session: Session) -> str:
        """The name of the job whose session it is."""
        if session.source != JOBS or session.parent:
            return ""
        return await self._runtime.jobs.name_of(session)

    def _commanded(self, session: Session) -> IncidentActions | None:
        if session.source != INCIDENTS:
            return None
        return self._runtime.incidents.commander.lent(session)


def _actor(session: Session, job: str = "") -> Actor:
    if session.parent:
        return Actor("agent", session.parent, session.source)
    if session.source == JOBS:
        return Actor("job", job, session.source)
    if (person := person_of(session.key)) is not None:
        return Actor("user", person, session.source)
    return Actor("program" if session.source == "library" else "user", "", session.source)


def _client(reach: EgressCheck, **options: Any) -> Any:
    """Imported when a tool first wants it: most never do."""
    from hermes_agent.policy.network.egress import guarded_client

    return guarded_client(reach, **options)
