"""What a call to an MCP server costs through Hermes, beside the SDK's own client in the same
process and to the same server; and a search over fifty servers that were seen before."""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client, StdioServerParameters, stdio_client

from bench.table import Figure, scaled
from hermes_agent.core.effects import Permit
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.tools.mcp.catalogue_cache import (
    CatalogueCache,
    ServerFacts,
    settings_key,
    tool_facts,
)
from hermes_agent.tools.mcp.provider import Servers
from tests.support.calls import caller
from tests.support.mcp_servers import odd

CALLS = scaled(500, 10)
SERVERS = scaled(50, 3)
TOOLS = 20
SEARCHES = scaled(100, 5)

Call = Callable[[], Awaitable[object]]


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        bare, ours = asyncio.run(_calls(Path(folder)))
    yield Figure(
        "a call to an MCP server, times the SDK's own client, median",
        ours / bare, "x", bare * 1000, "ms bare", 1.5, "x",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        seconds = asyncio.run(_search(Path(folder)))
    yield Figure(
        f"a search over {SERVERS} MCP servers with {TOOLS} tools each, median",
        seconds * 1000, "ms", limit=50.0, limit_name="ms",
    )  # fmt: skip


async def _calls(folder: Path) -> tuple[float, float]:
    """Both take turns, so that what else the machine does is shared by both."""
    program, *words = odd("good", folder / "bare")
    settings = {"odd": McpServerSettings(command=odd("good", folder / "ours"))}
    servers = Servers(lambda: settings, folder, str, os.environ, time.time)
    async with AsyncExitStack() as stack:
        errors = stack.enter_context((folder / "errors").open("w"))
        streams = stdio_client(StdioServerParameters(command=program, args=words), errors)
        client = await stack.enter_async_context(Client(streams))
        here = await stack.enter_async_context(caller(folder))
        stack.push_async_callback(servers.close)
        tool = await servers.find("odd__plain")
        assert tool is not None
        context = here.context("bench")
        given = {"text": "good day"}

        async def ours() -> object:
            return await tool.run(Permit("bench", tool.name, given), context, given)

        async def bare() -> object:
            return await client.call_tool("plain", given)

        taken: dict[Call, list[float]] = {bare: [], ours: []}
        for _ in range(CALLS):
            for call, times in taken.items():
                began = time.perf_counter()
                await call()
                times.append(time.perf_counter() - began)
        return statistics.median(taken[bare]), statistics.median(taken[ours])


async def _search(folder: Path) -> float:
    settings = {
        f"server{number}": McpServerSettings(command=("false", str(number)))
        for number in range(SERVERS)
    }
    shelf = CatalogueCache(folder / "mcp")
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = tuple(
        tool_facts(f"tool{number}", f"Does the thing number {number}. " * 10, schema, {})
        for number in range(TOOLS)
    )
    for name, one in settings.items():
        shelf.put(name, ServerFacts(settings_key(one), 0.0, "a server", "2025-11-25", tools))
    servers = Servers(lambda: settings, folder, str, os.environ, time.time)
    times = []
    for _ in range(SEARCHES):
        began = time.perf_counter()
        found = await servers.search("thing tool7")
        times.append(time.perf_counter() - began)
        assert len(found) == SERVERS
    return statistics.median(times)
