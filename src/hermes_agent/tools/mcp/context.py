"""What connecting to a server takes, and where its files are."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import Clock
from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache

UNREADABLE = -32_098
"""The code of our own error for an answer that is no valid text."""


class McpContext(Struct, frozen=True):
    folder: Path
    """The home."""
    cache: CatalogueCache
    secret: Callable[[str], str]
    environ: Mapping[str, str]
    clock: Clock
    learn: Callable[[str, str], None] = lambda _label, _secret: None
    """Called with every token, so that it is redacted everywhere."""

    def token_file(self, name: str) -> Path:
        return self.folder / "credentials" / self.cache.path(name, ".mcp").name


class NotDone(Exception):
    """The request was certainly not carried out, so it may be retried on a new connection. `told`
    is the error otherwise."""

    def __init__(self, told: ToolError) -> None:
        super().__init__(told.message)
        self.told = told
