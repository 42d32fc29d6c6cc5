"""The connections to servers: opened on demand, one for all sessions, reopened when they died,
closed when idle."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.installation.extras import install_hint, needs
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.tools.mcp.catalogue_cache import ServerFacts
from hermes_agent.tools.mcp.context import McpContext, NotDone

if TYPE_CHECKING:
    from hermes_agent.tools.mcp.connection import McpConnection

IDLE_SECONDS = 600.0
AT_ONCE = 8
"""Servers started concurrently."""
FIRST_PAUSE = 1.0
"""Before retrying a server; it doubles each time."""
MAX_PAUSE = 60.0

Answer = TypeVar("Answer")


@dataclass(eq=False)
class _Link:
    settings: McpServerSettings
    connection: "McpConnection | None" = None
    opening: "asyncio.Task[McpConnection | ToolError] | None" = None
    trouble: ToolError | None = None
    failures: int = 0
    again: float = 0.0
    """When it may be tried again."""
    used: float = 0.0
    calls: int = 0
    """In progress."""


class McpConnectionPool:
    def __init__(
        self, enabled: Callable[[], Mapping[str, McpServerSettings]], world: McpContext
    ) -> None:
        self._enabled = enabled
        self._world = world
        self._links: dict[str, _Link] = {}
        self._retired: list[_Link] = []
        self._starting = asyncio.Semaphore(AT_ONCE)

    async def connect(self, name: str, workspace: str = "") -> "McpConnection":
        """The server's connection, opened if there is none."""
        link = await self._link(name)
        if link.connection is not None and link.connection.alive:
            return link.connection
        if link.opening is None:
            if link.trouble is not None and self._world.clock() < link.again:
                raise link.trouble
            link.opening = asyncio.create_task(
                self._open(name, link, workspace), name=f"open mcp {name}"
            )
        opening = link.opening
        try:
            outcome = await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise
            raise ToolError(f"{name} was closed while it started", retry="same") from None
        if isinstance(outcome, ToolError):
            raise outcome
        return outcome

    async def ask(
        self, name: str, workspace: str, what: Callable[["McpConnection"], Awaitable[Answer]]
    ) -> Answer:
        """Ask a server. What was certainly not carried out is retried once on a new connection."""
        try:
            return await self._ask(name, workspace, what)
        except NotDone:
            pass
        try:
            return await self._ask(name, workspace, what)
        except NotDone as error:
            raise error.told from None

    def connected(self, name: str) -> bool:
        """With the current settings."""
        link = self._links.get(name)
        return (
            link is not None
            and link.settings == self._enabled().get(name)
            and link.connection is not None
            and link.connection.alive
        )

    def trouble(self, name: str) -> ToolError | None:
        """Why a server could not be reached last time."""
        link = self._links.get(name)
        return link.trouble if link is not None else None

    async def tidy(self) -> None:
        """Close idle and disabled servers."""
        now = self._world.clock()
        enabled = self._enabled()
        for name, link in list(self._links.items()):
            idle = not link.calls and now - link.used > IDLE_SECONDS
            if idle or enabled.get(name) != link.settings:
                await self._retire(name)

    async def close(self) -> None:
        """Also calls in progress."""
        links = [*self._links.values(), *self._retired]
        self._links.clear()
        self._retired.clear()
        await asyncio.gather(*(_closed(link) for link in links))

    async def _ask(
        self, name: str, workspace: str, what: Callable[["McpConnection"], Awaitable[Answer]]
    ) -> Answer:
        connection = await self.connect(name, workspace)
        async with self._using(self._links[name]):
            return await what(connection)

    @asynccontextmanager
    async def _using(self, link: _Link) -> AsyncIterator[None]:
        link.calls += 1
        try:
            yield
        finally:
            link.calls -= 1
            link.used = self._world.clock()
            if link in self._retired and not link.calls:
                self._retired.remove(link)
                await _closed(link)

    async def _link(self, name: str) -> _Link:
        settings = self._enabled().get(name)
        link = self._links.get(name)
        if link is not None and link.settings != settings:
            await self._retire(name)
            link = None
        if settings is None:
            raise ToolError(f"no MCP server called {name!r}", "`hermes mcp list`", "never")
        if link is None:
            link = self._links.setdefault(name, _Link(settings))
        link.used = self._world.clock()
        return link

    async def _retire(self, name: str) -> None:
        """Take it out of use; it is closed when its calls are over."""
        link = self._links.pop(name, None)
        if link is not None and link.calls:
            self._retired.append(link)
        elif link is not None:
            await _closed(link)

    async def _open(self, name: str, link: _Link, workspace: str) -> "McpConnection | ToolError":
        try:
            if link.connection is not None:
                await link.connection.close()
                link.connection = None
            connection = await self._opened(name, link.settings, workspace)
        except HermesError as error:
            link.failures += 1
            pause = min(FIRST_PAUSE * 2.0 ** (link.failures - 1), MAX_PAUSE)
            link.again = self._world.clock() + pause
            link.trouble = _told(name, error)
            return link.trouble
        finally:
            link.opening = None
        link.connection, link.trouble, link.failures = connection, None, 0
        return connection

    async def _opened(
        self, name: str, settings: McpServerSettings, workspace: str
    ) -> "McpConnection":
        def told(facts: ServerFacts) -> None:
            self._world.cache.put(name, facts)

        async with self._starting:
            # Loading the SDK takes a second: in a thread, so that others need not wait.
            try:
                opening = await asyncio.to_thread(_opening)
            except ModuleNotFoundError as error:
                raise ToolError(
                    needs("MCP", [error.name or "mcp"]), install_hint("mcp"), "never"
                ) from None
            connection, facts = await opening.open_connection(
                name, settings, self._world, told, settings.timeout_seconds, workspace
            )
        told(facts)
        made: McpConnection = connection
        return made


async def _closed(link: _Link) -> None:
    if link.opening is not None:
        link.opening.cancel()
        await asyncio.wait([link.opening])
    if link.connection is not None:
        await link.connection.close()


def _opening() -> ModuleType:
    from hermes_agent.tools.mcp.transports import opening

    return opening


def _told(name: str, error: HermesError) -> ToolError:
    if isinstance(error, ToolError):
        return error
    return ToolError(f"{name} cannot be used: {error.message}", error.hint, "never")
