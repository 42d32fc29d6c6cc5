"""What stands for a model or a terminal that cannot be had: whoever needs it is told why."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, NoReturn

from hermes_agent.core.errors import HermesError, ModelError, ToolError
from hermes_agent.core.messages import Chunk, ModelFacts, Rates, Request
from hermes_agent.core.protocols import CommandState, FileFacts, SearchMatch, ShellCommand


class UnavailableModel:
    """A turn that needs it fails with the reason."""

    def __init__(self, name: str, error: HermesError) -> None:
        self.name = name
        self.facts = ModelFacts(rates=(Rates(0.0, 0.0),))
        self._error = error

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return {self.name: self.facts}

    def stream(self, request: Request) -> AsyncIterator[Chunk]:  # noqa: ARG002 - the protocol's
        raise ModelError("bad_request", self._error.message, self._error.hint)

    async def close(self) -> None:
        """Nothing was opened."""


class UnavailableTerminal:
    """A call that needs it fails with the reason, before anything runs; what became of an earlier
    one nobody can know. The session's other terminals work on."""

    def __init__(self, workspace: str, error: HermesError) -> None:
        self.workspace = workspace
        self._error = error

    def _refuse(self) -> NoReturn:
        raise ToolError(self._error.message, self._error.hint)

    async def run(
        self,
        command: ShellCommand,  # noqa: ARG002 - here and below the protocol's
        output: Callable[[str], None] | None = None,  # noqa: ARG002
    ) -> CommandState:
        self._refuse()

    async def recover(
        self,
        command: ShellCommand,  # noqa: ARG002
    ) -> CommandState | Literal["not-run"] | None:
        return None

    async def follow(
        self,
        id: str,  # noqa: ARG002
        *,
        wait: float = 0.0,  # noqa: ARG002
        output: Callable[[str], None] | None = None,  # noqa: ARG002
    ) -> CommandState:
        self._refuse()

    async def commands(self) -> Sequence[CommandState]:
        self._refuse()

    async def stop(self, id: str) -> CommandState:  # noqa: ARG002
        self._refuse()

    async def send(self, id: str, text: str) -> None:  # noqa: ARG002
        self._refuse()

    async def forget(self, id: str) -> None:  # noqa: ARG002
        self._refuse()

    async def read(self, path: str) -> bytes:  # noqa: ARG002
        self._refuse()

    async def write(self, path: str, data: bytes) -> None:  # noqa: ARG002
        self._refuse()

    async def stat(self, path: str) -> FileFacts | None:  # noqa: ARG002
        self._refuse()

    async def resolve(self, path: str) -> str:  # noqa: ARG002
        self._refuse()

    async def where(self) -> str:
        self._refuse()

    async def trace(self, paths: Sequence[str]) -> Sequence[tuple[str, ...]]:  # noqa: ARG002
        self._refuse()

    async def find(
        self,
        path: str,  # noqa: ARG002
        pattern: str,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Sequence[FileFacts]:
        self._refuse()

    async def grep(
        self,
        path: str,  # noqa: ARG002
        pattern: str,  # noqa: ARG002
        files: str,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Sequence[SearchMatch]:
        self._refuse()

    async def close(self) -> None:
        """Nothing was opened."""

    def leave(self) -> None:
        """Nothing was opened."""

    async def destroy(self) -> None:
        self._refuse()
