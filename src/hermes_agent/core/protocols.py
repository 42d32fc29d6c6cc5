"""Models and terminals as the agent uses them. Implementations depend only on `core`."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from hermes_agent.core.effects import Confinement, OutsideCalls
from hermes_agent.core.messages import Chunk, Media, ModelFacts, Request


class Model(Protocol):
    """One model of one provider, ready to answer."""

    @property
    def name(self) -> str: ...

    @property
    def facts(self) -> ModelFacts: ...

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        """Every model that may answer, including this one."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Pieces as they arrive, then one `Reply`. Raises only `ModelError`, when the call finally
        fails; retries are part of the stream."""
        ...

    async def close(self) -> None: ...


class ShellCommand(Struct, frozen=True):
    """A shell command. A terminal runs an id at most once, however often it is submitted. Without a
    `timeout`, a foreground command gets the terminal's default and a background one has none."""

    id: str
    text: str
    timeout: float | None = None
    background: bool = False
    secrets: dict[str, str] = {}
    """Variables for this command only; never left in a file or a later command."""
    confinement: Confinement = "none"
    outside: OutsideCalls | None = None
    """What it may call outside of where it is confined."""


class CommandState(Struct, frozen=True):
    """The current state of a command. Output beyond the terminal's limit is cut in the middle;
    `stdout_size` and `stderr_size` are the full sizes, and `spool` has the whole output."""

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
    """Absolute, on the terminal's machine."""
    size: int
    kind: Literal["file", "folder", "other"]
    modified: float = 0.0


class SearchMatch(Struct, frozen=True):
    path: str
    line: int
    text: str


class Terminal(Protocol):
    """Runs commands and accesses files somewhere. Relative paths start at `workspace`."""

    @property
    def workspace(self) -> str: ...

    async def run(
        self, command: ShellCommand, output: Callable[[str], None] | None = None
    ) -> CommandState:
        """Run it in the persistent shell and wait until it ends or, in the background, has started.
        Cancelling the wait stops the command."""
        ...

    async def recover(self, command: ShellCommand) -> CommandState | Literal["not-run"] | None:
        """After a restart: wait for a command that the shell daemon still runs and return its
        state; `not-run` if it never started; None if nobody can know."""
        ...

    async def follow(
        self, id: str, *, wait: float = 0.0, output: Callable[[str], None] | None = None
    ) -> CommandState:
        """The state of a command, after waiting up to `wait` seconds for it to end."""
        ...

    async def commands(self) -> Sequence[CommandState]:
        """This terminal's background commands, newest first, without output."""
        ...

    async def stop(self, id: str) -> CommandState: ...

    async def send(self, id: str, text: str) -> None:
        """Write to the standard input of a background command."""
        ...

    async def forget(self, id: str) -> None:
        """Remove what is stored of an ended command whose result has been read."""
        ...

    async def read(self, path: str) -> bytes:
        """An absolute path is one that `resolve` returned: a link in it is an error, so that nobody
        can put one there in between. The same is true of `write`."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file atomically; creates missing folders."""
        ...

    async def stat(self, path: str) -> FileFacts | None: ...

    async def resolve(self, path: str) -> str:
        """The absolute path with `..`, `~` and links resolved, whether it exists or not."""
        ...

    async def where(self) -> str:
        """The shell's current directory."""
        ...

    async def unconfined(self, kind: Confinement = "read-only") -> str:
        """Why the kernel there cannot confine commands so; empty if it can."""
        ...

    async def trace(self, paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Resolve absolute paths and globs: globs expanded as bash does, links followed. A missing
        path, or a glob without matches, resolves to itself with the links of its existing part
        followed. A glob with more than a thousand matches resolves to nothing."""
        ...

    async def find(self, path: str, pattern: str, limit: int) -> Sequence[FileFacts]:
        """Files below `path` whose name or relative path matches the glob, newest first."""
        ...

    async def grep(self, path: str, pattern: str, files: str, limit: int) -> Sequence[SearchMatch]:
        """Lines that match a regular expression, in files below `path` that match a glob."""
        ...

    async def close(self) -> None:
        """Disconnect. Running commands continue under the shell daemon; an idle shell is ended, and
        a machine that can hibernate does."""
        ...

    def leave(self) -> None:
        """This process is exiting: from now on, cancelling a wait leaves its command running."""
        ...

    async def destroy(self) -> None:
        """Kill everything that was started here and remove what was created for the session."""
        ...


class MediaModels(Protocol):
    """Models for pictures and sound, as the settings choose them. A `HermesError` says what is not
    configured."""

    async def draw(self, prompt: str, size: str) -> Media: ...

    async def speak(self, text: str) -> Media | None:
        """None if nothing in the text can be spoken."""
        ...

    async def transcribe(self, sound: Media) -> str: ...


class Clock(Protocol):
    def __call__(self) -> float:
        """Seconds since the epoch."""
        ...
