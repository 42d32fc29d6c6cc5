"""Resolves the tool of a call: one of the session's own, or one that is not in the prompt."""

from difflib import get_close_matches

from hermes_agent.agent.conversation import PendingCall
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import USE_TOOL
from hermes_agent.core.tools import Tool

NOT_FOR_PROGRAMS = frozenset({"execute_code", "delegate", "make_tool", "write_skill"})
"""Programs cannot call these: each starts work outside the program's limits."""


class ToolResolver:
    def __init__(self, deps: TurnDependencies) -> None:
        self._deps = deps
        self._found: dict[str, Tool] = {}

    async def load(self, open_call: PendingCall) -> None:
        """Look up the tool of a call in external sources."""
        name, _ = open_call.call.target()
        if name in self._deps.tools or USE_TOOL not in self._deps.tools:
            return  # without it, a session has no external tools
        for source in self._deps.services.providers:
            if (found := await source.find(name)) is not None:
                self._found[name] = found
                return
        # It may have been removed since it was found.
        self._found.pop(name, None)

    def known(self, open_call: PendingCall) -> Tool | None:
        """The tool of a call, if it is already loaded."""
        try:
            name, _ = open_call.call.target()
        except ToolError:
            return None
        return self._deps.tools.get(name) or self._found.get(name)

    def tool(self, open_call: PendingCall) -> Tool:
        tool = self.known(open_call)
        if tool is not None:
            return tool
        name, _ = open_call.call.target()
        names = list(self._deps.tools)
        close = get_close_matches(name, [*names, *self._found], 1, 0.7)
        more = "; find_tools searches more" if USE_TOOL in self._deps.tools else ""
        hint = f"did you mean {close[0]!r}?" if close else f"available: {', '.join(names)}{more}"
        raise ToolError(f"no tool called {name!r}", hint, "changed")

    def given(self, open_call: PendingCall, tool: Tool) -> dict[str, object]:
        """The model's arguments, validated and with defaults."""
        if open_call.call.name == USE_TOOL and open_call.call.input().keys() - {
            "name",
            "arguments",
        }:
            why = f"{USE_TOOL} takes only `name` and `arguments`"
            raise ToolError(why, f"put the arguments of {tool.name} into `arguments`", "changed")
        return tool.arguments(open_call.call.target()[1])

    def place(self, open_call: PendingCall, tool: Tool | None) -> str:
        """The name of the call's terminal; by default the session's first."""
        named = tool.place(open_call.call.target()[1]) if tool is not None else ""
        return self._deps.terminal_name(named)
