"""A program in a sandbox as the host sees it: its pipes, without blocking, and how it ends."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from typing import Self

FRAME = struct.Struct("<I")
NOT_FOUND = 127
WHOLE_PIPE = 1 << 20
"""The most that a pipe holds."""


class _End:
    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self._file: int | None = file
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            if self._waiting is not None:
                self._forget(file, self._waiting.get_loop())
                _settle(self._waiting)
            os.close(file)

    def _watch(self, file: int, ready: asyncio.Future[None]) -> None:
        raise NotImplementedError

    def _forget(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        raise NotImplementedError

    async def _wait(self, file: int) -> None:
        loop = asyncio.get_running_loop()
        ready = self._waiting = loop.create_future()
        self._watch(file, ready)
        try:
            await ready
        finally:
            self._waiting = None
            if self._file is not None and not loop.is_closed():
                self._forget(file, loop)


class ReadEnd(_End):
    def __init__(self, file: int) -> None:
        super().__init__(file)
        self._ended = False

    async def some(self) -> bytes:
        """Data as soon as there is any; b"" at the end, or once closed."""
        while self._file is not None:
            try:
                return os.read(self._file, 65536)
            except BlockingIOError:
                if self._ended:
                    break
                await self._wait(self._file)
        return b""

    def end(self) -> None:
        """The program has ended, though its children may hold the pipe."""
        self._ended = True
        if self._waiting is not None:
            _settle(self._waiting)

    def rest(self) -> bytes:
        """What is in the pipe now."""
        try:
            return os.read(self._file, WHOLE_PIPE) if self._file is not None else b""
        except BlockingIOError:
            return b""

    def _watch(self, file: int, ready: asyncio.Future[None]) -> None:
        ready.get_loop().add_reader(file, _settle, ready)

    def _forget(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(file)


class WriteEnd(_End):
    async def all(self, data: bytes) -> None:
        """Raises `ConnectionError` when nobody reads any more."""
        view = memoryview(data)
        while view:
            if self._file is None:
                raise ConnectionResetError("the program was released")
            try:
                view = view[os.write(self._file, view) :]
            except BlockingIOError:
                await self._wait(self._file)

    def _watch(self, file: int, ready: asyncio.Future[None]) -> None:
        ready.get_loop().add_writer(file, _settle, ready)

    def _forget(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_writer(file)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class Busy(Exception):
    """The sandbox has reached its limit of processes."""


class SandboxProcess:
    """Its pipes and the connection that reports how it ends."""

    def __init__(self, into: WriteEnd, out: ReadEnd, err: ReadEnd, host: socket.socket) -> None:
        self.into = into
        self.out = out
        self.err = err
        self.trouble = b""
        """Why it could not be started."""
        self.closed = False
        self._host = host
        self._heard = b""
        self._watched = False

    @classmethod
    async def ask(cls, host: socket.socket, argv: Sequence[str]) -> Self:
        """Start a program. Raises `Busy`, or `ConnectionError` when the sandbox is gone."""
        far_in, into = os.pipe()
        out, far_out = os.pipe()
        err, far_err = os.pipe()
        program = cls(WriteEnd(into), ReadEnd(out), ReadEnd(err), host)
        body = b"\0".join(os.fsencode(word) for word in argv)
        message = FRAME.pack(len(body)) + body
        try:
            try:
                sent = socket.send_fds(host, [message], [far_in, far_out, far_err])
            finally:
                for file in (far_in, far_out, far_err):
                    os.close(file)
            if message[sent:]:  # the program may have ended meanwhile
                await asyncio.get_running_loop().sock_sendall(host, message[sent:])
            word, _, reason = (await program._line()).partition(" ")
            if word == "busy":
                raise Busy(reason)
        except BaseException:
            await program.close()
            raise
        if word == "failed":
            program.trouble = os.fsencode(f"{argv[0]}: {reason}\n")
        return program

    async def code(self) -> int:
        """Wait until it has ended. Raises `ConnectionError` when the sandbox dies with it."""
        if self.trouble:
            return NOT_FOUND
        return int((await self._line()).partition(" ")[2])

    def watch(self) -> None:
        """Notice when it ends: its output is over then, even if a child holds the pipe."""
        self._watched = True
        asyncio.get_running_loop().add_reader(self._host, self._over)

    async def write(self, data: bytes) -> None:
        await self.into.all(data)

    async def read(self) -> bytes:
        return await self.out.some()

    async def close(self) -> None:
        self.closed = True
        self._unwatch()
        for end in (self.into, self.out, self.err):
            end.close()
        self._host.close()

    def _over(self) -> None:
        self._unwatch()
        self.out.end()

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            asyncio.get_running_loop().remove_reader(self._host)

    async def _line(self) -> str:
        while b"\n" not in self._heard:
            more = await asyncio.get_running_loop().sock_recv(self._host, 4096)
            if not more:
                raise ConnectionResetError("the sandbox has ended")
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


async def feed(end: WriteEnd, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it need not read all of it
        await end.all(data)
    end.close()


async def collect(end: ReadEnd, into: bytearray) -> None:
    while data := await end.some():
        into += data
