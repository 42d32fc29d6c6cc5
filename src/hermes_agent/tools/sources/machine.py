"""Asks the machine of the session's terminal with a fixed script that only reads."""

import asyncio
import zlib
from shlex import quote

from hermes_agent.core.errors import NotFound, ToolError
from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tools import ToolContext

SECONDS = 60.0
ANSWER_BYTES = 64_000_000
FOLLOW_SECONDS = 30.0
ERROR_CHARS = 500
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"
# Functions, aliases and variables of the session's shell must not decide what runs: in POSIX mode
# `exec` cannot be a function.
_CALL = (
    r"(POSIXLY_CORRECT=1; \exec /usr/bin/env -i PATH={path} LC_ALL=C /bin/sh -c {script} {words})"
)
_SENT = """
ask() {
%s
}
if command -v gzip >/dev/null; then ask "$@" | gzip -1; else ask "$@"; fi
"""


async def ask_machine(
    context: ToolContext, script: str, *arguments: str, seconds: float = SECONDS
) -> tuple[str, str]:
    """What a POSIX shell script prints, and its errors; `arguments` are its `$1`, `$2`, …. A
    `ToolError` if there are errors alone."""
    words = " ".join(quote(one) for one in ("sh", *arguments))
    text = _CALL.format(path=_PATH, script=quote(_SENT % script.strip()), words=words)
    command = ShellCommand(context.effect, text, background=True)
    state = await _ended(context, command, seconds)
    try:
        if state.state == "lost":
            raise ToolError("the terminal lost the command", retry="same")
        data = await context.terminal.read(state.spool)
    finally:
        await _forget(context, state)
    printed = (await asyncio.to_thread(_unpacked, data)).decode(errors="replace")
    errors = shortened(state.stderr, ERROR_CHARS)
    if errors and not printed:
        raise ToolError(errors, retry="changed")
    return printed, errors


async def _ended(context: ToolContext, command: ShellCommand, seconds: float) -> CommandState:
    state = await context.terminal.run(command)
    try:
        async with asyncio.timeout(seconds):
            while state.state == "running":
                state = await context.terminal.follow(state.id, wait=FOLLOW_SECONDS)
    except TimeoutError:
        await _forget(context, await context.terminal.stop(state.id))
        what = f"the machine took longer than {seconds:.0f} s"
        raise ToolError(what, "ask for a shorter time", "changed") from None
    except asyncio.CancelledError:
        await asyncio.shield(context.terminal.stop(state.id))
        raise
    return state


async def _forget(context: ToolContext, state: CommandState) -> None:
    try:
        await context.terminal.forget(state.id)
    except (NotFound, ToolError):  # it is gone with the terminal, or still ending
        return


def _unpacked(data: bytes) -> bytes:
    try:
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(31).decompress(data, ANSWER_BYTES + 1)
    except zlib.error as error:
        raise ToolError(f"the machine's answer is damaged: {error}", retry="same") from None
    if len(data) > ANSWER_BYTES:
        what = f"the machine answers with more than {ANSWER_BYTES // 1_000_000} MB"
        raise ToolError(what, "ask for less: a shorter time or fewer files", "changed")
    return data
