"""The tool with which the agent manages jobs."""

from typing import Any, Literal

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Provenance, RecoveryResult, ToolContext, tool


async def _recover(
    _context: ToolContext, _note: dict[str, Any], action: str = "", **_given: Any
) -> RecoveryResult:
    # A job that was added is found by the effect; the others come to the same when done again.
    return None if action == "run" else "again"


@tool(recover=_recover)
async def task(
    context: ToolContext,
    action: Literal["add", "list", "show", "edit", "pause", "resume", "run", "remove", "history"],
    name: str = "",
    when: str = "",
    prompt: str = "",
    options: dict[str, Any] | None = None,
) -> ToolResult:
    """Jobs: work that is done later or again and again, by a session that knows nothing of this
    one. `when`: "0 */6 * * *", "every 2h", "30m", "weekdays at 8", an ISO time. `prompt`: all that
    it must know. `options`: deliver (targets; default: this chat), quiet (tell only what matters),
    script (runs first), script_only, after (jobs), skills, model, policy, timeout, zone…"""
    if context.services.jobs is None:
        raise ToolError("this session has no jobs", "do without them", "never")
    given = {"name": name, "when": when, "prompt": prompt, "options": options}
    by = Provenance(context.session, context.effect, context.services.model)
    return await context.services.jobs.act(action, given, by)


@tool(recover=_recover)
async def remind(
    context: ToolContext, when: str, text: str, target: str = "here", name: str = ""
) -> ToolResult:
    """Send a message later, without waking you: "in 20m", "tomorrow at 9", "weekdays at 8".
    `target`: this chat, the owner's `phone`, or a channel. `task` changes and removes it."""
    if context.services.jobs is None:
        raise ToolError("this session has no jobs", "do without them", "never")
    given = {"name": name, "when": when, "prompt": text, "target": target}
    by = Provenance(context.session, context.effect, context.services.model)
    return await context.services.jobs.act("remind", given, by)
