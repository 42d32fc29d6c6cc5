"""A tool of a server as a tool of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Tool, ToolContext
from hermes_agent.tools.mcp.catalogue_cache import (
    GET_PROMPT,
    READ_RESOURCE,
    McpToolFacts,
    ServerFacts,
)
from hermes_agent.tools.mcp.catalogue_index import PROMPTS, RESOURCES
from hermes_agent.tools.mcp.connection_pool import McpConnectionPool
from hermes_agent.tools.mcp.results import (
    prompt_list,
    prompt_result,
    resource_list,
    resource_result,
    tool_result,
)

_URI = {"type": "object", "properties": {"uri": {"type": "string", "default": ""}}}
_PROMPT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": ""},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def make_tool(
    name: str, server: str, own: str, facts: ServerFacts, capability: str, links: McpConnectionPool
) -> Tool:
    """The tool that the server calls `own`. That it only reads is for the server to say and for
    nobody to believe, so it is never repeatable; resources and prompts are made to be read."""
    found = next((tool for tool in facts.tools if tool.name == own), None)
    if found is not None:
        return Tool(
            name,
            _Calls(server, found, links),
            wrap_untrusted("mcp", server, found.description),
            (capability,),
            origin="mcp",
            schema=found.schema,
        )
    if own == READ_RESOURCE:
        function, about, schema = _Reads(server, links), RESOURCES, _URI
        return Tool(name, function, about, (capability,), True, origin="mcp", schema=schema)
    assert own == GET_PROMPT
    shown = wrap_untrusted("mcp", server, "\n".join(facts.prompts))
    return Tool(
        name,
        _Prompts(server, links),
        f"{PROMPTS}\n{shown}",
        (capability,),
        True,
        origin="mcp",
        schema=_PROMPT,
    )


class _Calls:
    def __init__(self, server: str, tool: McpToolFacts, links: McpConnectionPool) -> None:
        self._server = server
        self._tool = tool
        self._links = links

    async def __call__(self, context: ToolContext, given: dict[str, Any]) -> ToolResult:
        tool, workspace = self._tool, _workspace(context)
        answer = await self._links.ask(
            self._server,
            workspace,
            lambda server: server.call_tool(tool.name, given, workspace, context.output),
        )
        return tool_result(self._server, tool.name, answer, tool.hints)


class _Reads:
    def __init__(self, server: str, links: McpConnectionPool) -> None:
        self._server = server
        self._links = links

    async def __call__(self, context: ToolContext, given: dict[str, Any]) -> ToolResult:
        uri, workspace = _text(given, "uri"), _workspace(context)
        if not uri:
            found = await self._links.ask(
                self._server, workspace, lambda server: server.resources()
            )
            return resource_list(self._server, *found)
        answer = await self._links.ask(
            self._server, workspace, lambda server: server.read_resource(uri, workspace)
        )
        return resource_result(self._server, uri, answer)


class _Prompts:
    def __init__(self, server: str, links: McpConnectionPool) -> None:
        self._server = server
        self._links = links

    async def __call__(self, context: ToolContext, given: dict[str, Any]) -> ToolResult:
        name, workspace = _text(given, "name"), _workspace(context)
        if not name:
            found = await self._links.ask(self._server, workspace, lambda server: server.prompts())
            return prompt_list(self._server, found)
        arguments = given.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise ToolError("arguments are an object of texts", retry="changed")
        texts = {key: str(value) for key, value in arguments.items()}
        answer = await self._links.ask(
            self._server, workspace, lambda server: server.get_prompt(name, texts, workspace)
        )
        return prompt_result(self._server, name, answer)


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise ToolError(f"{name} is a text", retry="changed")
    return value


def _workspace(context: ToolContext) -> str:
    """The session's workspace, where it is on this machine."""
    folder = context.terminal.workspace
    return folder if Path(folder).is_absolute() and Path(folder).is_dir() else ""
