"""A program in a pod over a web socket. Each message is a channel's number and its bytes; the last
one, on the error channel, says how the program ended."""

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.transport import ProcessResult

INPUT, OUTPUT, ERRORS, ENDING = range(4)
PIECE = 32_768
OVER = (
    aiohttp.WSMsgType.CLOSE,
    aiohttp.WSMsgType.CLOSING,
    aiohttp.WSMsgType.CLOSED,
    aiohttp.WSMsgType.ERROR,
)
FEEDING = 'bytes=$1; shift; head -c "$bytes" | "$@"'
"""The end of a program's input cannot be sent over this protocol, so it is counted. The pipe's
code is that of its last part."""
NOTHING = 'exec "$@" </dev/null'


class _Cause(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(Struct, frozen=True):
    causes: tuple[_Cause, ...] = ()


class _Ending(Struct, frozen=True):
    """The server's word on a program that has ended."""

    status: str = ""
    message: str = ""
    details: _Details | None = None


def fed(argv: Sequence[str], stdin: bytes) -> list[str]:
    """A command that gives a program exactly these bytes of what comes in."""
    if stdin:
        return ["sh", "-c", FEEDING, "sh", str(len(stdin)), *argv]
    return ["sh", "-c", NOTHING, "sh", *argv]


class SocketChannel:
    """The program of one web socket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._over = False

    async def write(self, data: bytes) -> None:
        if self._over or self._socket.closed:
            raise ConnectionError("the program has ended")
        for start in range(0, len(data), PIECE):
            await self._socket.send_bytes(bytes((INPUT,)) + data[start : start + PIECE])

    async def read(self) -> bytes:
        while not self._over:
            channel, data = await self._next()
            if channel == OUTPUT and data:
                return data
            self._over = channel == ENDING
        return b""

    async def close(self) -> None:
        await self._socket.close()

    async def finish(self, stdin: bytes) -> ProcessResult:
        """Hand over the input while the output is taken in, to the program's end."""
        feeding = asyncio.create_task(self._feed(stdin))
        parts: dict[int, list[bytes]] = {OUTPUT: [], ERRORS: []}
        try:
            while True:
                channel, data = await self._next()
                if channel == ENDING:
                    break
                parts.setdefault(channel, []).append(data)
        finally:
            feeding.cancel()
            await asyncio.wait([feeding])
        if not data:
            raise ConnectionError("lost the connection to the pod")
        return ProcessResult(_code(data), b"".join(parts[OUTPUT]), b"".join(parts[ERRORS]))

    async def _feed(self, stdin: bytes) -> None:
        try:
            await self.write(stdin)
        except ConnectionError:
            pass  # a program need not read its input; how it ended is told elsewhere

    async def _next(self) -> tuple[int, bytes]:
        """A channel and its bytes; the error channel without any where the socket is cut."""
        while True:
            message = await self._socket.receive()
            if message.type in OVER:
                return ENDING, b""
            data = message.data.encode() if isinstance(message.data, str) else message.data
            if len(data) > 1:  # each channel is announced by an empty message
                return data[0], data[1:]


def _code(data: bytes) -> int:
    ending = msgspec.json.decode(data, type=_Ending)
    if ending.status == "Success":
        return 0
    for cause in ending.details.causes if ending.details else ():
        if cause.reason == "ExitCode":
            return int(cause.message)
    if "executable file not found" in ending.message or "no such file" in ending.message:
        raise HermesError(
            f"the pod cannot run commands: {ending.message}", "its image must have sh and bash 5"
        )
    raise ConnectionError(ending.message)
