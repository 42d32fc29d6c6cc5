"""Asks the user a question."""

from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool

NOBODY = (
    "nobody can answer now; decide with what you know and say what you assumed, "
    "or finish without it"
)


@tool(repeatable=True)
async def ask_user(
    context: ToolContext, question: str, choices: tuple[str, ...] = ()
) -> ToolResult:
    """Ask the user when only they can decide. `choices` are answers to pick from."""
    answer = await context.ask(question, choices)
    if answer is None:
        return ToolResult(NOBODY, {"question": question, "answer": None})
    return ToolResult(answer, {"question": question, "answer": answer})
