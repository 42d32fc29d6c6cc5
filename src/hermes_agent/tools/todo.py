"""The agent's to-do list. It is kept whole when the conversation is summarised."""

from typing import Literal

from msgspec import Struct

from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool

MARKS = {"open": " ", "doing": ">", "done": "x", "dropped": "-"}


class TodoItem(Struct):
    text: str
    state: Literal["open", "doing", "done", "dropped"] = "open"


@tool(repeatable=True)
async def todo(_context: ToolContext, items: tuple[TodoItem, ...]) -> ToolResult:
    """Write down the steps of a longer task, and rewrite the whole list as it goes on."""
    lines = [f"[{MARKS[item.state]}] {item.text}" for item in items]
    left = sum(item.state in ("open", "doing") for item in items)
    listed = "\n".join(lines)
    return ToolResult(f"{left} of {len(items)} left", {"list": listed, "left": left})
