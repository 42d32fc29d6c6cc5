"""A program that a sandbox's door has started, as the host sees it."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from typing import Self

from hermes_agent.terminals.sandbox.pipes import ReadEnd, WriteEnd

FRAME = struct.Struct("<I")
NOT_FOUND = 127


class Busy(Exception):
    """The sandbox has as many processes as it may."""


class SandboxProcess:
    """Its pipes and the line to the door that tells how it ends."""

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
        """Have the door start a program. Raises `Busy`, or `ConnectionError` when the door is
        gone."""
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
            if message[sent:]:  # the program may have ended meanwhile, and the door have hung up
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
        """See when it ends: its output is over then, whoever else holds the pipe."""
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
