"""The connection to one model: a wire format, imported and opened when it is first needed."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from importlib import import_module
from typing import cast

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import Chunk, Request
from hermes_agent.core.protocols import Model
from hermes_agent.models.speaking import Credential, Endpoint, Speaker

WIRES: dict[str, str] = {
    "anthropic": "hermes_agent.models.anthropic",
    "openai-chat": "hermes_agent.models.openai_chat",
    "openai-responses": "hermes_agent.models.openai_responses",
    "gemini": "hermes_agent.models.gemini",
    "bedrock": "hermes_agent.models.bedrock",
    "mistral": "hermes_agent.models.mistral",
    "local": "hermes_agent.models.local",
}
"""The wire formats; one that is not used is not imported."""


class Client:
    """The speaker of an endpoint, made when it is first needed. One that the settings no longer
    name is closed as soon as no call uses it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_retired = False
        self._speaker: Speaker | None = None
        self._calls = 0

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def speaker(self) -> Speaker:
        if self._speaker is None:
            module = import_module(WIRES[self.endpoint.service.wire])
            opener = cast(Callable[[Endpoint], Speaker], module.open_speaker)
            self._speaker = opener(self.endpoint)
        return self._speaker

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        try:
            chunks = self.speaker().stream(request, credential)
        except UsageError as error:  # what it needs is not installed, or its file is gone
            raise ModelError("bad_request", error.message, error.hint) from None
        self._calls += 1
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self._calls -= 1
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
            if self.is_retired and self.is_idle:
                await self.close()

    async def close(self) -> None:
        speaker, self._speaker = self._speaker, None
        if speaker is not None:
            await speaker.close()


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
