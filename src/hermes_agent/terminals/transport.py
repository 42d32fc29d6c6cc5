"""How a machine is reached: start a program there and exchange bytes with it. Everything else a
terminal does is built on this, the same for every machine."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class ProcessResult(Struct, frozen=True):
    """How a program on the far side ended."""

    code: int
    stdout: bytes = b""
    stderr: bytes = b""


class ByteStream(Protocol):
    """A program that runs on the far side. Its stderr is not carried."""

    async def write(self, data: bytes) -> None:
        """Hand bytes to its standard input. Raises `ConnectionError` when it is gone."""
        ...

    async def read(self) -> bytes:
        """Some bytes of its standard output as soon as there are any; b"" when it has ended or the
        connection is lost."""
        ...

    async def close(self) -> None:
        """Disconnect. It sees the end of its input; whether it exits is up to it."""
        ...


class Transport(Protocol):
    """One machine of one session. A new transport with the same arguments finds it again, also in
    another process: after a crash nothing is created twice and nothing leaks."""

    async def ready(self) -> None:
        """Connect, create or wake the machine as needed. Raises `HermesError` with a hint when that
        fails."""
        ...

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        """Run a program to its end. Raises `ConnectionError` when the connection is lost."""
        ...

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        """Start a program and stay connected to it; None where only `call` is possible."""
        ...

    async def rest(self) -> None:
        """Hibernate, if the machine can and keeps its files."""
        ...

    async def close(self) -> None:
        """Drop connections. The machine and what runs there stay."""
        ...

    async def destroy(self) -> None:
        """Remove what was created for the session. A machine that existed before stays."""
        ...


class CuttableStream(ByteStream, Protocol):
    @property
    def ended(self) -> bool: ...

    async def cut(self) -> None:
        """Drop the connection; neither side hears the other any more."""
        ...


S = TypeVar("S", bound=CuttableStream)


class OpenStreams(Generic[S]):
    """The open streams of a transport."""

    def __init__(self) -> None:
        self._open: set[S] = set()

    def add(self, stream: S) -> S:
        self._open = {known for known in self._open if not known.ended} | {stream}
        return stream

    async def cut(self) -> None:
        streams, self._open = self._open, set()
        for stream in streams:
            await stream.cut()
