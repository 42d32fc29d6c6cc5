"""A server that is a local program: started in its own process group, over standard input and
output, and certain to end with the runtime.

The SDK has such a transport, but it reads lines of any length, leaves behind what an ended server
had started, and does not end a server when the runtime is killed."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.mcp.context import UNREADABLE

Streams = tuple[Any, Any]
"""Read and write streams; the SDK does not publish their types."""
LINE_BYTES = 32_000_000
"""The largest message; a server that sends a larger one is disconnected."""
CHUNK = 65_536
GRACE_SECONDS = 1.0
"""How long it has to exit after its input ended."""
TERM_SECONDS = 2.0
"""And after SIGTERM."""
PLAIN_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
)  # fmt: skip
LOG_BYTES = 500_000
"""Of one file; when it is full it becomes `NAME.old`, and the one before that goes."""
LOG_TAIL_BYTES = 2_000

_WATCHED = """
life=$1
shift
exec 9<&0
trap : TERM
"$@" <&9 9<&- &
child=$!
exec 9<&- </dev/null
{ read -r _; kill -KILL -$$; } <"/dev/fd/$life" >/dev/null 2>&1 &
exec >/dev/null
wait $child
code=$?
while kill -0 $child 2>/dev/null; do
    wait $child
    code=$?
done
exit $code
"""
"""Runs the program, and beside it a process that waits for the end of a pipe whose other side we
hold: when we die, it kills the group. The shell ignores SIGTERM, to reap the program."""


class Log:
    """What a server's program prints outside the protocol, in a file of bounded size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._tail = b""

    def write(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-LOG_TAIL_BYTES:]
        file = self._file or self._opened()
        if file.tell() + len(data) > LOG_BYTES:
            file.close()
            self._path.replace(self._path.with_suffix(".old"))
            file = self._opened()
        file.write(data[-LOG_BYTES:])
        file.flush()
        self._file = file

    def _opened(self) -> BinaryIO:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        file = os.fdopen(handle, "wb")
        file.seek(0, os.SEEK_END)
        return file

    def last_words(self, most: int = 300) -> str:
        """The end of what this run said, on one line."""
        text = " ".join(self._tail.decode("utf-8", "replace").split())
        shown = "".join(sign for sign in text if sign.isprintable())
        return shown if len(shown) <= most else "…" + shown[-most:]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def plain_environment(environ: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in PLAIN_VARIABLES if name in environ} | dict(added)


@asynccontextmanager
async def program(
    command: Sequence[str], environ: Mapping[str, str], log: Log, ended: Callable[[], None]
) -> AsyncIterator[Streams]:
    """The streams of a server. `ended` is called when it has closed its output."""
    process, life = await _started(command, environ)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    talk = _Talk(process.stdin, process.stdout, log)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_logged, process.stderr, log)

            async def listen() -> None:
                async with incoming:
                    await talk.listen(incoming.send)
                    ended()

            async def watch() -> None:
                await process.exited.wait()
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
                await process.stop()
            finally:
                os.close(life)
                process.kill(signal.SIGKILL)
                for stream in (incoming, read, write, outgoing):
                    stream.close()


class _Exits(asyncio.subprocess.SubprocessStreamProtocol):
    """Reports the exit at once; asyncio also waits for the pipes, which a child may hold."""

    def __init__(self) -> None:
        super().__init__(CHUNK, asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class _Process:
    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Exits) -> None:
        made = asyncio.subprocess.Process(transport, protocol, asyncio.get_running_loop())
        assert made.stdin is not None
        assert made.stdout is not None
        assert made.stderr is not None
        self.stdin, self.stdout, self.stderr = made.stdin, made.stdout, made.stderr
        self.group = made.pid
        self.exited = protocol.exited
        self._transport = transport

    async def stop(self) -> None:
        """Close its input, then SIGTERM, then SIGKILL."""
        self.stdin.close()
        if not await self._gone(GRACE_SECONDS):
            self.kill(signal.SIGTERM)
            await self._gone(TERM_SECONDS)
        self.kill(signal.SIGKILL)  # also what it left behind
        await self._gone(TERM_SECONDS)
        self._transport.close()

    async def _gone(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.exited.wait()
        return self.exited.is_set()

    def kill(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)


async def _started(command: Sequence[str], environ: Mapping[str, str]) -> tuple[_Process, int]:
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise ToolError(
            f"no program called {command[0]!r}", "install it, or fix its command", "never"
        )
    inner, life = os.pipe()
    try:
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            _Exits,
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
    return _Process(transport, protocol), life


Hear = Callable[[SessionMessage], Awaitable[None]]


class _Talk:
    def __init__(self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, log: Log) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._log = log

    async def listen(self, hear: Hear) -> None:
        """Pass on each message. Other lines go to the log."""
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
            if (id := _answered(line)) is None:
                return
            trouble = ErrorData(code=UNREADABLE, message="not valid text")
            message = SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=trouble))
        await hear(message)

    async def speak(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with suppress(ConnectionError):
            async with outgoing:
                async for said in outgoing:
                    text = said.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(text.encode() + b"\n")
                    await self._stdin.drain()


def _answered(line: bytes) -> int | str | None:
    """The id of the request that an invalid answer is for, such as one with half of a surrogate
    pair; None if it cannot be told."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    id = said.get("id") if isinstance(said, dict) and "method" not in said else None
    return id if isinstance(id, int | str) else None


async def _logged(stderr: asyncio.StreamReader, log: Log) -> None:
    while chunk := await stderr.read(CHUNK):
        log.write(chunk)
