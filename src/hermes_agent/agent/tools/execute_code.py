"""A program that the model writes to call many tools in one step."""

from collections.abc import Mapping
from typing import Any

from hermes_agent.agent.tools.replay import run_again
from hermes_agent.agent.tools.resolver import NOT_FOR_PROGRAMS
from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult, failure
from hermes_agent.core.tools import SandboxLimits, SandboxResult, ToolContext, tool

TROUBLE_LINES = 30
"""How many lines of a traceback the model sees, from the end."""


@tool(capabilities=("process",), recover=run_again)
async def execute_code(context: ToolContext, code: str) -> ToolResult:
    """Run Python 3 in a sandbox, to make many tool calls in one step. Tools are functions:
    `terminal(command="uptime")` gives its text and raises `hermes.ToolFailed`.
    `hermes.parallel([(terminal, {"command": c}) for c in commands])` runs them at once. Only what
    is printed comes back. No network, no files: use tools."""
    workers, call = context.services.sandbox, context.call
    if workers is None or call is None:
        raise ToolError("programs cannot be run here", "call the tools themselves", "never")
    calls = 0

    async def counted(name: str, arguments: Mapping[str, Any]) -> ToolResult:
        nonlocal calls
        calls += 1
        return await call(name, arguments)

    settings = context.settings.code
    result = await workers.run(
        context.effect,
        code,
        tools=[name for name in context.services.tools if name not in NOT_FOR_PROGRAMS],
        call=counted,
        limits=SandboxLimits(
            seconds=settings.seconds,
            memory_mb=settings.memory_mb,
            processes=settings.processes,
            calls=settings.calls,
        ),
        output=context.output,
    )
    return _shown(result, calls)


def _shown(result: SandboxResult, calls: int) -> ToolResult:
    data = {"seconds": result.seconds, "calls": calls, "limit": result.limit}
    printed = result.output.rstrip("\n")
    if result.ok:
        return ToolResult(printed or "[no output]", data)
    what = "\n".join(result.trouble.splitlines()[-TROUBLE_LINES:])
    if result.limit and what != result.trouble:
        what = f"{result.trouble.splitlines()[0]}\n{what}"  # the first line names the limit
    failed = failure(what, "the calls it made have taken effect" if calls else "", "changed")
    text = f"{printed}\n{failed.text}" if printed else failed.text
    return ToolResult(text, {**failed.data, **data}, ok=False)
