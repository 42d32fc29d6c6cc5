"""The runtime: owns a home, and builds, starts and stops its services."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.agent.completions import Completions, ModelRoles
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import Health, Session
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.supervise import every, supervise
from hermes_agent.core.tools import DELEGATE, Tool
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.home import HomeLock
from hermes_agent.host.outbound import OutboundMessages
from hermes_agent.host.policy_gates import GateFactory
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.host.terminal_pool import TerminalPool
from hermes_agent.incidents.service import IncidentService
from hermes_agent.jobs.scheduler import JobScheduler
from hermes_agent.jobs.service import JobService
from hermes_agent.learning.service import Learning
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.runtime.background_commands import BackgroundCommands
from hermes_agent.runtime.model_selection import ModelSelection
from hermes_agent.runtime.services import Domains, ServiceFactory, ServiceManager
from hermes_agent.runtime.session_history import SessionHistory
from hermes_agent.runtime.sessions import SessionService
from hermes_agent.runtime.tools.programs import NewProgram
from hermes_agent.runtime.tools.selection import EmbeddedSessions, EmbeddedTools, ToolSelection
from hermes_agent.runtime.tools.services import ToolServiceFactory
from hermes_agent.runtime.turns.dependencies import SessionCapabilities, TurnDependenciesFactory
from hermes_agent.runtime.turns.scheduler import TurnScheduler
from hermes_agent.runtime.turns.subagents import SubagentManager
from hermes_agent.store.store import Store

log = logging.getLogger("hermes.runtime")

Hook = Callable[[Literal["before", "after"], tuple[str, ...]], None]

MAINTENANCE_SECONDS = 2.0
"""How often to clean up and check the store."""


@dataclass(eq=False, repr=False)
class Maintenance:
    """Runs work besides turns. Each part is its own task, so that an unresponsive remote terminal
    does not delay the store's check."""

    _context: RuntimeContext
    _resume: Callable[[], Awaitable[None]]
    _tidy: Callable[[], Awaitable[None]]
    _sessions: SessionService
    _learning: Learning
    _incidents: IncidentService
    _jobs: JobScheduler
    _commands: BackgroundCommands
    _health: Health = field(default_factory=Health, init=False)
    """The last published state of the store."""
    _tasks: tuple[asyncio.Task[None], ...] = field(default=(), init=False)

    def start(self) -> None:
        self._tasks = (
            asyncio.create_task(
                supervise("the store's check", self._check_store, every(MAINTENANCE_SECONDS))
            ),
            asyncio.create_task(supervise("the clean-up", self._tidy, every(MAINTENANCE_SECONDS))),
            asyncio.create_task(
                supervise("the watch on commands", self._commands.watch, every(MAINTENANCE_SECONDS))
            ),
            asyncio.create_task(self._learning.tasks.run()),
            asyncio.create_task(self._incidents.run()),
            asyncio.create_task(self._jobs.run()),
        )

    @property
    def busy(self) -> bool:
        """Whether background work runs, something is monitored, or a job is scheduled."""
        return self._learning.tasks.busy or self._incidents.busy or self._jobs.busy

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._commands.stop()

    async def _check_store(self) -> None:
        """Publish when the store becomes degraded or healthy, and resume work."""
        known = self._health
        store = self._context.store
        if store.health.state == "degraded":
            await store.probe()
        now = store.health
        if now != known:
            log.warning("the store is %s: %s", now.state, now.reason)
            change = ev.RuntimeChanged(now.state, now.reason)
            self._context.bus.publish(ev.Recorded("", 0, self._context.clock(), change))
        if now != known or not self._sessions.has_resumed:
            await self._resume()
        self._health = now


