"""Stand-ins for a model or a terminal that cannot be opened; using one fails with the reason."""

from collections.abc import AsyncIterator, Mapping
from typing import NoReturn

from hermes_agent.core.errors import HermesError, ModelError, ToolError
from hermes_agent.core.messages import Chunk, ModelFacts, Rates, Request


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
        raise ModelError("unreachable", self._error.message, self._error.hint)

    async def close(self) -> None:
        """Nothing was opened."""


class UnavailableTerminal:
    """A call that needs it fails with the reason before anything runs; the outcome of an earlier
    call is unknown. The session's other terminals keep working."""

    def __init__(self, workspace: str, error: HermesError) -> None:
        self.workspace = workspace
        self._error = error

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ToolError(self._error.message, self._error.hint)

    run = follow = commands = stop = send = forget = _refuse
    read = write = stat = resolve = where = trace = find = grep = destroy = recover = _refuse
    unconfined = _refuse

    async def close(self) -> None:
        """Nothing was opened."""

    def leave(self) -> None:
        """Nothing was opened."""
