"""Asking a server for all it has, page after page, with an end to it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from mcp import ClientSession, MCPError, types
from mcp.types import METHOD_NOT_FOUND, PaginatedRequestParams
from msgspec.structs import replace

from hermes_agent.tools.mcp.catalogue_cache import (
    MAX_TOOLS,
    NAME_CHARS,
    McpToolFacts,
    ServerFacts,
    first_line,
    tool_facts,
)
from hermes_agent.tools.mcp.results import signature

PAGES = 100
MAX_PROMPTS = 50

Item = TypeVar("Item")
Page = TypeVar("Page", bound=types.PaginatedResult)


async def list_all(
    ask: Callable[..., Awaitable[Page]],
    items: Callable[[Page], Sequence[Item]],
    most: int = MAX_TOOLS,
) -> list[Item]:
    """Everything on all pages, up to the page that holds more than `most`."""
    found: list[Item] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await ask(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        found += items(page)
        cursor = page.next_cursor
        if not cursor or len(found) > most:
            break
    return found


async def listed(session: ClientSession, facts: ServerFacts) -> ServerFacts:
    """The facts, filled in with what the server says of itself."""
    offered = session.server_capabilities or types.ServerCapabilities()
    tools = await _or_none(session.list_tools, lambda page: page.tools, bool(offered.tools))
    prompts = await _or_none(session.list_prompts, lambda page: page.prompts, bool(offered.prompts))
    usable = [_tool(tool) for tool in tools[:MAX_TOOLS] if len(tool.name) <= NAME_CHARS]
    info = session.server_info
    return replace(
        facts,
        title=first_line(f"{info.name} {info.version}", 100) if info else "",
        version=session.protocol_version or "",
        tools=tuple({tool.name: tool for tool in usable}.values()),
        left_out=len(tools) - len(usable),
        resources=bool(offered.resources) and await _has_resources(session),
        prompts=tuple(signature(prompt) for prompt in prompts[:MAX_PROMPTS]),
    )


async def _or_none(
    ask: Callable[..., Awaitable[Page]],
    items: Callable[[Page], Sequence[Item]],
    offered: bool,
    most: int = MAX_TOOLS,
) -> list[Item]:
    """Nothing where the server does not offer it, or says that it does and then does not."""
    if not offered:
        return []
    try:
        return await list_all(ask, items, most)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []


async def _has_resources(session: ClientSession) -> bool:
    """Many servers say that they offer resources, and have none."""
    if await _or_none(session.list_resources, lambda page: page.resources, True, 0):
        return True
    ask = session.list_resource_templates
    return bool(await _or_none(ask, lambda page: page.resource_templates, True, 0))


def _tool(tool: types.Tool) -> McpToolFacts:
    said: dict[str, Any] = (
        tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    )
    hints = {name: value for name, value in said.items() if isinstance(value, bool)}
    title = tool.title or said.get("title") or ""
    return tool_facts(tool.name, tool.description or title, tool.input_schema, hints)
