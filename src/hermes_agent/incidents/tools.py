"""The `incident` tool, for sessions that work on an incident."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Provenance, RecoveryResult, ToolContext, tool

Action = Literal[
    "facts", "signs", "hypothesis", "keep", "undo", "check_with", "verify", "resolve",
    "false_alarm", "escalate",
]  # fmt: skip


async def _recover(_context: ToolContext, _note: dict[str, Any], **_given: Any) -> RecoveryResult:
    # The timeline has what an effect has done, by its id.
    return "again"


@tool(recover=_recover)
async def incident(
    context: ToolContext,
    action: Action,
    claim: str = "",
    component: str = "",
    category: str = "",
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5,
    state: Literal["open", "confirmed", "refuted"] = "open",
    evidence: tuple[str, ...] = (),
    against: tuple[str, ...] = (),
    id: str = "",
    locus: str = "",
    summary: str = "",
    prevent: tuple[str, ...] = (),
    needed: str = "",
    command: str = "",
    output: str = "",
    paths: tuple[str, ...] = (),
) -> ToolResult:
    """The incident that you work on.
    `facts`: how the service `component` runs: init system, process, logs, configuration, ports,
    what it needs, how to restart it.
    `signs`: try again which skills are for the case as it is now.
    `hypothesis`: put `claim` on the board with `component`, `category`, `confidence`, `state`,
    `evidence` and `against`; with `id` change one. Evidence: quotes of 12 to 300 characters, word
    for word from what tools returned here or to your children.
    `keep`: copy the files `paths` aside before you change them. `undo`: put all copies back.
    `check_with`: where there is no check, a `command` (and a regular expression for its `output`)
    that fails now and holds when all is well.
    `verify`: run the checks; tells what fails, and what got worse.
    `resolve`: it is mended: `component`, `category`, `locus` (file and line, process, port…),
    `summary`, `evidence`, `prevent`. The checks must hold, twice.
    `false_alarm`: nothing was wrong, nothing was changed: `summary`.
    `escalate`: people must go on: as `resolve`, and what is `needed` of them."""
    if context.services.incident is None:
        raise ToolError("this session is not working on an incident", retry="never")
    given = {
        "claim": claim, "component": component, "category": category, "confidence": confidence,
        "state": state, "evidence": evidence, "against": against, "id": id, "locus": locus,
        "summary": summary, "prevent": prevent, "needed": needed, "command": command,
        "output": output, "paths": paths,
    }  # fmt: skip
    if action == "undo":  # runs in the session: gated, and on the timeline
        assert context.call is not None
        script = await context.services.incident.undo_script()
        done = await context.call("terminal", {"command": script})
        if not done.ok:
            raise ToolError(f"the copies were not put back: {done.text}")
        given["output"] = done.text
    by = Provenance(context.session, context.effect, context.services.model)
    return await context.services.incident.act(action, given, by)
