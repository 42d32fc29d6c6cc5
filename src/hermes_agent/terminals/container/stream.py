"""The byte stream of a program in a container: one HTTP request that turns into a socket, with
standard output and standard error in frames."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

from hermes_agent.terminals.container.address import Address

CHUNK = 1 << 16
HEADER = 8
ATTACHED = b'{"Detach": false, "Tty": false}'
OUTPUT: Literal[1] = 1
ERROR: Literal[2] = 2


class ExecStream:
    """The program's standard streams. A cancelled read loses nothing."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        closed: Callable[["ExecStream"], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._closed = closed
        self._kind = 0
        self._left = 0
        self._ended = False

    async def frame(self) -> tuple[int, bytes]:
        """The next bytes and their stream; b"" at the end."""
        try:
            while not self._left:
                header = await self._reader.readexactly(HEADER)
                self._kind = header[0]
                self._left = int.from_bytes(header[4:], "big")
            data = await self._reader.read(min(self._left, CHUNK))
        except (asyncio.IncompleteReadError, OSError):
            data = b""
        self._left -= len(data)
        self._ended = self._ended or not data
        return self._kind, data

    async def write(self, data: bytes) -> None:
        if self._ended or self._writer.is_closing():
            raise ConnectionError("the program in the container has ended")
        self._writer.write(data)
        await self._writer.drain()

    async def read(self) -> bytes:
        while True:
            kind, data = await self.frame()
            if kind == OUTPUT or not data:
                return data

    async def close(self) -> None:
        self._closed(self)
        self._ended = True
        self._writer.close()
        with contextlib.suppress(OSError):  # cut already
            await self._writer.wait_closed()

    async def collect(self, stdin: bytes) -> tuple[bytes, bytes]:
        """Feed all of `stdin` and return standard output and standard error."""
        output, errors = bytearray(), bytearray()
        feeding = asyncio.create_task(self._feed(stdin)) if stdin else None
        try:
            while True:
                kind, data = await self.frame()
                if not data:
                    return bytes(output), bytes(errors)
                (errors if kind == ERROR else output).extend(data)
        finally:
            if feeding:
                feeding.cancel()
                await asyncio.wait([feeding])

    async def _feed(self, stdin: bytes) -> None:
        with contextlib.suppress(OSError):  # a program may end before it has read everything
            for start in range(0, len(stdin), CHUNK):
                await self.write(stdin[start : start + CHUNK])


async def attach(address: Address, path: str, closed: Callable[[ExecStream], None]) -> ExecStream:
    """Post to `path` and take over the connection. Raises `ConnectionError` when refused."""
    reader, writer = await address.connect()
    request = (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(ATTACHED)}\r\n\r\n"
    )
    try:
        writer.write(request.encode() + ATTACHED)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status not in (101, 200):
            reason = head.split(b"\r\n", 1)[0].decode(errors="replace")
            raise ConnectionError(f"the engine refused to start a program: {reason}")
    except BaseException as error:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        if isinstance(error, asyncio.IncompleteReadError):
            raise ConnectionError("the engine closed the connection") from None
        raise
    return ExecStream(reader, writer, closed)
