"""Opens terminals and keeps them for later turns of the session."""

import asyncio
import contextlib
import logging
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.protocols import Clock, Terminal
from hermes_agent.core.records import Session
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.settings.terminals import LocalPlace, NamespaceSettings, PlaceSettings
from hermes_agent.host.unavailable import UnavailableTerminal
from hermes_agent.terminals.registry import kind_of, open_terminal
from hermes_agent.tools.kept_output import ENDED, redact_output

log = logging.getLogger("hermes.terminals")


DRILL = "drill-"
"""The prefix of terminals on drill machines; the machine's name follows."""
CLOSE_SECONDS = 10.0
"""How long to wait for a terminal to close."""


class TerminalPool:
    def __init__(
        self, settings: Settings, environ: Mapping[str, str], spools: Path, clock: Clock
    ) -> None:
        self._clock = clock
        self.settings = settings
        self._environ = environ
        self._spools = spools
        self._terminals: dict[tuple[str, str], Terminal] = {}
        self._used: dict[str, float] = {}
        self._redacted: dict[tuple[str, str], tuple[int, frozenset[str]]] = {}
        """By terminal: when its folder was seen last, and which ended background commands there
        have no secrets in their output any more."""

    def place(self, name: str) -> PlaceSettings:
        places = self.settings.places
        machine = self._spools.parent / "drills" / name.removeprefix(DRILL)
        if name.startswith(DRILL) and (machine / "pid").is_file():
            return NamespaceSettings(str(machine))
        if name not in places:
            raise UsageError(
                f"no terminal called {name!r}",
                f"available: {', '.join(places)}; `terminals` in config.yaml adds more",
            )
        return places[name]

    def terminals(self, session: Session) -> dict[str, Terminal]:
        """The session's terminals by name."""
        self._used[session.id] = self._clock()
        return {name: self._terminal(session, name) for name in session.terminals}

    def kinds(self, session: Session) -> dict[str, str]:
        """The kind of each available terminal."""
        found = {}
        for name in session.terminals:
            with contextlib.suppress(UsageError):  # taken out of the settings
                found[name] = kind_of(self.place(name)).name
        return found

    def _terminal(self, session: Session, name: str) -> Terminal:
        key = session.id, name
        try:
            place = self.place(name)
            if key not in self._terminals:
                self._terminals[key] = self._open(session.id, session.workspace, name, place)
        except HermesError as error:  # taken out of the settings, or its library is gone
            return UnavailableTerminal(
                session.workspace, error, lambda: self._terminal(session, name)
            )
        return self._terminals[key]

    def _open(self, session: str, workspace: str, name: str, place: PlaceSettings) -> Terminal:
        return open_terminal(
            place,
            session=f"{session}-{name}",
            workspace=workspace,
            folder=self._spools / session / name,
            settings=self.settings.terminal,
            environ=self._environ,
            clock=self._clock,
        )

    def open_detached(self, session: Session, name: str) -> Terminal:
        """A new terminal in the session's folder that is not pooled. Its files are removed with the
        session."""
        own = f"{name}-{uuid.uuid4().hex[:8]}"
        return self._open(session.id, session.workspace, own, self.place(name))

    def _of(self, session: str) -> list[Terminal]:
        return [one for (owner, _), one in self._terminals.items() if owner == session]

    async def has_running_commands(self) -> bool:
        return any(await asyncio.gather(*map(_is_running, self._terminals.values())))

    async def tidy(self, busy: set[str]) -> None:
        """Close the terminals that have been idle for `terminal.idle_seconds`."""
        for session in busy:
            self._used[session] = self._clock()
        old = self._clock() - self.settings.terminal.idle_seconds
        for session in [name for name, used in self._used.items() if used < old]:
            terminals = self._of(session)
            if any([await _is_running(terminal) for terminal in terminals]):
                continue
            del self._used[session]
            for key in [key for key in self._terminals if key[0] == session]:
                await self._close(self._terminals.pop(key))

    async def redact_ended(self, redact: Callable[[str], str]) -> None:
        """Take secrets out of what background commands have left in our home, for which nobody
        waited."""
        for (session, name), terminal in list(self._terminals.items()):
            with contextlib.suppress(HermesError, OSError):
                here = kind_of(self.place(name)).name in ("local", "sandbox")
                changed = (self._spools / session / name).stat().st_mtime_ns if here else 0
                seen, done = self._redacted.get((session, name), (0, frozenset()))
                if changed == seen:
                    continue
                ended = {one.id: one for one in await terminal.commands() if one.state in ENDED}
                for state in [ended[id] for id in ended.keys() - done]:
                    sizes = state.stdout_size, state.stderr_size
                    await redact_output(terminal, state.spool, sizes, redact)
                self._redacted[session, name] = changed, frozenset(ended)

    async def _close(self, terminal: Terminal) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await terminal.close()
        except (HermesError, OSError) as error:
            log.warning("cannot close a terminal: %s", error)

    async def forget(self, session: Session) -> list[str]:
        """End a session's shells and remove their output and what was created for them. Returns
        what may be left over, and why."""
        self._used.pop(session.id, None)
        left = []
        for name in session.terminals:
            terminal = self._terminals.pop((session.id, name), None)
            self._redacted.pop((session.id, name), None)
            try:
                if terminal is None and (self._spools / session.id / name).exists():
                    terminal = self._open(session.id, "/", name, self.place(name))
                if terminal is not None:
                    await terminal.destroy()
            except (HermesError, OSError) as error:  # gone, or out of reach
                said = error.message if isinstance(error, HermesError) else str(error)
                left.append(f"terminal {name!r} may still have files or processes: {said}")
                log.warning("session %s: %s", session.id, left[-1])
        await asyncio.to_thread(shutil.rmtree, self._spools / session.id, ignore_errors=True)
        return left

    async def end_shells(self, busy: set[str]) -> None:
        """Close all idle shells, including those on this machine that an earlier runtime left."""
        idle = []
        for (session, _), terminal in self._terminals.items():
            if session in busy:
                terminal.leave()
            else:
                idle.append(terminal)
        await asyncio.gather(*map(self._close, idle))
        for spool in self._spools.glob("*/local"):
            session = spool.parent.name
            if session not in busy and (session, "local") not in self._terminals:
                await self._close(self._open(session, "/", "local", LocalPlace()))


async def _is_running(terminal: Terminal) -> bool:
    """Whether a command is running; False if the terminal cannot be reached."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            return any(command.state == "running" for command in await terminal.commands())
    except (HermesError, OSError):
        return False
