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
"""The module of each wire format, imported on first use."""

IDLE_SECONDS = 30.0
"""Services close an idle connection after a minute or so; we close it before."""


class LazyWireClient:
    """The client of an endpoint, opened on first use. A retired one, which the settings no longer
    name, is closed as soon as no call uses it."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self.endpoint = endpoint
        self.is_retired = False
        self._clock = clock
        self._client: WireClient | None = None
        self._calls = 0
        self._used: float | None = None
        """When the last call ended, while a connection may still be open."""

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
        except UsageError as error:  # a missing package or model file
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
        """Close idle connections. The client stays, with what it has learned about its service,
        and reconnects on the next call."""
        if self._used is None or self._calls or self._clock() < self._used + IDLE_SECONDS:
            return
        self._used = None
        if self._client is not None and self.endpoint.service.wire != "local":
            # A local model has no connections, and takes long to load.
            await self._client.close()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class Scripted:
    """A model inside this process as a wire client; it needs no credential."""

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
