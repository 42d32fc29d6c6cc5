"""Stand-ins for a model or a terminal that cannot be opened; using one fails with the reason."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, NoReturn

from hermes_agent.core.errors import HermesError, ModelError, ToolError
from hermes_agent.core.messages import Chunk, ModelFacts, Rates, Request
from hermes_agent.core.protocols import Terminal


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


def _passed_on(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(self: "UnavailableTerminal", *given: object, **named: object) -> Any:
        terminal = self.again()
        if isinstance(terminal, UnavailableTerminal):
            raise ToolError(terminal.error.message, terminal.error.hint)
        return await getattr(terminal, name)(*given, **named)

    return call


class UnavailableTerminal:
    """A call that needs it fails with the reason before anything runs; what an earlier call did is
    known once it can be opened. The session's other terminals keep working."""

    def __init__(
        self, workspace: str, error: HermesError, again: "Callable[[], Terminal] | None" = None
    ) -> None:
        self.workspace = workspace
        self.error = error
        self.again = again or (lambda: self)

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ToolError(self.error.message, self.error.hint)

    # What has begun is found again when it can be opened; the next turn may begin something new.
    recover, follow, stop = map(_passed_on, ("recover", "follow", "stop"))
    forget, read, write = map(_passed_on, ("forget", "read", "write"))
    run = commands = send = stat = resolve = where = trace = find = grep = destroy = _refuse
    unconfined = _refuse

    async def close(self) -> None:
        """Nothing was opened."""

    def leave(self) -> None:
        """Nothing was opened."""
