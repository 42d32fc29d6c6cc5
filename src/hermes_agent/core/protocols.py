"""The seams between the folders: what the agent is handed. Implementations know only `core`."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from hermes_agent.core.messages import Chunk, ModelFacts, Request


class Model(Protocol):
    """One model of one service, ready to answer."""

    @property
    def name(self) -> str: ...

    @property
    def facts(self) -> ModelFacts: ...

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        """Every model that may come to answer, this one among them."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Pieces as they arrive and one `Reply` last. Raises `ModelError`, nothing else, when the
        call fails for good; retries are part of the stream."""
        ...

    async def close(self) -> None: ...


class ShellCommand(Struct, frozen=True):
    """One shell command. A terminal runs an id at most once, however often it is handed in.
    Without a `timeout` a foreground command has the terminal's own; background ones have none."""

    id: str
    text: str
    timeout: float | None = None
    background: bool = False
    secrets: dict[str, str] = {}
    """Variables that this command alone sees; they stay in no file and no later command."""


class CommandState(Struct, frozen=True):
    """A command as it stands. The output is cut in the middle beyond the terminal's limit;
    `stdout_size` and `stderr_size` are the true sizes and `spool` is where it lies whole."""

    id: str
    text: str
    state: Literal["running", "exited", "timeout", "stopped", "lost"]
    code: int | None = None
    stdout: str = ""
    stderr: str = ""
    stdout_size: int = 0
    stderr_size: int = 0
    seconds: float = 0.0
    background: bool = False
    spool: str = ""


class FileFacts(Struct, frozen=True):
    path: str
    """Absolute, as the terminal's machine names it."""
    size: int
    kind: Literal["file", "folder", "other"]
    modified: float = 0.0


class SearchMatch(Struct, frozen=True):
    path: str
    line: int
    text: str


class Terminal(Protocol):
    """A place where commands run and files lie. Relative paths start at `workspace`."""

    @property
    def workspace(self) -> str: ...

    async def run(
        self, command: ShellCommand, output: Callable[[str], None] | None = None
    ) -> CommandState:
        """Run it in the persistent shell and wait: until it ends, or, in the background, until it
        has started. Cancelling the wait stops the command."""
        ...

    async def recover(self, command: ShellCommand) -> CommandState | Literal["not-run"] | None:
        """After a restart: wait for the command under its keeper and give its state, say that it
        never started, or None when nobody can know."""
        ...

    async def follow(
        self, id: str, *, wait: float = 0.0, output: Callable[[str], None] | None = None
    ) -> CommandState:
        """A command as it stands, after waiting up to `wait` seconds for it to end."""
        ...

    async def commands(self) -> Sequence[CommandState]:
        """The background commands of this terminal, newest first, without their output."""
        ...

    async def stop(self, id: str) -> CommandState: ...

    async def send(self, id: str, text: str) -> None:
        """Write to the standard input of a background command."""
        ...

    async def forget(self, id: str) -> None:
        """Remove what is kept of a command that has ended; whoever asks has its result."""
        ...

    async def read(self, path: str) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file whole or not at all; folders on the way are made."""
        ...

    async def stat(self, path: str) -> FileFacts | None: ...

    async def resolve(self, path: str) -> str:
        """The absolute path with `..`, `~` and links followed, whether it exists or not."""
        ...

    async def where(self) -> str:
        """The folder where the shell stands now: what a relative path in a command starts at."""
        ...

    async def trace(self, paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Where each absolute path or glob leads: globs matched as bash does, links followed. A
        path that is not there leads to itself, with the links of what is there followed; so does a
        glob that fits nothing. One that fits more than a thousand leads nowhere."""
        ...

    async def find(self, path: str, pattern: str, limit: int) -> Sequence[FileFacts]:
        """Files below `path` whose name or relative path fits the glob, newest first."""
        ...

    async def grep(self, path: str, pattern: str, files: str, limit: int) -> Sequence[SearchMatch]:
        """Lines that fit a regular expression in the files below `path` that fit a glob."""
        ...

    async def close(self) -> None:
        """Let go. Running commands go on under the keeper; an idle shell is ended, and a place
        that can hibernate does."""
        ...

    def leave(self) -> None:
        """This process goes: what runs is left to its keeper, whoever is cancelled from now on."""
        ...

    async def destroy(self) -> None:
        """Kill all that was started here and remove what was made for the session."""
        ...


class Clock(Protocol):
    def __call__(self) -> float:
        """Seconds since the epoch."""
        ...
