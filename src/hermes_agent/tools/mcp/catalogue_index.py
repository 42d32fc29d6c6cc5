"""All known tools of all servers, by the names that models call them by: `server__tool`, unique
over all servers."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.core.tools import ToolListing
from hermes_agent.tools.mcp.catalogue_cache import (
    GET_PROMPT,
    READ_RESOURCE,
    ServerFacts,
    first_line,
)

Known = Mapping[str, tuple[McpServerSettings, ServerFacts]]

RESOURCES = "Read a resource of this server by its uri; without one, list them."
PROMPTS = "Get a prompt of this server by its name; without one, list them."
CHANGED = "It has changed since it was agreed to; it cannot be called until a person agrees."
MAX_NAME = 64
"""The limit of all model services."""
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 8


class _Row(Struct, frozen=True):
    listed: ToolListing
    text: str
    """Searched: name and description in lower case."""


class Index:
    def __init__(self) -> None:
        self._made_of: dict[str, tuple[McpServerSettings, ServerFacts]] = {}
        self._rows: list[_Row] = []
        self.named: Mapping[str, tuple[str, str]] = {}
        """Server and the server's name for the tool."""

    def update(self, known: Known) -> None:
        """Rebuild it when something has changed; the facts are the same objects until then."""
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
            | dict.fromkeys(facts.changed(), CHANGED)
            for server, (_, facts) in known.items()
        }
        self._rows = []
        for name, (server, tool) in sorted(self.named.items()):
            text = about[server].get(tool) or described(tool)
            listed = ToolListing(name, first_line(text))
            self._rows.append(_Row(listed, f"{name} {text}".lower()))

    def search(self, query: str) -> Sequence[ToolListing]:
        """Tools that match all words; matches in the name come first."""
        words = query.lower().split()
        found = [row for row in self._rows if all(word in row.text for word in words)]

        def elsewhere(row: _Row) -> int:
            return sum(word not in row.listed.name.lower() for word in words)

        return [row.listed for row in sorted(found, key=elsewhere)]


def described(tool: str) -> str:
    """The descriptions of the tools for resources and prompts."""
    return {READ_RESOURCE: RESOURCES, GET_PROMPT: PROMPTS}.get(tool, "")


def unique_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Each tool, as server and name, by a unique name. One that had to be changed and would collide
    gets a hash of itself, so that its name does not depend on other tools."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for server, tool in sorted(set(tools)):
        groups[_plain(server, tool)].append((server, tool))
    named: dict[str, tuple[str, str]] = {}
    for plain, group in groups.items():
        exact = [one for one in group if "__".join(one) == plain]
        keeper = exact[0] if len(exact) == 1 else group[0] if len(group) == 1 else None
        for one in group:
            fits = one == keeper and len(plain) <= MAX_NAME
            named[plain if fits else _marked(plain, one)] = one
    return named


def server_of(name: str, servers: Iterable[str]) -> list[str]:
    """The servers whose tool this may be."""
    return [one for one in servers if name.startswith(_plain(one, "")[: MAX_NAME - _DIGITS])]


def _plain(server: str, tool: str) -> str:
    return _ODD.sub("_", f"{server}__{tool}")


def _marked(plain: str, tool: tuple[str, str]) -> str:
    mark = sha256("\0".join(tool).encode()).hexdigest()[:_DIGITS]
    return f"{plain[: MAX_NAME - _DIGITS - 1]}_{mark}"
