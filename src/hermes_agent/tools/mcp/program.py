"""A server that is a program on this machine: started in a process group of its own, spoken to
over its standard input and output, and gone with us, whatever becomes of us.

The SDK has such a transport. It takes lines of any length, reads on to their end, leaves behind
what a server that ended by itself had started, and nothing ends a server that does not notice that
we were killed; so this one is ours."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.mcp.log import Log

Streams = tuple[Any, Any]
"""Read and write, as the SDK wants them; it does not publish their types."""
LINE_BYTES = 32_000_000
"""The largest message; a server that sends a larger one is given up."""
CHUNK = 65_536
GRACE_SECONDS = 2.0
"""How long it has to end after its input ended, and again after it was told to."""
PLAIN_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
)  # fmt: skip

_WATCHED = (
    'life=$1; shift; exec 9<&0; "$@" <&9 9<&- & child=$!; exec 9<&- </dev/null; '
    '{ read -r _; kill -KILL -$$; } <"/dev/fd/$life" >/dev/null 2>&1 & '
    "exec >/dev/null; wait $child"
)
"""Runs the program and beside it one that waits for the end of a pipe which nobody writes to: we
hold its other side, and the kernel lets go of that when we die."""


def plain_environment(environ: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in PLAIN_VARIABLES if name in environ} | dict(added)


@asynccontextmanager
async def program(
    command: Sequence[str], environ: Mapping[str, str], log: Log, ended: Callable[[], None]
) -> AsyncIterator[Streams]:
    """The streams of a server. `ended` is called when it has stopped talking."""
    process, life = await _started(command, environ)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    talk = _Talk(process.stdin, process.stdout, log)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_logged, process.stderr, log)

            async def listen() -> None:
                async with incoming:
                    await talk.listen(incoming.send)
                    ended()

            async def watch() -> None:
                await process.wait()
                ended()
                await incoming.aclose()  # a child of it may hold its output open

            tasks.start_soon(listen)
            tasks.start_soon(watch)
            tasks.start_soon(talk.speak, outgoing)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await _stopped(process)
            finally:
                os.close(life)
                _kill_group(process.pid, signal.SIGKILL)
                for stream in (incoming, read, write, outgoing):
                    stream.close()


async def _started(
    command: Sequence[str], environ: Mapping[str, str]
) -> tuple[asyncio.subprocess.Process, int]:
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise ToolError(
            f"no program called {command[0]!r}", "install it, or mend its command", "never"
        )
    inner, life = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", _WATCHED, "hermes-mcp", str(inner), *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environ),
            cwd=environ.get("HOME") or "/",
            pass_fds=(inner,),
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        os.close(life)
        raise ToolError(f"{command[0]!r} does not start: {error.strerror}") from None
    finally:
        os.close(inner)
    return process, life


Hear = Callable[[SessionMessage], Awaitable[None]]


class _Talk:
    def __init__(self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, log: Log) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._log = log

    async def listen(self, hear: Hear) -> None:
        """Hand on each message. What is none goes to the log: programs print all sorts."""
        rest: list[bytes] = []
        size = 0
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            while chunk := await self._stdout.read(CHUNK):
                first, *more = chunk.split(b"\n")
                rest.append(first)
                size += len(first)
                if size > LINE_BYTES:
                    self._log.write(b"[a message was too large]\n")
                    return
                for line in more:
                    await self._heard(b"".join(rest), hear)
                    rest, size = [line], len(line)

    async def _heard(self, line: bytes, hear: Hear) -> None:
        try:
            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            if line.strip():
                self._log.write(line[:CHUNK] + b"\n")
            return
        await hear(message)

    async def speak(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with suppress(ConnectionError):
            async with outgoing:
                async for said in outgoing:
                    text = said.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(text.encode() + b"\n")
                    await self._stdin.drain()


async def _logged(stderr: asyncio.StreamReader, log: Log) -> None:
    while chunk := await stderr.read(CHUNK):
        log.write(chunk)


async def _stopped(process: asyncio.subprocess.Process) -> None:
    """Its input ends, then it is told to end, then it is made to."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _within(lambda: process.returncode is not None):
        _kill_group(process.pid, signal.SIGTERM)
        await _within(lambda: not _kill_group(process.pid, 0))
    _kill_group(process.pid, signal.SIGKILL)
    await _within(lambda: process.returncode is not None)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()  # else it lives on as long as a child holds one of the pipes


async def _within(met: Callable[[], bool]) -> bool:
    deadline = anyio.current_time() + GRACE_SECONDS
    while not met():
        if anyio.current_time() >= deadline:
            return False
        await anyio.sleep(0.01)
    return True


def _kill_group(group: int, number: int) -> bool:
    """Whether anybody was there to be told."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
