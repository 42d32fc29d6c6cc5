"""Commands in the session's shell."""

import asyncio
import re
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import OutcomeUnknown, ToolError
from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, ToolContext, tool
from hermes_agent.tools.kept_output import ENDED, redact_output

COMMAND_CHARS = 100
FOLLOW_SECONDS = 60.0
REFUSALS = re.compile(
    r"read-?only file ?system|operation not permitted|readonly database|\bE(?:ROFS|PERM)\b"
    r"|name resolution|could not resolve|name or service not known|network is unreachable",
    re.IGNORECASE,
)
"""What programs say that were not let write, signal or connect."""


async def _recover_command(
    context: ToolContext,
    _note: dict[str, Any],
    command: str,
    timeout: float | None,  # noqa: ASYNC109 - the terminal keeps it, across a restart too
    background: bool,
    changes: bool,  # noqa: ARG001 - the gate has judged it
    wake: bool,
) -> RecoveryResult:
    beside = context.aside and not background
    limit = _limit(context, timeout) if beside else timeout
    given = ShellCommand(
        context.effect, command, limit, background or beside,
        confinement=context.confinement, outside=context.outside,
    )  # fmt: skip
    found = await context.terminal.recover(given)
    if found is None or found == "not-run":
        return found
    if beside:
        found = await _to_its_end(context, found)
    # A lost command may have done anything before it was lost: a person decides.
    return None if found.state == "lost" else _noted(context, show(found), wake)


def _limit(context: ToolContext, given: float | None) -> float:
    return given or context.settings.terminal.timeout_seconds


async def _to_its_end(context: ToolContext, state: CommandState) -> CommandState:
    """Wait for a command that runs beside the session's shell."""
    try:
        while state.state == "running":
            state = await context.terminal.follow(
                state.id, wait=FOLLOW_SECONDS, output=context.output
            )
    except asyncio.CancelledError:
        await asyncio.shield(context.terminal.stop(state.id))
        raise
    return replace(state, background=False)


async def _release_command(context: ToolContext, result: ToolResult) -> None:
    """Remove the output if the result has all of it, otherwise what is secret in it. A background
    command may still be followed."""
    facts = result.data
    if facts.get("state") not in ENDED:
        return
    sizes = facts["stdout_size"], facts["stderr_size"]
    if max(sizes) <= context.settings.terminal.output_chars and not facts["background"]:
        await context.terminal.forget(facts["id"])
        return
    await redact_output(context.terminal, facts["spool"], sizes, context.redact)


@tool(
    capabilities=("process",),
    command="command",
    located=True,
    recover=_recover_command,
    release=_release_command,
)
async def terminal(
    context: ToolContext,
    command: str,
    timeout: Annotated[float, Meta(gt=0)] | None = None,  # noqa: ASYNC109 - as above
    background: bool = False,
    changes: bool = False,  # noqa: ARG001 - the gate has judged it
    wake: bool = False,
) -> ToolResult:
    """Run a bash command. Directory, variables and functions carry over to the next call. No
    stdin. `timeout` in seconds. `background` returns at once; see `process`. Its end is reported
    to this chat; `wake` also gives you a turn then, and `send_message` with `after` tells others.
    What seems read-only cannot write; `changes` says that it must, and may ask."""
    # A program runs several at once: each in its own shell, which starts in the session's folder
    # and whose changes are lost with it.
    beside = context.aside and not background
    limit = _limit(context, timeout) if beside else timeout
    given = ShellCommand(
        context.effect,
        command,
        limit,
        background or beside,
        dict(context.secrets),
        context.confinement,
        context.outside,
    )
    state = await context.terminal.run(given, context.output)
    if beside:
        state = await _to_its_end(context, state)
    if state.state == "lost":
        raise OutcomeUnknown("the shell exited while the command ran")
    result = _noted(context, show(state), wake)
    if context.confinement == "none":
        return result
    return _confined(_with_calls(context, result), state, context.confinement)


def _noted(context: ToolContext, result: ToolResult, wake: bool) -> ToolResult:
    """With what is needed to report the end of a background command."""
    if not result.data["background"]:
        return result
    return replace(result, data={**result.data, "terminal": context.place, "wake": wake})


