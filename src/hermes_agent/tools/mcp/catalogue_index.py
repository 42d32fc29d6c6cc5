"""All tools of all servers that are known, by the names that models call them by."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.core.tools import ToolListing
from hermes_agent.tools.mcp.catalogue_cache import (
    GET_PROMPT,
    READ_RESOURCE,
    ServerFacts,
    first_line,
)
from hermes_agent.tools.mcp.names import unique_names

Known = Mapping[str, tuple[McpServerSettings, ServerFacts]]

RESOURCES = "Read a resource of this server by its uri; without one, list them."
PROMPTS = "Get a prompt of this server by its name; without one, list them."


class _Row(Struct, frozen=True):
    listed: ToolListing
    text: str
    """What is searched: name and description in small letters."""


class Index:
    def __init__(self) -> None:
        self._made_of: dict[str, tuple[McpServerSettings, ServerFacts]] = {}
        self._rows: list[_Row] = []
        self.named: Mapping[str, tuple[str, str]] = {}
        """Server and the server's own name for it."""

    def update(self, known: Known) -> None:
        """Make it anew where something has changed; the facts are the same objects until then."""
        if known.keys() == self._made_of.keys() and all(
            one[1] is self._made_of[name][1] and one[0] == self._made_of[name][0]
            for name, one in known.items()
        ):
            return
        self._made_of = dict(known)
        self.named = unique_names(
            (server, tool)
            for server, (settings, facts) in known.items()
            for tool in facts.offered(settings)
        )
        about = {
            server: {tool.name: tool.description for tool in facts.tools}
            for server, (_, facts) in known.items()
        }
        self._rows = []
        for name, (server, tool) in sorted(self.named.items()):
            text = about[server].get(tool) or described(tool)
            listed = ToolListing(name, first_line(text))
            self._rows.append(_Row(listed, f"{name} {text}".lower()))

    def search(self, query: str) -> Sequence[ToolListing]:
        """Those that fit all words, first those that have them in their name."""
        words = query.lower().split()
        found = [row for row in self._rows if all(word in row.text for word in words)]

        def elsewhere(row: _Row) -> int:
            return sum(word not in row.listed.name.lower() for word in words)

        return [row.listed for row in sorted(found, key=elsewhere)]


def described(tool: str) -> str:
    """What stands for resources and prompts."""
    return {READ_RESOURCE: RESOURCES, GET_PROMPT: PROMPTS}.get(tool, "")
