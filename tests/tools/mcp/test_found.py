"""What `find_tools` makes of servers that cannot be used, beside those that can."""

from typing import Any

from msgspec.structs import replace

from hermes_agent.agent.tools.discovery import find_tools
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolServices
from tests.support.calls import Caller
from tests.tools.mcp.conftest import Desk


async def found(desk: Desk, **given: Any) -> ToolResult:
    class Lending(Caller):
        def context(self, effect: str) -> Any:
            services = ToolServices(providers=[desk.servers])
            return replace(super().context(effect), services=services)

    return await Lending(desk.caller.workspace, desk.caller.terminal).call(find_tools, **given)


async def test_a_server_that_cannot_be_used_is_told_of_and_not_counted_as_found(
    desk: Desk,
) -> None:
    desk.odd()
    desk.settings["gone"] = McpServerSettings(command=("no-such-program",))
    some = await found(desk, query="plain")
    none = await found(desk, query="nothing like it")
    assert some.data == {"found": ["odd__plain"]}
    assert none.data == {"found": []}
    assert none.text.startswith("no tool matches\n")
    for told in (some, none):
        assert "gone: cannot be used now: gone cannot be used: no program called" in told.text


async def test_one_name_that_cannot_be_described_does_not_hide_the_others(desk: Desk) -> None:
    desk.odd()
    desk.settings["gone"] = McpServerSettings(command=("no-such-program",))
    told = (await found(desk, names=["gone__tool", "odd__plain", "odd__none"])).text
    assert told.startswith("gone__tool: gone cannot be used: no program called")
    assert "\n\nodd__plain: " in told
    assert '{"type":"object"' in told
    assert told.endswith("\n\nodd__none: no such tool")
