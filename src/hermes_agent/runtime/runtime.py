"""The runtime: owns a home, hands messages to turns, and takes up what the last one left."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.prompt import build_prompt
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Gate
from hermes_agent.core.errors import Degraded, HermesError, NotFound, Stopping
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import NO_SHARE, ChildLimits, NewSession, Session, SessionMessage
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.tool_services import DELEGATE
from hermes_agent.core.tools import Tool
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.policy.secrets import Secrets
from hermes_agent.runtime.api import status
from hermes_agent.runtime.bus import Bus
from hermes_agent.runtime.config.load import load_settings
from hermes_agent.runtime.home.home import Home, HomeLock
from hermes_agent.runtime.incidents import IncidentService
from hermes_agent.runtime.jobs import JobScheduler
from hermes_agent.runtime.learning import Learning
from hermes_agent.runtime.maintenance import Maintenance
from hermes_agent.runtime.messaging.outbound import OutboundMessages
from hermes_agent.runtime.models.roles import ModelRoles
from hermes_agent.runtime.models.selection import ModelSelection, check_effort
from hermes_agent.runtime.policy_gates import GateFactory
from hermes_agent.runtime.services import ServiceFactory, ServiceManager
from hermes_agent.runtime.terminals.pool import TerminalPool
from hermes_agent.runtime.tools.prompt_context import collect_prompt_context
from hermes_agent.runtime.tools.services import ToolServiceFactory
from hermes_agent.runtime.turns.dependencies import EmbeddedTools, TurnDependenciesFactory
from hermes_agent.runtime.turns.scheduler import TurnScheduler
from hermes_agent.runtime.turns.subagents import MANY, SubagentManager
from hermes_agent.store.store import Store

log = logging.getLogger("hermes.runtime")

FIND_TOOLS = "find_tools"
"""The tool by which those are found that are not in the prompt."""

AFTER_SECONDS = 2.0
"""How long the end waits for what comes after a turn."""

Hook = Callable[[Literal["before", "after"], tuple[str, ...]], None]


class Runtime:
    """One per home. `start` takes the lock, opens the store and resumes; `stop` lets go."""

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
        self.home = Home(home)
        self.settings = settings or load_settings(self.home.config, environ)
        self._own_settings = settings is None
        self.bus = Bus()
        self.started = self.last_activity = clock()
        self._environ = environ
        self.clock, self._ticks = clock, ticks
        self._tools = tools
        self._store_hook = store_hook
        self._make_faces = services
        self._redactor = Redactor(environ)
        self._secrets = self._learned(Secrets(environ, home))
        self.models = ModelRegistry(
            self.settings.models,
            self._secrets.beside(environ),
            home,
            clock=clock,
            learn=self._redactor.learn,
        )
        self._uses = ModelRoles(self.models)
        self._reservations = BudgetReservations()
        self._tool_services = ToolServiceFactory(
            home, environ, lambda: self.settings, self.secret, self._redactor, clock
        )
        self._gates = GateFactory(home, Path(environ.get("HOME") or Path.home()))
        self._watch = Maintenance(self)
        self.post = OutboundMessages(self)
        self._deleting: set[str] = set()
        self._stopping = False

    # life

    async def start(self) -> None:
        writable = self.home.make()
        self.run_folder = self.home.run_folder(writable)
        self._lock = HomeLock(self.home.lock_folder(writable), self.home.path)
        self._lock.take()
        try:
            self.store = await Store.open(
                self.home.path, clock=self.clock, hook=self._store_hook, readonly=not writable
            )
            self.learning = Learning(self)
            self.incidents = IncidentService(self)
            self.jobs = JobScheduler(self, self._environ, self._ticks)
            self.terminals = TerminalPool(
                self.settings, self._environ, self.home.terminals, self.clock
            )
            self._subagents = SubagentManager(self, self._inherit)
            self._turn_dependencies = TurnDependenciesFactory(
                self, self._tools, self.terminals, self._gates, self._uses, self._reservations,
                self._tool_services, self._subagents,
            )  # fmt: skip
            self._turns = TurnScheduler(
                self.store, self.bus, self.clock, self._turn_dependencies.parts, self._is_ours,
                self._turn_ended,
            )  # fmt: skip
            self.model_selection = ModelSelection(
                self.models, self._uses, self.store, self._turns, self._reservations, self.clock,
                lambda: self.settings, self._redactor,
            )  # fmt: skip
            self.services = ServiceManager(self, self._make_faces)
            await self.resume_all()
        except BaseException:
            self._lock.release()
            raise
        self._watch.begin()
        self.services.begin()
        self.note_activity()  # whoever started it finds it awake, however long that took

    def _is_ours(self, session: Session) -> bool:
        return session.source != "library" or self._turn_dependencies.is_attached(session.id)

    async def _inherit(self, parent: Session, child: Session) -> None:
        """The child of a program's session has what the program granted, and goes on with it."""
        if self._turn_dependencies.inherit(parent.id, child.id):
            await self._turns.continue_turn(child)

    async def _turn_ended(self, session: Session, talk: ConversationState) -> None:
        """Nobody waits for its children any more; after the first turn a session may have a
        title."""
        if DELEGATE in talk.begun:
            await self._subagents.end_children(session.id)
        await self.learning.turn_ended(session, talk)
        if talk.turns == 1 and self.settings.models.uses.titles and len(talk.messages) > 1:
            await self.model_selection.set_title(session, (talk.messages[0].text, talk.last_text))

    @property
    def has_taken_over(self) -> bool:
        return self._turns.taken_over

    async def resume_all(self) -> None:
        """Go on with what the last runtime left, as soon as the store can keep it."""
        if self.store.health.state != "well":
            log.error("degraded: %s", self.store.health.reason)
            return
        try:
            await self._turns.resume()
            await self._subagents.end_orphans(self._turns.busy)
        except HermesError as trouble:
            log.error("not everything could be taken up: %s", trouble.message)

    async def stop(self, *, asleep: bool = False, patience: float = 10.0) -> None:
        """Let go of the home. Turns under way are taken up next time; what could not be found out
        later is waited for. That it falls `asleep` is not told: who came in wakes the next."""
        self._stopping = True
        self._turns.close()
        looks = round(patience / 0.05)  # not seconds: nothing ends while this process stands still
        while self._turns.must_not_be_dropped and (looks := looks - 1) >= 0:
            await asyncio.sleep(0.05)
        await self.settle()
        if not asleep:
            change = ev.RuntimeChanged("stopping", "asked to stop")
            self.bus.publish(ev.Recorded("", 0, self.clock(), change))
        self.bus.end()
        self._watch.end()
        await self.services.end()
        await self.end_idle_shells()
        await self._tool_services.close()
        await self.learning.close()
        await self.models.close()
        await self.store.close()
        self._lock.release()

    async def settle(self) -> None:
        """Wait a moment for what comes after turns that have ended."""
        await self._turns.settle(AFTER_SECONDS)

    async def end_idle_shells(self) -> None:
        """Shells of sessions at work are left to their keepers."""
        await self.terminals.end_shells(busy=self._turns.busy)

    async def tidy(self) -> None:
        """Let go of terminals and connections that nobody uses."""
        await self.terminals.tidy(busy=self._turns.busy)
        await self._tool_services.tidy(lambda: self._turns.busy)
        await self.models.tidy()

    def note_activity(self) -> None:
        self.last_activity = self.clock()

    def idle_for(self) -> float:
        return self.clock() - max(self.last_activity, self._turns.last_activity)

    @property
    def redact(self) -> Redactor:
        return self._redactor

    def secret(self, name: str) -> str:
        return self._secrets.get(name)

    def gate(self, session: Session) -> Gate:
        return self._gates.gate(session.policy)

    async def at_rest(self, session: str) -> None:
        """Returns when no turn of the session is under way."""
        while session in self._turns.busy:
            await asyncio.sleep(0.001)

    # sessions and messages

    async def open_session(
        self,
        *,
        workspace: str,
        model: str = "",
        policy: str = "",
        name: str = "",
        source: str = "cli",
        key: str = "",
        once: bool = False,
        terminals: Sequence[str] = (),
        effort: str = "",
        loan: EmbeddedTools | None = None,
        use: Sequence[str] | None = None,
        parent: str = "",
        share: ChildLimits = NO_SHARE,
        needs_model: bool = True,
    ) -> Session:
        """A new conversation. Its prompt, tools, model, policy and terminals are fixed here.
        `loan` is what a program gives it; `use` names the tools that it has, of all there are."""
        self.refresh_settings()
        model = self.model_selection.full_name(model, needs_model)
        policy = policy or self.settings.policy
        names = tuple(dict.fromkeys(terminals)) or (self.settings.terminal.default,)
        # What is not known is refused before anything is kept.
        check_effort(effort)
        self._gates.expect(policy)
        places = [(name, self.terminals.place(name)) for name in names]
        if not Path(workspace).is_dir():
            raise NotFound(f"no folder at {workspace!r}", "the workspace must exist")
        shown = self._turn_dependencies.specs(use, parent, loan)
        names_shown = [spec.name for spec in shown]
        around = collect_prompt_context(
            workspace, self.home.soul, self.clock(), places,
            await self.learning.opening(names_shown, parent, source),
        )  # fmt: skip
        can_find = FIND_TOOLS in names_shown
        prompt = build_prompt(around, shown, self._tool_services.about() if can_find else "")
        new = NewSession(
            os.path.realpath(workspace), policy, model, source, name, key, once, names, effort,
            parent, share,
        )  # fmt: skip
        return await self.store.open_session(new, prompt)

    def refresh_settings(self) -> None:
        """What was changed in config.yaml since holds for new sessions and for turns that begin
        from now on."""
        if self._own_settings:
            self.settings = load_settings(self.home.config, self._environ)
            self.terminals.settings = self.settings
            self._secrets = self._learned(Secrets(self._environ, self.home.path))
            self.models.renew(self.settings.models, self._secrets.beside(self._environ))

    def _learned(self, secrets: Secrets) -> Secrets:
        """What is secret is taken out of everything from now on."""
        for name in secrets.names():
            self._redactor.learn(name, secrets.get(name))
        return secrets

    def lend(self, session: str, loan: EmbeddedTools) -> None:
        """Give a session the tools and capabilities of the program that opened it."""
        self._turn_dependencies.lend(session, loan)

    async def submit(self, session: Session, message: SessionMessage) -> bool:
        """Keep a message and see that it is worked on. Once this returns, it is not lost.
        False when the same key was sent before."""
        self.note_activity()
        if self._stopping:
            raise Stopping("the runtime is stopping", "try again in a moment")
        if session.id in self._deleting:
            raise NotFound(f"session {session.id} is being deleted", "open a new one")
        if not self._is_ours(session):
            raise HermesError(
                f"session {session.id} belongs to a program ({session.key}) and has its tools",
                "only the program can go on with it: Agent(session=…)",
            )
        message = replace(message, text=self._redactor(message.text))
        message = await self.learning.arrived(session, message)
        new = await self.store.receive(session.id, message)
        if new:
            queued = ev.MessageQueued(message.key, message.text)
            self.bus.publish(ev.Recorded(session.id, 0, self.clock(), queued))
        try:
            await self._turns.begin(session)
        except Degraded as trouble:  # it is kept, and begun as soon as the store is well again
            log.warning("session %s waits: %s", session.id, trouble.message)
        return new

    async def events(self, session: str, after: int = 0) -> AsyncGenerator[ev.Recorded]:
        """The journal of a session after a number, then what happens, without a gap."""
        with self.bus.listen(session) as listener:
            for recorded in await self.store.events(session, after):
                after = recorded.number
                yield recorded
            while (live := await listener.next()) is not None:
                if live.number == 0 or live.number > after:
                    after = max(after, live.number)
                    yield live

    async def delete_session(self, session: Session) -> list[str]:
        """Returns what may be left over elsewhere, and why. The session goes last: a runtime that
        dies meanwhile leaves it to be deleted again."""
        if session.id in self._turns.busy:
            raise HermesError(
                f"session {session.id} is at work", f"`hermes interrupt {session.id}` stops it"
            )
        self._deleting.add(session.id)
        try:
            if self.store.health.state != "well":
                raise Degraded(self.store.health.reason, self.store.health.hint)
            left: list[str] = []
            for child in await self.store.sessions(MANY, parent=session.id):
                left += await self.delete_session(child)
            await self._tool_services.keeps.forget(session.id)
            left += await self.terminals.forget(session)
            results = self.home.results / session.id
            await asyncio.to_thread(shutil.rmtree, results, ignore_errors=True)
            await self.store.delete_session(session.id)
            return left
        finally:
            self._deleting.discard(session.id)

    # people

    async def interrupt(self, session: str, by: str = "") -> bool:
        """Stop the session's turn at once; False when it has none."""
        self.note_activity()
        return await self._turns.interrupt(await self.store.session(session), by)

    async def answer(self, id: str, answer: str, by: str, names: Sequence[str] = ()) -> None:
        self.note_activity()
        await self._turns.answer(id, answer, by, self._adopt, names)

    def _adopt(self, rules: str, by: str) -> None:
        """Add rules that somebody has allowed for good."""
        self._gates.adopt(rules)
        log.info("%s has allowed for good:\n%s", by, rules)

    async def decide(self, effect: str, decision: str, by: str) -> None:
        self.note_activity()
        await self._turns.decide(effect, decision, by)

    async def add(self, session: Session, *events: ev.Event) -> None:
        """Add to a session's journal what comes from outside of its turns."""
        await self._turns.add(session, *events)

    async def resume(self, session: Session) -> None:
        """Go on with a turn that waits for its program's tools."""
        await self._turns.continue_turn(session)

    # how it is

    async def is_in_use(self) -> bool:
        """Somebody listens, a turn works or waits for an answer, or a command runs."""
        needed = bool(self.bus.listeners) or self._turns.is_active or self._watch.busy
        return needed or self.services.busy or await self.terminals.has_running_commands()

    async def status(self) -> dict[str, Any]:
        return await status.of(self)

    @property
    def working(self) -> set[str]:
        """Sessions with a turn under way."""
        return self._turns.busy

    @property
    def is_stopping(self) -> bool:
        return self._stopping
