"""A sandbox on this machine: one bubblewrap for each session, which outlives the runtime. Where
bubblewrap does not work, Landlock confines commands less strictly."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import try_lock
from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_agent.terminals.local.files import remove_tree
from hermes_agent.terminals.sandbox import launch, limits, mounts
from hermes_agent.terminals.sandbox.landlock import below
from hermes_agent.terminals.sandbox.process import Busy, SandboxProcess, collect, feed
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

OWN_FOLDERS = ("home", "tmp", "shm")
"""What commands may write beside the workspace."""
NOTES = ("made", "lock", launch.DOOR, launch.LOG)
DYING_SECONDS = 10.0
REST_SECONDS = 0.2
BUSY_PAUSES = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0)
"""Pauses before retrying to start a program at the limit of processes."""


def transport(
    place: SandboxPlace, *, workspace: str, folder: Path, environ: Mapping[str, str], **_: object
) -> Transport:
    return Sandbox(place, workspace, folder, environ)


async def check(place: SandboxPlace | None, environ: Mapping[str, str]) -> str:
    """Empty when a sandbox can be made here, else what is missing."""
    try:
        for path in place.write if place else ():
            mounts.refuse_too_much(path, environ)
        await asyncio.to_thread(launch.find_way, environ)
    except HermesError as error:
        return f"{error.message}: {error.hint}"
    return ""


class Sandbox:
    """One sandbox. Its folder holds its home, its scratch space and its socket (the door)."""

    def __init__(
        self,
        place: SandboxPlace,
        workspace: str,
        folder: Path,
        environ: Mapping[str, str],
        cell: mounts.IsolatedSandbox | None = None,
    ) -> None:
        self._place = place
        self._workspace = workspace
        self._folder = Path(os.path.realpath(folder))
        self._environ = environ
        self._cell = cell
        self._channels: list[SandboxProcess] = []
        self._seen = False

    async def ready(self) -> None:
        if not self._seen or not self._is_open():
            await asyncio.to_thread(self._make)
            self._seen = True

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        program = await self.begin(argv)
        out, err = bytearray(), bytearray()
        tasks = [
            asyncio.ensure_future(feed(program.into, stdin)),
            asyncio.ensure_future(collect(program.out, out)),
            asyncio.ensure_future(collect(program.err, err)),
        ]
        try:
            code = await program.code()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Its children may hold the pipes for ever; its own output is already in them.
            out += program.out.rest()
            err += program.err.rest()
            await program.close()
        return ProcessResult(code, bytes(out), program.trouble or bytes(err))

    async def start(self, argv: Sequence[str]) -> ByteStream:
        program = await self.begin(argv)
        program.err.close()
        program.watch()
        self._channels = [*(channel for channel in self._channels if not channel.closed), program]
        return program

    async def begin(self, argv: Sequence[str]) -> SandboxProcess:
        """Start a program; the caller owns its pipes."""
        for pause in (*BUSY_PAUSES, 0.0):
            with contextlib.suppress(Busy, BlockingIOError):
                host = self._connect()
                if host is None:
                    raise ConnectionRefusedError("the sandbox does not exist")
                return await SandboxProcess.ask(host, argv)
            await asyncio.sleep(pause)
        raise ConnectionAbortedError("the sandbox has reached its process limit")

    def door(self) -> int:
        """The process that listens on the socket; 0 when none does."""
        host = self._connect(wait=True)
        if host is None:
            return 0
        with host:
            shape = struct.Struct("3i")
            return int(shape.unpack(host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])

    async def rest(self) -> None:
        """End a sandbox in which nothing runs; its files stay."""
        await self.close()
        await asyncio.to_thread(self._rest)

    async def close(self) -> None:
        while self._channels:
            await self._channels.pop().close()

    async def destroy(self) -> None:
        await self.close()
        await asyncio.to_thread(self._destroy)

    def _make(self) -> None:
        """Start the sandbox, or restart it when the settings changed."""
        for path in (self._workspace, *self._place.write):
            mounts.refuse_too_much(path, self._environ)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        for name in OWN_FOLDERS:
            (self._folder / name).mkdir(exist_ok=True)
            # Programs expect this of /tmp; the folder around it lets nobody else in.
            (self._folder / name).chmod(0o700 if name == "home" else 0o1777)
        wanted = msgspec.json.encode((self._place, os.path.realpath(self._workspace)))
        made = self._folder / "made"
        with self._lock() as lock:
            deadline = time.monotonic() + launch.START_SECONDS
            # The sandbox holds the lock as long as it lives, and its maker until then.
            while not try_lock(lock):
                if self._is_open():
                    if made.read_bytes() == wanted:
                        return
                    self._kill()
                elif time.monotonic() > deadline:
                    raise HermesError(
                        f"a process has locked the sandbox in {self._folder} and does not answer",
                        "stop the process that has its file `lock` open",
                    )
                time.sleep(0.005)
            made.write_bytes(wanted)
            launch.launch(
                self._place, self._workspace, self._folder, self._environ, lock, self._cell
            )

    def _rest(self) -> None:
        deadline = time.monotonic() + REST_SECONDS
        while (pid := self.door()) and time.monotonic() < deadline:
            alone = 0 if _is_first(pid) else 1  # the door itself is below its guard
            if len(below(pid)) <= alone:
                self._kill()
                limits.leave(self._folder)
                return
            time.sleep(0.01)  # what was just disconnected is about to end

    def _destroy(self) -> None:
        if not self._folder.is_dir():
            return
        self._kill()
        with self._lock() as lock:
            deadline = time.monotonic() + DYING_SECONDS
            while not try_lock(lock) and time.monotonic() < deadline:
                time.sleep(0.005)
            limits.leave(self._folder)
            for name in OWN_FOLDERS:
                remove_tree(self._folder / name)
            for name in NOTES:
                (self._folder / name).unlink(missing_ok=True)

    def _kill(self) -> None:
        """Kill the sandbox and everything inside."""
        pid = self.door()
        try:
            process = os.pidfd_open(pid) if pid else None
        except ProcessLookupError:
            return
        if process is None:
            return
        try:
            if self.door() != pid:  # it ended, and its number may be another's by now
                return
            for number in (signal.SIGTERM, signal.SIGKILL):
                # Process 1 of a namespace only gets SIGKILL, which ends all others too.
                if number == signal.SIGTERM and _is_first(pid):
                    continue
                signal.pidfd_send_signal(process, number)
                if select.select([process], [], [], DYING_SECONDS)[0]:
                    return
        finally:
            os.close(process)

    def _is_open(self) -> bool:
        try:
            host = self._connect()
        except BlockingIOError:
            return True
        if host is not None:
            host.close()
        return host is not None

    def _connect(self, *, wait: bool = False) -> socket.socket | None:
        """None when nothing listens. Raises `BlockingIOError` when the backlog is full."""
        host = socket.socket(socket.AF_UNIX)
        host.setblocking(wait)
        try:
            with launch.reachable(self._folder) as short:
                host.connect(short)
        except (FileNotFoundError, ConnectionRefusedError):
            host.close()
            return None
        except BaseException:
            host.close()
            raise
        return host

    @contextlib.contextmanager
    def _lock(self) -> Iterator[int]:
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield lock
        finally:
            os.close(lock)


def _is_first(pid: int) -> bool:
    """Whether this is process 1 of a namespace of its own."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
    return len(numbers) > 2 and numbers[-1] == "1"
