"""What hosted sandboxes have in common: a record of which sandbox belongs to a session, exact
quoting of arguments, and a program's output as a stream."""

import asyncio
import hashlib
import logging
import os
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import write_durably
from hermes_agent.terminals.transport import OpenStreams

S = TypeVar("S")

log = logging.getLogger("hermes.terminals")


class SandboxRecord(Struct, frozen=True):
    """What is known of the session's sandbox without asking the service."""

    id: str = ""
    """The service's id for it; empty when it is saved as an image or was never created."""
    made: int = 0
    """How many were created for this session; makes a repeated request recognisable."""
    image: str = ""
    """The image with its files while it does not exist."""
    network: bool = False


class SandboxRecords:
    """The record, in a file of the session's folder. A crash leaves the old one or the new."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._path = folder / f"{kind}.json"

    def read(self) -> SandboxRecord:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SandboxRecord)
        except FileNotFoundError:
            return SandboxRecord()

    def write(self, note: SandboxRecord) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(self._path, msgspec.json.encode(note))

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def name_of(session: str) -> str:
    """The name of a session's sandbox at a service."""
    if re.fullmatch(r"[a-z0-9-]{1,48}", session):
        return f"hermes-{session}"
    return f"hermes-{hashlib.sha256(session.encode()).hexdigest()[:32]}"


@contextmanager
def reached(service: str) -> Iterator[None]:
    """Turns a lost connection into a `HermesError` with a hint."""
    try:
        yield
    except ConnectionError as error:
        hint = f"check that this machine can reach {service}, and try again"
        raise HermesError(str(error), hint) from error


def plain(argv: Sequence[str]) -> tuple[str, ...]:
    """Arguments for a service that takes text only. Those that are not text (a file name may be any
    bytes) are escaped for bash."""
    if all(_is_text(word) for word in argv):
        return tuple(argv)
    return ("bash", "-c", f"exec {words(argv)}")


def words(argv: Sequence[str]) -> str:
    """Arguments as bash text."""
    return " ".join(shlex.quote(word) if _is_text(word) else _spelled(word) for word in argv)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _spelled(word: str) -> str:
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(word)) + "'"


class StreamChannel:
    """A stream to a program whose output arrives in pieces."""

    def __init__(
        self,
        output: AsyncIterator[bytes],
        send: Callable[[bytes], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """`output` ends where the program or the way to it does and does not raise
        `ConnectionError`s but ends; `send` raises them; `end` closes the program's input."""
        self._send, self._end = send, end
        self._sending = asyncio.Lock()  # two pieces sent at once could arrive in the wrong order
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended = False
        self._pump = asyncio.create_task(self._carry(output))

    async def _carry(self, output: AsyncIterator[bytes]) -> None:
        try:
            async for piece in output:
                if piece:
                    self._pieces.put_nowait(piece)
        except ConnectionError as error:
            log.info("the output of a program broke off: %s", error)
        finally:
            self.ended = True
            self._pieces.put_nowait(b"")

    async def write(self, data: bytes) -> None:
        if self.ended:
            raise ConnectionError("the program has ended")
        async with self._sending:
            await self._send(data)

    async def read(self) -> bytes:
        piece = await self._pieces.get()
        if not piece:
            self._pieces.put_nowait(b"")  # whoever reads again sees the end again
        return piece

    async def close(self) -> None:
        if not self.ended:
            try:
                async with self._sending:
                    await self._end()
            except ConnectionError as error:
                log.info("the input of a program could not be closed: %s", error)
        await self.cut()

    async def cut(self) -> None:
        """Drop the connection."""
        self._pump.cancel()
        await asyncio.wait([self._pump])


class HostedTransport(Generic[S]):
    """The sandbox of one session at a service. A service says how to get it (`_acquire`), how to
    keep it while it is used (`_keep`), and what its SDK's errors mean (`_sdk_errors`)."""

    service: str

    def __init__(self, session: str, folder: Path, every: float) -> None:
        """`every`: seconds between two rounds of `_keep`."""
        self._every = every
        self._name = name_of(session)
        self._records = SandboxRecords(folder, self.service.lower())
        self._lock = asyncio.Lock()
        self._sandbox: S | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._streams: OpenStreams[StreamChannel] = OpenStreams()

    async def ready(self) -> None:
        async with self._lock:
            if self._sandbox is None:
                with reached(self.service), self._sdk_errors():
                    self._sandbox = await self._acquire()
                self._keeping = asyncio.create_task(self._keep(self._sandbox))

    async def _acquire(self) -> S:
        """The session's sandbox, awake: the one noted, one that a crash left unnoted, or new."""
        raise NotImplementedError

    async def _keep(self, sandbox: S) -> None:
        raise NotImplementedError

    def _sdk_errors(self) -> AbstractContextManager[None]:
        """The SDK's errors as ours."""
        raise NotImplementedError

    def _current(self) -> S:
        if self._sandbox is None:
            raise ConnectionError(f"the sandbox at {self.service} is not awake")
        return self._sandbox

    async def _disconnect(self) -> None:
        self._sandbox = None
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        await self._streams.cut()
