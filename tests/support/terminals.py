"""Places to open terminals on, and a short way to run commands there."""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from hermes_agent.core.protocols import CommandState, ShellCommand, Terminal
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.local.terminal import LocalTerminal
from hermes_agent.terminals.remote.terminal import RemoteTerminal
from hermes_agent.terminals.shell.daemon import ShellDaemon, scrubbed
from hermes_agent.terminals.shell.spool import Spool
from hermes_agent.terminals.transport import Transport
from tests.support.patience import pauses
from tests.support.transports import SubprocessTransport

DEFAULTS = TerminalSettings()


class Place(Protocol):
    """Somewhere a terminal can be opened, let go and opened again."""

    def open(self) -> Terminal: ...

    async def destroy(self) -> None: ...


class LocalPlace:
    def __init__(self, folder: Path, settings: TerminalSettings = DEFAULTS) -> None:
        self.workspace = folder / "work"
        self.workspace.mkdir(exist_ok=True)
        self.spool = folder / "spool"
        self.settings = settings

    def open(self, environment: Mapping[str, str] = os.environ) -> LocalTerminal:
        return LocalTerminal(str(self.workspace), self.spool, self.settings, environment)

    async def launch(self, mode: str, *arguments: str) -> None:
        """Start a part of the daemon by itself, as a runtime that dies at once would."""
        daemon = ShellDaemon(Spool(self.spool), str(self.workspace), 60.0, scrubbed(os.environ, ()))
        await daemon.launch(mode, *arguments)

    def daemon(self) -> int:
        """The pid of the daemon that was started last."""
        notes = [note for note in self.spool.glob("daemon.*") if note.suffix[1:].isdigit()]
        newest = max(notes, key=lambda note: int(note.suffix[1:]))
        return int(newest.read_text().split()[0])

    def spine(self) -> int:
        return int((self.spool / "spine").read_text().split()[0])

    async def destroy(self) -> None:
        await self.open().destroy()


class FarPlace:
    """The engine of far machines over a transport that a test makes."""

    def __init__(
        self,
        transport: Callable[[], Transport],
        workspace: str,
        folder: Path,
        settings: TerminalSettings = DEFAULTS,
        *,
        session: str = "a-session",
        lasting: bool = True,
    ) -> None:
        self.workspace = workspace
        self.session = session
        self._transport = transport
        self._folder = folder
        self._settings = settings
        self._lasting = lasting
        self._opened: list[tuple[RemoteTerminal, Transport]] = []

    def open(self) -> RemoteTerminal:
        transport = self._transport()
        terminal = RemoteTerminal(
            transport,
            session=self.session,
            workspace=self.workspace,
            folder=self._folder / "notes",
            settings=self._settings,
            environment={},
            lasting=self._lasting,
        )
        self._opened.append((terminal, transport))
        return terminal

    async def destroy(self) -> None:
        self.open()
        for _, transport in self._opened:
            await transport.close()
        await self._opened[-1][0].destroy()


class Shell:
    """Runs one text after the other, each under an id of its own."""

    def __init__(self, terminal: Terminal, start: str = "run") -> None:
        self.terminal = terminal
        self._start = start
        self._number = 0

    def command(
        self, text: str, limit: float | None = 60.0, background: bool = False
    ) -> ShellCommand:
        self._number += 1
        return ShellCommand(f"{self._start}-{self._number}", text, limit, background)

    async def __call__(
        self, text: str, limit: float | None = 60.0, background: bool = False
    ) -> CommandState:
        return await self.terminal.run(self.command(text, limit, background))

    async def says(self, text: str) -> str:
        state = await self(text)
        assert (state.state, state.code, state.stderr) == ("exited", 0, "")
        return state.stdout


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that is bound to come; the test's own time limit is the only one."""
    for pause in pauses():
        answer = true()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(pause)


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


@contextlib.asynccontextmanager
async def local_place(folder: Path) -> AsyncIterator[Place]:
    yield LocalPlace(folder)


@contextlib.asynccontextmanager
async def subprocess_place(folder: Path) -> AsyncIterator[Place]:
    """The far engine, quickly checked: the far machine is this one."""
    yield _subprocess_place(folder, os.environ["PATH"], channels=True)


@contextlib.asynccontextmanager
async def busybox_place(folder: Path) -> AsyncIterator[Place]:
    """The least that a far machine may have, and no channel to it: all is done by calls."""
    programs = folder / "bin"
    _lay_out_busybox(programs)
    yield _subprocess_place(folder, str(programs), channels=False)


def _lay_out_busybox(programs: Path) -> None:
    busybox, bash = shutil.which("busybox"), shutil.which("bash-static")
    assert busybox is not None, "apt-get install busybox-static"
    assert bash is not None, "apt-get install bash-static"
    listed = subprocess.run([busybox, "--list"], stdout=subprocess.PIPE, check=True, text=True)
    programs.mkdir()
    for name in listed.stdout.split():
        (programs / name).symlink_to(busybox)
    (programs / "bash").unlink(missing_ok=True)
    (programs / "bash").symlink_to(bash)


def _subprocess_place(folder: Path, path: str, *, channels: bool) -> FarPlace:
    for name in ("work", "home"):
        (folder / name).mkdir()
    environment = {**os.environ, "HOME": str(folder / "home"), "PATH": path}
    return FarPlace(
        lambda: SubprocessTransport(environment, channels=channels), str(folder / "work"), folder
    )
