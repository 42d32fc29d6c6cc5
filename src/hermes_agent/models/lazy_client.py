"""The connection to one model: a wire format, imported and opened when it is first needed."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from importlib import import_module
from typing import cast

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import Chunk, Request
from hermes_agent.core.protocols import Clock, Model
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient

WIRES: dict[str, str] = {
    "anthropic": "hermes_agent.models.wires.anthropic",
    "openai-chat": "hermes_agent.models.wires.openai.chat",
    "openai-responses": "hermes_agent.models.wires.openai.responses",
    "gemini": "hermes_agent.models.wires.gemini",
    "bedrock": "hermes_agent.models.wires.bedrock.client",
    "mistral": "hermes_agent.models.wires.mistral",
    "local": "hermes_agent.models.local.model",
}
"""The wire formats; one that is not used is not imported."""


IDLE_SECONDS = 30.0
"""Services close a connection that nobody uses after a minute or so; ours is closed before."""


class LazyWireClient:
    """The speaker of an endpoint, made when it is first needed. One that the settings no longer
    name is closed as soon as no call uses it."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self.endpoint = endpoint
        self.is_retired = False
        self._clock = clock
        self._client: WireClient | None = None
        self._calls = 0
        self._used: float | None = None
        """When the last call ended, as long as something may be open since."""

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def client(self) -> WireClient:
        if self._client is None:
            module = import_module(WIRES[self.endpoint.service.wire])
            opener = cast(Callable[[Endpoint], WireClient], module.open_client)
            self._client = opener(self.endpoint)
        return self._client

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        try:
            chunks = self.client().stream(request, credential)
        except UsageError as error:  # what it needs is not installed, or its file is gone
            raise ModelError("bad_request", error.message, error.hint) from None
        self._calls += 1
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self._calls -= 1
            self._used = self._clock()
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
            if self.is_retired and self.is_idle:
                await self.close()

    async def rest(self) -> None:
        """Close the connections where no call has used them for a while. The speaker stays, with
        what it has learned of its service, and connects again when it is next asked."""
        if self._used is None or self._calls or self._clock() < self._used + IDLE_SECONDS:
            return
        self._used = None
        if self._client is not None and self.endpoint.service.wire != "local":
            # One inside this machine has no connections, and takes long to load.
            await self._client.close()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class Scripted:
    """A scripted model, which knows no credentials."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def stream(
        self,
        request: Request,
        credential: Credential,  # noqa: ARG002 - the protocol's
    ) -> AsyncIterator[Chunk]:
        return self.model.stream(request)

    async def close(self) -> None:
        await self.model.close()
