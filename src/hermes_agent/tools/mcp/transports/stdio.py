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
from pathlib import Path
from typing import Any, BinaryIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from hermes_agent.core.errors import ToolError

Streams = tuple[Any, Any]
"""Read and write, as the SDK wants them; it does not publish their types."""
LINE_BYTES = 32_000_000
"""The largest message; a server that sends a larger one is given up."""
CHUNK = 65_536
GRACE_SECONDS = 1.0
"""How long it has to end after its input ended."""
TERM_SECONDS = 2.0
"""And after it was told to."""
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
"""Runs the program and beside it one that waits for the end of a pipe which nobody writes to: we
hold its other side, and the kernel lets go of that when we die. It outlives a word to end that is
meant for the program, so that the program has somebody to bury it."""


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
    """The streams of a server. `ended` is called when it has stopped talking."""
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
    """Tells of the exit at once; asyncio's own waits for the pipes too, which a child may hold."""

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
        """Its input ends, then it is told to end, then it is made to."""
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
            f"no program called {command[0]!r}", "install it, or mend its command", "never"
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
