"""A server's tool as one of ours."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from hermes_agent.tools.mcp.catalogue_index import CHANGED, PROMPTS, RESOURCES
from hermes_agent.tools.mcp.connection_pool import McpConnectionPool
from hermes_agent.tools.mcp.results import (
    prompt_list,
    prompt_result,
    resource_list,
    resource_result,
    tool_result,
)

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from hermes_agent.tools.mcp.connection import McpConnection

_Function = Callable[[ToolContext, dict[str, Any]], Awaitable[ToolResult]]
_URI: dict[str, Any] = {"type": "object", "properties": {"uri": {"type": "string", "default": ""}}}
_PROMPT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": ""},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def make_tool(
    name: str,
    server: str,
    own: str,
    facts: ServerFacts,
    capability: str,
    links: McpConnectionPool,
    check: Callable[[], None],
) -> Tool:
    """The tool that the server calls `own`. A server's word that it only reads is not believed, so
    it is never repeatable; resources and prompts are made to be read."""
    found = next((tool for tool in facts.tools if tool.name == own), None)
    if found is not None:
        about, schema = wrap_untrusted("mcp", server, found.description), found.schema
        if own in facts.changed():
            about = CHANGED
        function = _call(server, found, links, check)
    elif own == READ_RESOURCE:
        function, about, schema = _read_resource(server, links), RESOURCES, _URI
    else:
        assert own == GET_PROMPT
        shown = wrap_untrusted("mcp", server, "\n".join(facts.prompts))
        function, about, schema = _get_prompt(server, links), f"{PROMPTS}\n{shown}", _PROMPT
    repeatable = found is None
    return Tool(name, function, about, (capability,), repeatable, origin="mcp", schema=schema)


def _call(
    server: str, tool: McpToolFacts, links: McpConnectionPool, check: Callable[[], None]
) -> _Function:
    """`check` raises if the tool has changed; it may have while the server was connected."""

    async def call(context: ToolContext, given: dict[str, Any]) -> ToolResult:
        folder, output = _workspace(context), context.output

        async def ask(far: "McpConnection") -> "CallToolResult":
            check()
            return await far.call_tool(tool.name, given, folder, output)

        answer = await links.ask(server, folder, ask)
        return tool_result(server, tool.name, answer, tool.hints)

    return call


def _read_resource(server: str, links: McpConnectionPool) -> _Function:
    async def read_resource(context: ToolContext, given: dict[str, Any]) -> ToolResult:
        uri, folder = _text(given, "uri"), _workspace(context)
        if not uri:
            found = await links.ask(server, folder, lambda far: far.resources())
            return resource_list(server, *found)
        answer = await links.ask(server, folder, lambda far: far.read_resource(uri, folder))
        return resource_result(server, uri, answer)

    return read_resource


def _get_prompt(server: str, links: McpConnectionPool) -> _Function:
    async def get_prompt(context: ToolContext, given: dict[str, Any]) -> ToolResult:
        name, folder = _text(given, "name"), _workspace(context)
        if not name:
            return prompt_list(server, await links.ask(server, folder, lambda far: far.prompts()))
        arguments = given.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise ToolError("arguments must be an object of strings", retry="changed")
        texts = {key: str(value) for key, value in arguments.items()}
        answer = await links.ask(server, folder, lambda far: far.get_prompt(name, texts, folder))
        return prompt_result(server, name, answer)

    return get_prompt


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text", retry="changed")
    return value


def _workspace(context: ToolContext) -> str:
    """The session's workspace, if it is on this machine."""
    folder = context.terminal.workspace
    return folder if Path(folder).is_absolute() and Path(folder).is_dir() else ""
