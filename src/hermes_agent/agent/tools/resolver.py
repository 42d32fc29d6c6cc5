"""Which tool a call means: one of the session's own, or one of those that are not in the prompt."""

from difflib import get_close_matches

from hermes_agent.agent.conversation import PendingCall
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import USE_TOOL
from hermes_agent.core.tools import Tool

KEPT_BACK = frozenset({"execute_code", "delegate", "make_tool", "write_skill"})
"""Tools that programs cannot call: each would start work that is not theirs to bound."""


class ToolResolver:
    def __init__(self, parts: TurnDependencies) -> None:
        self._parts = parts
        self._found: dict[str, Tool] = {}

    async def load(self, open_call: PendingCall) -> None:
        """Look for the tool of a call where it takes time to look."""
        name, _ = open_call.call.target()
        if name in self._parts.tools or USE_TOOL not in self._parts.tools:
            return  # a session without the tool for them has no others
        for source in self._parts.lent.sources:
            if (found := await source.find(name)) is not None:
                self._found[name] = found
                return
        # A tool that has gone since it was found must not be run.
        self._found.pop(name, None)

    def known(self, open_call: PendingCall) -> Tool | None:
        """The tool of a call, as far as it is known without looking."""
        try:
            name, _ = open_call.call.target()
        except ToolError:
            return None
        return self._parts.tools.get(name) or self._found.get(name)

    def tool(self, open_call: PendingCall) -> Tool:
        tool = self.known(open_call)
        if tool is not None:
            return tool
        name, _ = open_call.call.target()
        names = list(self._parts.tools)
        close = get_close_matches(name, [*names, *self._found], 1, 0.7)
        more = "; find_tools searches more" if USE_TOOL in self._parts.tools else ""
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}{more}"
        raise ToolError(f"no tool called {name!r}", hint, "changed")

    def given(self, open_call: PendingCall, tool: Tool) -> dict[str, object]:
        """The arguments as the model wrote them, checked and completed."""
        return tool.arguments(open_call.call.target()[1])

    def place(self, open_call: PendingCall, tool: Tool | None) -> str:
        """The name of the terminal that it is for; the session's first when it names none."""
        named = tool.place(open_call.call.target()[1]) if tool is not None else ""
        return self._parts.terminal_name(named)
