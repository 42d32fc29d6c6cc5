"""Sandboxes to try things in: a person's home with secrets, Hermes' home and a workspace in it."""

import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_agent.terminals.sandbox import sandbox
from hermes_agent.terminals.sandbox.launch import PYTHON, reachable
from hermes_agent.terminals.transport import ProcessResult, Transport
from tests.support.terminals import FarPlace, Place
from tests.support.transports import Way

Kind = Literal["bubblewrap", "landlock"]
SECRET = "sesame-4711"
SECRETS = (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".hermes/state.db", ".hermes/.env")


class Box:
    """One sandbox and what lies around it."""

    def __init__(
        self, root: Path, kind: Kind = "bubblewrap", place: SandboxPlace | None = None
    ) -> None:
        self.place = place or SandboxPlace()
        self.person = root / "person"
        self.workspace = self.person / "work"
        self.folder = self.person / ".hermes" / "terminals" / "one" / "sandbox"
        self.workspace.mkdir(parents=True, exist_ok=True)
        for name in SECRETS:
            (self.person / name).parent.mkdir(parents=True, exist_ok=True)
            (self.person / name).write_text(SECRET)
        self.environ = {
            "HOME": str(self.person),
            "HERMES_HOME": str(self.person / ".hermes"),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "SOME_TOKEN": SECRET,
        }
        if kind == "landlock":
            self.environ["PATH"] = str(without_bubblewrap(root / "programs"))
        self.transport = self.open()

    def open(self, place: SandboxPlace | None = None) -> Transport:
        """A transport as another process, or later settings, would make it."""
        return sandbox.transport(
            place or self.place,
            session="one",
            workspace=str(self.workspace),
            folder=self.folder,
            environ=self.environ,
        )

    async def runs(self, text: str) -> ProcessResult:
        return await self.transport.call(["bash", "-c", text])

    async def python(self, text: str) -> ProcessResult:
        return await self.transport.call([PYTHON, "-I", "-S", "-c", text])

    def door(self) -> int:
        """The process that has to live for the sandbox to."""
        with socket.socket(socket.AF_UNIX) as host, reachable(self.folder) as short:
            host.connect(short)
            peer = host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", peer)[0])


def without_bubblewrap(folder: Path) -> Path:
    """A folder with all programs but that one, for PATH."""
    if not folder.exists():
        folder.mkdir()
        for path in Path("/usr/bin").iterdir():
            if path.name != "bwrap":
                (folder / path.name).symlink_to(path)
    return folder


def marked(mark: str) -> list[int]:
    """Processes of this machine that live and have the mark among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (process / "stat").read_text().rpartition(") ")[2][0]
            if mark.encode() in (process / "cmdline").read_bytes() and state not in "ZX":
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def sandbox_way(root: Path) -> contextlib.AbstractAsyncContextManager[Way]:
    return _way(root, "bubblewrap")


def landlock_way(root: Path) -> contextlib.AbstractAsyncContextManager[Way]:
    return _way(root, "landlock")


@contextlib.asynccontextmanager
async def _way(root: Path, kind: Kind) -> AsyncIterator[Way]:
    box = Box(root, kind)
    yield Way(box.transport, box.open, str(box.workspace))
    await box.transport.destroy()


@contextlib.asynccontextmanager
async def sandbox_place(root: Path) -> AsyncIterator[Place]:
    box = Box(root)
    yield FarPlace(box.open, str(box.workspace), root, lasting=False)


@contextlib.asynccontextmanager
async def landlock_place(root: Path) -> AsyncIterator[Place]:
    box = Box(root, "landlock")
    yield FarPlace(box.open, str(box.workspace), root, lasting=False)
