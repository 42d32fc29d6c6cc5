"""The way to a machine: start a program there and exchange bytes with it. Everything else that a
terminal does is the same for every machine and built on this."""

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
        """Some bytes of its standard output as soon as there are any; b"" when it has ended or
        the way to it is cut."""
        ...

    async def close(self) -> None:
        """Let go of it. It sees the end of its input; whether it ends is its own matter."""
        ...


class Transport(Protocol):
    """One place of one session. The place is found again by a new transport with the same
    arguments, also in another process: after a crash nothing is made twice and nothing leaks."""

    async def ready(self) -> None:
        """See that the place is there: connect, create, wake. Quick when it is. Raises
        `HermesError` with a hint when it cannot be had."""
        ...

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        """Run a program to its end. Raises `ConnectionError` when the way is cut meanwhile."""
        ...

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        """Start a program and stay connected to it; None where the place has no such way, and
        everything is done by calls."""
        ...

    async def rest(self) -> None:
        """Nothing will be wanted for a while: hibernate, if the place can and keeps its files."""
        ...

    async def close(self) -> None:
        """Drop connections. The place and what runs there stay."""
        ...

    async def destroy(self) -> None:
        """Remove what was made for the session. A machine that was there before stays."""
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