async def _recover_process(
    _context: ToolContext, _note: dict[str, Any], action: str, **_rest: Any
) -> RecoveryResult:
    # Looking and stopping are repeatable; text that may have been sent must not be sent twice.
    return None if action == "send" else "not-run"


@tool(capabilities=("process",), located=True, recover=_recover_process, release=_release_command)
async def process(
    context: ToolContext,
    action: Literal["list", "follow", "stop", "send"],
    id: str = "",
    wait: Annotated[float, Meta(ge=0, le=600)] = 0,
    text: str = "",
) -> ToolResult:
    """Background commands: list them, follow one (`wait` seconds for its end), stop it, or send
    `text` to its stdin."""
    if action == "list":
        return _list(list(await context.terminal.commands()))
    if not id:
        raise ToolError(f"{action} needs the id of a command", "action 'list' shows them")
    if action == "send":
        await context.terminal.send(id, text)
        return ToolResult(f"sent {len(text)} characters to {id}", {"id": id, "sent": len(text)})
    if action == "stop":
        return show(await context.terminal.stop(id), asked_to_stop=True)
    return show(await context.terminal.follow(id, wait=wait, output=context.output))


def show(state: CommandState, *, asked_to_stop: bool = False) -> ToolResult:
    """A command as the model reads it: stdout, stderr under a marker, then its state."""
    parts = [state.stdout.rstrip("\n")] if state.stdout else []
    if state.stderr:
        parts.append("[stderr]\n" + state.stderr.rstrip("\n"))
    standing = _standing(state)
    if standing:
        parts.append(f"[{standing}]")
    elif not parts:
        parts.append("[no output]")
    ok = state.state == "running" or state.code == 0 or (asked_to_stop and state.state != "lost")
    return ToolResult("\n".join(parts), _data(state), ok)


def _with_calls(context: ToolContext, result: ToolResult) -> ToolResult:
    """Note for the journal what the command called outside of where it was confined."""
    if context.outside is None or not context.outside.made:
        return result
    made = [
        {"command": context.redact(command), "refused": context.redact(refused), "front": front}
        for command, refused, front in context.outside.made
    ]
    return replace(result, data={**result.data, "outside": made})


def _confined(result: ToolResult, state: CommandState, confinement: Confinement) -> ToolResult:
    """Tell the model why a command failed that tried more than to look."""
    said = state.stderr if state.code == 0 else f"{state.stderr}\n{state.stdout}"
    if not REFUSALS.search(said):
        return result
    judged = "only read, so it ran where it cannot write, signal or connect"
    if confinement == "workspace":
        judged = "stay in the workspace, so it ran where it cannot write elsewhere"
    hint = f"policy expected it to {judged}; set `changes` if it must"
    return replace(
        result, text=f"{result.text}\n[{hint}]", data={**result.data, "refused": confinement}
    )


def _standing(state: CommandState) -> str:
    """What the model must know beyond the output; empty for a plain success."""
    match state.state:
        case "running" if state.background and not state.stdout and not state.stderr:
            return f"running in the background, id {state.id}"
        case "running":
            return f"still running after {state.seconds:.0f} s, id {state.id}"
        case "timeout":
            return f"timed out after {state.seconds:.1f} s, stopped"
        case "stopped":
            return "stopped"
        case "lost":
            return "the shell exited; whether the command finished is unknown"
        case "exited" if state.code:
            return f"exit code {state.code}"
        case "exited" if state.background:
            return "ended, exit code 0"
    return ""


def _data(state: CommandState) -> dict[str, Any]:
    return {
        "id": state.id,
        "command": state.text,
        "state": state.state,
        "code": state.code,
        "seconds": state.seconds,
        "stdout_size": state.stdout_size,
        "stderr_size": state.stderr_size,
        "background": state.background,
        "spool": state.spool,
    }


def _list(states: list[CommandState]) -> ToolResult:
    if not states:
        return ToolResult("no background commands", {"commands": []})
    lines = []
    for state in states:
        text = " ".join(state.text.split())
        short = text if len(text) <= COMMAND_CHARS else text[:COMMAND_CHARS] + "…"
        code = "" if state.code is None else f" {state.code}"
        lines.append(f"{state.id}  {state.state}{code}  {state.seconds:.0f} s  {short}")
    return ToolResult("\n".join(lines), {"commands": [_data(state) for state in states]})
