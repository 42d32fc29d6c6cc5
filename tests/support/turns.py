"""A turn with real parts: a store in a folder, a scripted model, a terminal, a gate."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies, no_secret
from hermes_agent.agent.turn import TurnWorker
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Gate
from hermes_agent.core.messages import Prompt
from hermes_agent.core.protocols import Clock, Model, Terminal
from hermes_agent.core.records import ModelRole, NewSession, Parked, Session, SessionMessage, Turn
from hermes_agent.core.settings.root import Settings, TerminalSettings
from hermes_agent.core.tools import Tool, ToolServices
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.runtime.tools.builtin import load_tools
from hermes_agent.store.store import Store
from hermes_agent.terminals.local.terminal import LocalTerminal
from tests.support.patience import PATIENCE

USUAL = ("terminal", "files", "people", "base")
"""Toolsets that need nothing beside a terminal."""


@dataclass
class Bench:
    """One session on a store of its own."""

    store: Store
    session: Session
    model: Model
    tools: dict[str, Tool]
    gate: Gate
    terminal: Terminal
    settings: Settings
    folder: Path
    redact: Redactor = field(default_factory=lambda: Redactor({}))
    published: list[ev.Recorded] = field(default_factory=list)
    more: dict[str, Terminal] = field(default_factory=dict)
    """Terminals beside the local one."""
    secret: Callable[[str], str] = no_secret
    http: Callable[..., Any] | None = None
    uses: dict[ModelRole, Model] = field(default_factory=dict)
    """Models for other uses than the conversation itself."""
    models: dict[str, Model] = field(default_factory=dict)
    """Models that may be chosen beside the first, by name."""
    reservations: BudgetReservations = field(default_factory=lambda: BudgetReservations(time.time))
    services: ToolServices = field(default_factory=ToolServices)
    """What tools may need beside a terminal."""
    clock: Clock = time.time
    ticks: Clock | None = None
    sent: int = 0
    latest: TurnWorker | None = None
    """The worker that was made last."""

    async def receive(self, text: str, *, interactive: bool = False) -> None:
        self.sent += 1
        await self.store.receive(
            self.session.id, SessionMessage(f"m{self.sent}", text, "test", interactive)
        )

    async def worker(self, turn: Turn | None = None) -> TurnWorker:
        turn = turn or await self.store.start_turn(self.session.id)
        assert turn is not None
        prompt = await self.store.prompt(self.session.prompt)
        talk = ConversationState(self.session.id, prompt)
        talk.apply_all(await self.store.events(self.session.id))
        self.latest = TurnWorker(self.parts(), turn, talk)
        return self.latest

    async def worker_for(self, text: str, *, interactive: bool = False) -> TurnWorker:
        """A worker for a message."""
        await self.receive(text, interactive=interactive)
        return await self.worker()

    async def parked(self) -> Sequence[Parked]:
        """What is parked, as soon as it can be decided."""
        worker = self.latest
        assert worker is not None
        async with asyncio.timeout(PATIENCE):
            while not any(call.parked for call in worker.conversation.all_calls):
                await asyncio.sleep(0.005)
        return await self.store.parked()

    def route(self, use: ModelRole, chosen: str) -> Model | None:
        """The chosen model for everything, but for uses that have their own or want one."""
        main = self.models.get(chosen, self.model)
        return self.uses.get(use, None if use in ("titles", "vision") else main)

    def parts(self) -> TurnDependencies:
        return TurnDependencies(
            journal=self.store,
            route=self.route,
            tools=self.tools,
            gate=self.gate,
            terminals={"local": self.terminal, **self.more},
            settings=self.settings,
            publish=self.published.append,
            redact=self.redact,
            results=self.folder / "results",
            program_seconds=0.3,
            clock=self.clock,
            ticks=self.ticks or self.clock,
            reservations=self.reservations,
            workspace=self.session.workspace,
            places=dict.fromkeys(self.more, "ssh"),
            secret=self.secret,
            http=self.http,
            services=self.services,
        )

    async def say(self, text: str, *, interactive: bool = False) -> ev.TurnFinished:
        await self.receive(text, interactive=interactive)
        end = await (await self.worker()).run()
        assert end is not None
        return end

    async def events(self, kind: type | None = None) -> list[ev.Event | ev.TransientEvent]:
        recorded = await self.store.events(self.session.id)
        return [one.event for one in recorded if kind is None or isinstance(one.event, kind)]


@asynccontextmanager
async def bench(
    folder: Path,
    model: Model,
    *,
    tools: Sequence[Tool] | None = None,
    policy: str = "sandbox",
    settings: Settings | None = None,
    granted: frozenset[str] | None = None,
    clock: Clock = time.time,
    ticks: Clock | None = None,
) -> AsyncIterator[Bench]:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    (folder / "home").mkdir(exist_ok=True)
    store = await Store.open(folder / "home", clock=clock)
    chosen = {tool.name: tool for tool in (load_tools(USUAL) if tools is None else tools)}
    prompt = Prompt("You are a test.", tuple(tool.spec for tool in chosen.values()))
    session = await store.open_session(NewSession(str(workspace), policy, model.name), prompt)
    terminal = LocalTerminal(str(workspace), folder / "spool", TerminalSettings())
    gate = Policies.of_home(folder / "home", Path.home()).gate(policy, granted)
    try:
        yield Bench(
            store,
            session,
            model,
            chosen,
            gate,
            terminal,
            settings or Settings(),
            folder,
            clock=clock,
            ticks=ticks,
        )
    finally:
        await terminal.destroy()
        await store.close()
