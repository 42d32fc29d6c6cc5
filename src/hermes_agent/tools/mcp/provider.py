"""The servers of the settings as one source of tools. A server is connected when it is needed. What
it offers is cached: a search starts only servers that were never connected."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.core.tools import Tool, ToolListing
from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache, ServerFacts, first_line
from hermes_agent.tools.mcp.catalogue_index import Index, server_of
from hermes_agent.tools.mcp.connection_pool import McpConnectionPool
from hermes_agent.tools.mcp.context import McpContext
from hermes_agent.tools.mcp.tool_adapter import make_tool

SEARCH_SECONDS = 20.0
"""How long a search waits for new servers."""
ABOUT_CHARS = 1_500
NAME_CHARS = 40
TROUBLE_CHARS = 400
TROUBLES = 5
"""Unreachable servers that are listed one by one."""


class Servers:
    def __init__(
        self,
        settings: Callable[[], Mapping[str, McpServerSettings]],
        folder: Path,
        secret: Callable[[str], str],
        environ: Mapping[str, str],
        clock: Clock,
        learn: Callable[[str, str], None] = lambda _label, _secret: None,
    ) -> None:
        self._settings = settings
        self._cache = CatalogueCache(folder / "mcp")
        self.world = McpContext(folder, self._cache, secret, environ, clock, learn)
        self._links = McpConnectionPool(self._enabled, self.world)
        self._index = Index()

    def about(self) -> str:
        names = list(self._enabled())
        if not names:
            return ""
        shown: list[str] = []
        room = ABOUT_CHARS
        for name in names:
            room -= min(len(name), NAME_CHARS) + 2
            if room < 0:
                break
            shown.append(first_line(name, NAME_CHARS))
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        return (
            f"MCP servers: {', '.join(shown)}{more}: "
            "find_tools searches their tools, use_tool calls one."
        )

    async def search(self, query: str) -> Sequence[ToolListing]:
        """Tools of known servers, and of new ones, which are started now. Servers that cannot be
        reached come first."""
        unseen = self._unseen()
        if unseen:
            tasks = [asyncio.create_task(self._try(name)) for name in unseen]
            await asyncio.wait(tasks, timeout=SEARCH_SECONDS)
            for task in tasks:
                task.cancel()  # the server keeps starting; the next search may find it
        return [*self._missing(), *self._indexed().search(query)]

    async def find(self, name: str) -> Tool | None:
        tool = self._lookup(name)
        if tool is not None:
            return tool
        for server in server_of(name, self._enabled()):
            if not self.connected(server):  # its cache may be stale
                await self._links.connect(server)
                if (tool := self._lookup(name)) is not None:
                    return tool
        return None

    async def meet(self, name: str) -> ServerFacts:
        """Connect to a server and return what it offers."""
        await self._links.connect(name)
        facts = self.known(name)
        if facts is None:
            raise ToolError(f"{name} was changed while it started", retry="same")
        return facts

    def known(self, name: str) -> ServerFacts | None:
        """The cached facts of a server; makes no connection."""
        settings = self._enabled().get(name)
        return self._cache.get(name, settings) if settings is not None else None

    def connected(self, name: str) -> bool:
        return self._links.connected(name)

    async def tidy(self) -> None:
        """Close idle servers."""
        await self._links.tidy()

    async def close(self) -> None:
        await self._links.close()

    def _enabled(self) -> dict[str, McpServerSettings]:
        return {name: one for name, one in sorted(self._settings().items()) if one.enabled}

    def _unseen(self) -> list[str]:
        return [name for name in self._enabled() if self.known(name) is None]

    def _indexed(self) -> Index:
        enabled = self._enabled()
        seen = {name: self._cache.get(name, settings) for name, settings in enabled.items()}
        self._index.update(
            {name: (enabled[name], facts) for name, facts in seen.items() if facts is not None}
        )
        return self._index

    def _lookup(self, name: str) -> Tool | None:
        found = self._indexed().named.get(name)
        if found is None:
            return None
        server, own = found
        facts = self.known(server)
        assert facts is not None  # else it would not be in the index
        capability = "process" if self._enabled()[server].command else "network"
        check = partial(self._refuse_changed, server, own)
        return make_tool(name, server, own, facts, capability, self._links, check)

    def _refuse_changed(self, server: str, own: str) -> None:
        facts = self.known(server)
        if facts is not None and own in facts.changed():
            raise ToolError(
                f"{own} of {server} has changed since it was agreed to",
                f"the user can review it with `hermes mcp agree {server}`",
                "never",
            )

    async def _try(self, name: str) -> None:
        try:
            await self._links.connect(name)
        except ToolError:
            return  # stored in the pool and shown as a row

    def _missing(self) -> list[ToolListing]:
        """A row for each unknown server, up to a limit."""
        unseen = self._unseen()
        rows = [
            ToolListing(first_line(name, NAME_CHARS), self._why_not(name), trouble=True)
            for name in unseen
        ]
        if len(rows) <= TROUBLES:
            return rows
        others = first_line(", ".join(unseen[TROUBLES:]), TROUBLE_CHARS)
        rest = ToolListing("MCP", f"cannot be used now either: {others}", trouble=True)
        return [*rows[:TROUBLES], rest]

    def _why_not(self, name: str) -> str:
        trouble = self._links.trouble(name)
        if trouble is None:
            return "still starting: search again"
        hint = f" ({trouble.hint})" if trouble.hint else ""
        return first_line(f"cannot be used now: {trouble.message}{hint}", TROUBLE_CHARS)
