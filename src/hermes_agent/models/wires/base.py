"""The seam between routing and the wire formats. Each format is a module with `open_client`."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from hermes_agent.core.messages import Chunk, ModelFacts, Request
from hermes_agent.core.settings.services import ModelService


class Credential(Struct, frozen=True):
    """What a service knows us by. Never shown: `label` says where it came from."""

    secret: str = ""
    id: str = ""
    """The public half, where requests are signed."""
    session: str = ""
    """The token of a temporary credential."""
    label: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.label!r})"

    __str__ = __repr__


class Endpoint(Struct, frozen=True):
    """One model of one service: all that a wire format needs in order to speak to it."""

    name: str
    """As people write it: `service/model`."""
    model: str
    """As the service calls it."""
    service: ModelService
    url: str
    """The service's, or the one that its variable names, without a slash at the end."""
    facts: ModelFacts
    silence: float
    """Give up when nothing arrives for so many seconds."""
    patience: float = 600.0
    """Give up when nothing of the answer arrives for so long, whatever else does."""

    def has(self, quirk: str) -> bool:
        return quirk in self.service.quirks


class WireClient(Protocol):
    """Speaks one wire format with one endpoint. One try: whoever calls it retries and routes."""

    def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        """`Delta` and `Thinking` as they arrive, then one `Reply`. Raises `ModelError`, nothing
        else; what it says holds no secret."""
        ...

    async def close(self) -> None: ...