class Runtime:
    """One per home. `start` takes the lock, opens the store and resumes; `stop` releases it."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        *,
        settings: Settings | None = None,
        tools: Sequence[Tool] | None = None,
        clock: Clock = time.time,
        ticks: Clock = time.monotonic,
        store_hook: Hook | None = None,
        services: Sequence[ServiceFactory] = (),
    ) -> None:
        self.context = RuntimeContext(home, environ, settings=settings, clock=clock, ticks=ticks)
        self._store_hook = store_hook
        self._service_factories = services
        context = self.context
        self.models = ModelRegistry(
            context.settings.models, context.environment, home, clock=clock,
            learn=context.redact.learn,
        )  # fmt: skip
        self._roles = ModelRoles(self.models)
        self._reservations = BudgetReservations(clock)
        self._tool_services = ToolServiceFactory(
            home, environ, lambda: context.settings, context.secret, context.redact, clock
        )
        self.gates = GateFactory(
            home,
            Path(environ.get("HOME") or Path.home()),
            lambda: _unconfined(environ, context.settings),
        )
        self.terminals = TerminalPool(context.settings, environ, context.home.terminals, clock)
        self.shells = PolicyShells(context, self.gates, self.terminals)
        self.outbound = OutboundMessages(context)
        self.embedded = EmbeddedSessions()
        self._tools = ToolSelection(context, tools, self.embedded)
        context.settings_changed.append(self._apply_settings)

    async def start(self) -> None:
        context = self.context
        writable = context.home.make()
        self.run_folder = context.home.run_folder(writable)
        self._lock = HomeLock(context.home.lock_folder(writable), context.home.path)
        self._lock.take()
        try:
            context.store = await Store.open(
                context.home.path, clock=context.clock, hook=self._store_hook,
                readonly=not writable,
            )  # fmt: skip
            self._build()
            await self.resume_all()
        except BaseException:
            self._lock.release()
            raise
        self._maintenance.start()
        self.services.start()
        context.note_activity()  # a slow start does not count as idle time

    def _build(self) -> None:
        """Build the services that need the store. Where two need each other, one gets a function
        that returns the other."""
        context = self.context
        self._turns = TurnScheduler(
            context.store, context.bus, context.clock,
            lambda session: self._turn_dependencies.build(session),
            self.embedded.is_ours, self._turn_ended,
        )  # fmt: skip
        self.completions = completions = Completions(
            context, self.models, self._roles, self._reservations
        )
        self.model_selection = ModelSelection(context, completions, self._turns)
        self.session_history = SessionHistory(context, self._turns, completions)
        self.sessions = SessionService(
            context, self._turns, completions, self.gates, self.terminals, self._tool_services,
            self._tools,
        )  # fmt: skip
        self.learning = Learning(
            context, self.sessions, completions, self.shells,
            lambda session: self.incidents.commander.outcome(session),
        )  # fmt: skip
        self.sessions.hooks = self.learning
        self.incidents = IncidentService(
            context, self.sessions, completions, self.model_selection.choose, self.shells,
            self.outbound, self.learning, lambda wanted: self.jobs.have(wanted),
        )  # fmt: skip
        self.jobs = JobScheduler(
            context, self.sessions, self.shells, self.outbound, self.learning,
            lambda signal: self.incidents.intake.raise_signal(signal),
            lambda: self.incidents.builtins(),
        )  # fmt: skip
        self.job_service = JobService(
            context, self.jobs, self.shells, completions, self.outbound, self.learning
        )
        self._subagents = SubagentManager(context, self.sessions, self._inherit)
        self._turn_dependencies = TurnDependenciesFactory(
            context, self._tools, self.terminals, self.gates, self._roles, self._reservations,
            SessionCapabilities(
                context, self._tool_services, self._subagents, self.learning, self.incidents,
                self.jobs, self.job_service, self.outbound, self.models,
            ),
        )  # fmt: skip
        self._background_commands = BackgroundCommands(
            context, self._turns, self.sessions, self.terminals, self.outbound
        )
        self._maintenance = Maintenance(
            context, self.resume_all, self.tidy, self.sessions, self.learning, self.incidents,
            self.jobs, self._background_commands,
        )  # fmt: skip
        self.domains = Domains(
            context, self.sessions, self.models, self.model_selection, self.session_history,
            self.outbound, self.learning, self.incidents, self.jobs,
        )  # fmt: skip
        self.services = ServiceManager(self.domains, self._service_factories)

    def _apply_settings(self) -> None:
        self.terminals.settings = self.context.settings
        self.models.renew(self.context.settings.models, self.context.environment)

    async def _inherit(self, parent: Session, child: Session) -> None:
        """Give a subagent its embedding program's tools, and continue its turn."""
        if self.embedded.inherit(parent.id, child.id):
            await self._turns.continue_turn(child)

    async def _turn_ended(self, session: Session, conversation: ConversationState) -> None:
        """End leftover subagents, let learning see the turn, and set a title after the first."""
        if DELEGATE in conversation.tools_started:
            await self._subagents.end_children(session.id)
        await self.learning.turn_ended(session, conversation)
        titles = self.context.settings.models.uses.titles
        if conversation.turns == 1 and titles and len(conversation.messages) > 1:
            start = conversation.messages[0].text, conversation.last_text
            await self.model_selection.set_title(session, start)

    async def resume_all(self) -> None:
        """Resume what the last runtime left, as soon as the store is healthy."""
        health = self.context.store.health
        if health.state != "well":
            log.error("degraded: %s", health.reason)
            return
        try:
            await self._turns.resume()
            await self._subagents.end_orphans(self._turns.busy)
        except HermesError as trouble:
            log.error("could not resume everything: %s", trouble.message)

    async def embed(self, program: NewProgram, tools: EmbeddedTools) -> Session:
        """Open or find a program's session, and give it the program's tools."""
        if program.session:
            session = await self.context.store.session(program.session)
        else:
            session = await self.sessions.open_session(
                workspace=program.workspace,
                model=program.model,
                policy=program.policy,
                source="library",
                key=f"library:{program.name}",
                terminals=program.terminals,
                embedded=tools,
            )
        self.embedded.attach(session.id, tools)
        return session

    async def resume(self, session: Session) -> None:
        """Resume a turn that waits for its program's tools."""
        await self._turns.continue_turn(session)

    async def stop(self, *, asleep: bool = False, patience: float = 10.0) -> None:
        """Release the home. Running turns resume next time; effects that could not be recovered are
        waited for. `asleep`: do not notify listeners; they start the next runtime."""
        context = self.context
        self.sessions.is_stopping = True
        self._turns.close()
        polls = round(patience / 0.05)  # not a deadline: time while suspended does not count
        while self._turns.must_not_be_dropped and (polls := polls - 1) >= 0:
            await asyncio.sleep(0.05)
        await self.sessions.settle()
        if not asleep:
            change = ev.RuntimeChanged("stopping", "asked to stop")
            context.bus.publish(ev.Recorded("", 0, context.clock(), change))
        context.bus.end()
        self.embedded.end()
        self._maintenance.stop()
        await self.services.stop()
        await self.end_idle_shells()
        await self._tool_services.close()
        await self.learning.close()
        await self.models.close()
        await context.store.close()
        self._lock.release()

    async def end_idle_shells(self) -> None:
        """End shells, except those of busy sessions."""
        await self.terminals.end_shells(busy=self._turns.busy)

    async def tidy(self) -> None:
        """Close unused terminals and connections."""
        await self.terminals.redact_ended(self.context.redact)
        await self.terminals.tidy(busy=self._turns.busy)
        await self._tool_services.tidy(lambda: self._turns.busy)
        await self.models.tidy()

    def idle_for(self) -> float:
        return self.context.clock() - max(self.context.last_activity, self._turns.last_activity)

    async def is_in_use(self) -> bool:
        """Whether there is a listener, an active turn, background work or a running command."""
        active = self.context.bus.listeners or self._turns.is_active or self._maintenance.busy
        return bool(active or self.services.busy or await self.terminals.has_running_commands())


def _unconfined(environ: Mapping[str, str], settings: Settings) -> str | None:
    from hermes_agent.terminals.local.view import unconfined

    return unconfined(environ, settings.terminal.confine)
