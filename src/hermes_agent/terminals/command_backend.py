"""What a terminal needs of the spool of its commands, on whatever machine that is."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import ShellCommand

Why = Literal["timeout", "stopped", "flood"]


class TerminalUnreachable(ToolError):
    """The machine cannot be reached, and the request was not sent."""


class UnknownCommand(ToolError):
    """The terminal has nothing of this command."""


class CommandStatus(NamedTuple):
    """The state of a command, read from its files at one time."""

    known: bool = False
    code: int | None = None
    kind: str = ""
    """How it was claimed: fg, bg, void (never to run); empty when unclaimed."""
    start: float = 0.0
    """When it was claimed, by the clock of that machine."""
    seconds: float = 0.0
    """How long it has run, or ran."""
    held: bool = False
    """Whether the process that runs it lives."""
    why: str = ""
    """Why it was stopped, when it was."""
    in_hand: bool = False
    """Whether the shell runs it, or ran it last."""
    daemon: bool = False
    """Whether the shell daemon, or its shell, lives."""
    begun: bool = False
    """Whether its output file exists."""
    size: int = 0
    """Bytes written so far, while it runs."""

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
        """The path of a command's output."""
        ...

    def pause(self, looks: int, *, news: bool) -> float:
        """How long to wait for news of a command before polling it."""
        ...

    async def begin(self, command: ShellCommand) -> CommandStatus:
        """Submit it once: to the shell, or to a process of its own in the background."""
        ...

    async def look(self, id: str) -> CommandStatus: ...

    async def wait(self, id: str, seconds: float) -> CommandStatus:
        """Its status once it has ended or the time is over."""
        ...

    async def report(self, id: str, limit: int) -> CommandReport: ...

    async def news(self, id: str, places: Sequence[int]) -> Sequence[tuple[int, bytes]]:
        """New output beyond these offsets: where it starts, and the bytes. A flood is skipped."""
        ...

    async def background(self) -> Sequence[tuple[str, CommandReport]]:
        """All background commands, without their output."""
        ...

    async def stop(self, id: str, why: Why) -> None:
        """Begin to stop it; waiting callers see it end."""
        ...

    async def send(self, id: str, data: bytes) -> bool:
        """Write to its input. False: nobody reads it."""
        ...

    async def void(self, id: str) -> bool:
        """Claim it so that it never runs. False: it was already claimed."""
        ...

    async def remove(self, id: str) -> None: ...

    async def trusted(self) -> bool:
        """Whether a command missing from the spool has certainly not run: not after a crash of the
        machine or the loss of the folder."""
        ...

    async def where(self) -> str: ...

    async def unconfined(self, kind: Confinement, /) -> str:
        """Why commands cannot be confined so there; empty if they can."""
        ...

    async def close(self) -> None:
        """Disconnect; an idle shell is ended."""
        ...

    async def destroy(self) -> None: ...
