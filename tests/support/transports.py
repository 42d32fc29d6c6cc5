"""Ways to machines for the suite of transports, and the plainest of them: subprocesses here."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport


@dataclass(frozen=True)
class Way:
    """A place that is ready to be reached."""

    transport: Transport
    again: Callable[[], Transport]
    """A fresh transport with the same arguments, as another process would make it."""
    folder: str
    """A folder there that can be written, and that stays when connections are dropped."""
    channels: bool = True
    """Whether `start` gives a channel."""


class PipeChannel:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()
        if self._process.stdin.is_closing():
            raise ConnectionResetError("the program is gone")

    async def read(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.read(65536)

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.wait_closed()

    async def end(self) -> None:
        """The way to it is cut: neither side hears the other any more."""
        await self.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


class SubprocessTransport:
    """Programs of this machine, each a plain subprocess with this environment, started by way of
    `prefix`."""

    def __init__(
        self,
        environment: dict[str, str],
        *,
        channels: bool = True,
        prefix: Sequence[str] = (),
    ) -> None:
        self._environment = environment
        self._prefix = prefix
        self._with_channels = channels
        self._channels: list[PipeChannel] = []

    async def ready(self) -> None:
        """This machine is always there."""

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        try:
            process = await self._run(argv, asyncio.subprocess.PIPE)
        except FileNotFoundError as error:
            return ProcessResult(127, stderr=str(error).encode())
        stdout, stderr = await process.communicate(stdin)
        return ProcessResult(process.returncode or 0, stdout, stderr)

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        if not self._with_channels:
            return None
        channel = PipeChannel(await self._run(argv, asyncio.subprocess.DEVNULL))
        self._channels.append(channel)
        return channel

    async def rest(self) -> None:
        """This machine does not hibernate."""

    async def close(self) -> None:
        channels, self._channels = self._channels, []
        for channel in channels:
            await channel.end()

    async def destroy(self) -> None:
        await self.close()

    async def _run(self, argv: Sequence[str], stderr: int) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._prefix,
            *argv,
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            env=self._environment,
            start_new_session=True,
        )


@contextlib.asynccontextmanager
async def subprocess_way(folder: Path) -> AsyncIterator[Way]:
    made: list[SubprocessTransport] = []

    def again() -> Transport:
        made.append(SubprocessTransport(dict(os.environ)))
        return made[-1]

    yield Way(again(), again, str(folder))
    for transport in made:
        await transport.destroy()
