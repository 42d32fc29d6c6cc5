"""Things opened once and used by many turns: models by name, terminals by session."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from hermes_agent.core.errors import HermesError, ModelError
from hermes_agent.core.messages import Chunk, ModelFacts, Request
from hermes_agent.core.protocols import Clock, Model
from hermes_agent.core.records import Session
from hermes_agent.core.settings import Settings
from hermes_agent.models.catalog import open_model
from hermes_agent.terminals.local import LocalTerminal


class UnavailableModel:
    """Stands for a model that cannot be opened: a turn that needs it fails with the reason."""

    def __init__(self, name: str, error: HermesError) -> None:
        self.name = name
        self.facts = ModelFacts(price_input=0.0, price_output=0.0)
        self._error = error

    def stream(self, request: Request) -> AsyncIterator[Chunk]:  # noqa: ARG002 - the protocol's
        raise ModelError("bad_request", self._error.message, self._error.hint)

    async def close(self) -> None:
        """Nothing was opened."""


class Shelf:
    def __init__(
        self, settings: Settings, environ: Mapping[str, str], spools: Path, clock: Clock
    ) -> None:
        self._clock = clock
        self.settings = settings
        self._environ = environ
        self._spools = spools
        self._models: dict[str, Model] = {}
        self._terminals: dict[str, LocalTerminal] = {}
        self._used: dict[str, float] = {}

    def model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = open_model(name, self.settings.models, self._environ)
        return self._models[name]

    def model_or_reason(self, name: str) -> Model:
        try:
            return self.model(name)
        except HermesError as error:
            return UnavailableModel(name, error)

    def terminal(self, session: Session) -> LocalTerminal:
        if session.id not in self._terminals:
            self._terminals[session.id] = LocalTerminal(
                session.workspace, self._spools / session.id, self.settings.terminal
            )
        self._used[session.id] = self._clock()
        return self._terminals[session.id]

    async def has_running_commands(self) -> bool:
        return any([await _is_running(terminal) for terminal in self._terminals.values()])

    async def tidy(self, busy: set[str]) -> None:
        """Let go of terminals that have had nothing to do for as long as an idle shell lives."""
        for session in busy:
            self._used[session] = self._clock()
        old = self._clock() - self.settings.terminal.idle_seconds
        for session in [name for name, used in self._used.items() if used < old]:
            terminal = self._terminals.get(session)
            if terminal is not None and await _is_running(terminal):
                continue
            self._terminals.pop(session, None)
            del self._used[session]
            if terminal is not None:
                await terminal.close()

    async def forget(self, session: str) -> None:
        """End a session's shell and remove what it printed."""
        spool = self._spools / session
        terminal = self._terminals.pop(session, None)
        self._used.pop(session, None)
        if terminal is None and spool.exists():
            terminal = LocalTerminal("/", spool, self.settings.terminal)
        if terminal is not None:
            await terminal.destroy()
        await asyncio.to_thread(shutil.rmtree, spool, ignore_errors=True)

    async def end_shells(self, busy: set[str]) -> None:
        """Also those that an earlier runtime left behind."""
        spools = self._spools.iterdir() if self._spools.is_dir() else ()
        for spool in spools:
            terminal = self._terminals.get(spool.name)
            if spool.name not in busy:
                await (terminal or LocalTerminal("/", spool, self.settings.terminal)).close()
            elif terminal is not None:
                terminal.leave()

    async def close_models(self) -> None:
        for model in self._models.values():
            await model.close()


async def _is_running(terminal: LocalTerminal) -> bool:
    return any(command.state == "running" for command in await terminal.commands())
