"""Finds and calls tools that are not in the prompt: built-in ones that few sessions need, those of
MCP servers and those the agent wrote. They cost no tokens until they are used."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, ToolListing, ToolProvider, tool

SHOWN = 40
"""How many tools a search shows."""


@tool(repeatable=True)
async def find_tools(
    context: ToolContext, query: str = "", names: tuple[str, ...] = ()
) -> ToolResult:
    """Find more tools (built-in, of MCP servers, or that you wrote): by words, or all; `names`
    gives the arguments of these."""
    sources = context.services.providers
    if names:
        return await _described(sources, names)
    found: list[ToolListing] = []
    troubles: list[str] = []
    searches = [source.search(query) for source in sources]
    for answer in await asyncio.gather(*searches, return_exceptions=True):
        if isinstance(answer, HermesError):
            troubles.append(answer.message)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found += answer
    tools = [one for one in found if not one.trouble]
    missing = [one for one in found if one.trouble]
    rows = [f"{one.name}: {one.about}" for one in (*missing, *tools[:SHOWN])]
    lines = [] if tools else ["no tool matches"]
    if rows:  # descriptions from servers are untrusted
        lines.append(wrap_untrusted("tools", "find_tools", "\n".join(rows)))
    if len(tools) > SHOWN:
        lines.append(f"[{len(tools) - SHOWN} more; narrow the search]")
    lines += [f"[not searched: {each}]" for each in troubles]
    return ToolResult("\n".join(lines), {"found": [one.name for one in tools]})


async def _described(sources: Sequence[ToolProvider], names: Sequence[str]) -> ToolResult:
    lines = [await _one_described(sources, name) for name in names]
    return ToolResult("\n\n".join(lines), {"names": list(names)})


async def _one_described(sources: Sequence[ToolProvider], name: str) -> str:
    trouble = "no such tool"
    for source in sources:
        try:
            found = await source.find(name)
        except HermesError as error:  # try the other sources
            trouble = f"{error.message} ({error.hint})" if error.hint else error.message
            continue
        if found is not None:
            spec = found.spec
            arguments = msgspec.json.encode(spec.parameters).decode()
            if found.origin == "mcp":
                arguments = wrap_untrusted("arguments", spec.name, arguments)
            return f"{spec.name}: {spec.description}\narguments: {arguments}"
    return f"{name}: {trouble}"


@tool()
async def use_tool(
    _context: ToolContext, name: str, arguments: dict[str, Any] | None = None
) -> ToolResult:
    """Call a tool that find_tools has shown."""
    # The executor runs the named tool instead, so this is never reached with a valid call.
    raise ToolError(f"{name} cannot be called with {arguments}", "find_tools shows how")
