"""The interface between routing and wire formats. Each format is a module with `open_client`."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from hermes_agent.core.messages import Chunk, ModelFacts, Request
from hermes_agent.core.settings.services import ModelService


class Credential(Struct, frozen=True):
    """A key of a service. Never shown: `label` says where it came from."""

    secret: str = ""
    id: str = ""
    """The public half, for signed requests; an account, for some logins."""
    session: str = ""
    """The token of a temporary credential."""
    label: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.label!r})"

    __str__ = __repr__


class Endpoint(Struct, frozen=True):
    """One model of one service: everything a wire format needs to call it."""

    name: str
    """As people write it: `service/model`."""
    model: str
    """As the service calls it."""
    service: ModelService
    url: str
    """Without a trailing slash."""
    facts: ModelFacts
    silence: float
    """Give up after so many seconds without any data."""
    first: float = 0.0
    """Give up if an answer has not begun after so many seconds; 0 means `silence`."""
    patience: float = 600.0
    """Give up after so many seconds without progress, even if keep-alives arrive."""

    def has(self, quirk: str) -> bool:
        return quirk in self.service.quirks


class WireClient(Protocol):
    """Speaks one wire format to one endpoint. One try: retries are up to the caller."""

    def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        """`Delta` and `Thinking` as they arrive, then one `Reply`. Raises only `ModelError`, whose
        text holds no secret."""
        ...

    async def close(self) -> None: ...
