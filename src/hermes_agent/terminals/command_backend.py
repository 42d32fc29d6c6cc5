"""What a terminal needs of the spool where its commands lie, on whatever machine that is."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import ShellCommand

Why = Literal["timeout", "stopped", "flood"]


class TerminalUnreachable(ToolError):
    """The place cannot be reached now, and nothing of what was asked has got there."""


class CommandStatus(NamedTuple):
    """A command as its files tell it, all read at one time."""

    known: bool = False
    """Whether its text is there."""
    code: int | None = None
    kind: str = ""
    """How it was taken to be run: fg, bg, void (by nobody, for good); empty when it was not."""
    start: float = 0.0
    """When it was taken, by the clock of that machine."""
    seconds: float = 0.0
    """How long it has run, or ran."""
    held: bool = False
    """Whether the process that runs it lives."""
    why: str = ""
    """Why it was stopped, when it was."""
    in_hand: bool = False
    """Whether the shell has it in hand, or had it last."""
    daemon: bool = False
    """Whether the keeper of the shell, or the shell, lives."""
    begun: bool = False
    """Whether it has got so far that its output has a place."""
    size: int = 0
    """Bytes that it has written so far; only looked at while it runs."""

    @property
    def phase(self) -> Literal["running", "exited", "timeout", "stopped", "lost"]:
        if self.code is None:
            served = self.daemon and (not self.kind or self.in_hand)
            return "running" if self.held or served else "lost"
        match self.why:
            case "timeout":
                return "timeout"
            case "stopped" | "flood":
                return "stopped"
            case _:
                return "exited"


class OutputExcerpt(NamedTuple):
    """Output, or its two ends when it is long."""

    size: int = 0
    head: bytes = b""
    tail: bytes | None = None


class CommandReport(NamedTuple):
    facts: CommandStatus
    text: str
    stdout: OutputExcerpt
    stderr: OutputExcerpt


class CommandBackend(Protocol):
    """A spool. Methods may raise `TerminalUnreachable`, or `ConnectionError` when the connection
    broke during the call; all but `send` may then be called again."""

    def path(self, id: str) -> str:
        """Where the output of a command lies."""
        ...

    def pause(self, looks: int, *, news: bool) -> float:
        """How long to wait for the end of a command before looking for oneself."""
        ...

    async def begin(self, command: ShellCommand) -> CommandStatus:
        """See that it is handed in, once: to the shell, or to one of its own in the background."""
        ...

    async def look(self, id: str) -> CommandStatus: ...

    async def wait(self, id: str, seconds: float) -> CommandStatus:
        """Look once it has ended or the time is over."""
        ...

    async def report(self, id: str, limit: int) -> CommandReport: ...

    async def news(self, id: str, places: Sequence[int]) -> Sequence[tuple[int, bytes]]:
        """What stdout and stderr have beyond these places: where it starts, and the bytes. A
        flood is skipped."""
        ...

    async def background(self) -> Sequence[tuple[str, CommandReport]]:
        """The background commands that there are, without their output."""
        ...

    async def stop(self, id: str, why: Why) -> None:
        """Begin to end it; who waits sees it end."""
        ...

    async def send(self, id: str, data: bytes) -> bool:
        """Write to its input. False: nobody reads it."""
        ...

    async def void(self, id: str) -> bool:
        """Claim it so that nobody runs it any more. False: someone was quicker."""
        ...

    async def remove(self, id: str) -> None: ...

    async def trusted(self) -> bool:
        """Whether what is not in the spool has not happened: not after a crash of the machine or
        the loss of the folder."""
        ...

    async def where(self) -> str: ...

    async def close(self) -> None:
        """Let go of it; the shell, which is idle, is ended."""
        ...

    async def destroy(self) -> None: ...
