"""What a job's script means by what it printed."""

import json

from msgspec import Struct

from hermes_agent.core.protocols import CommandState
from hermes_agent.jobs.messages import cut, span

SHOWN = 20_000
BUILTIN = "builtin:"
"""Begins the name of a thing that the runtime itself does, in the place of a command."""


class ScriptOutput(Struct, frozen=True):
    """A script that has ended."""

    text: str
    wakes: bool
    """Whether the agent is woken, or the result told."""
    error: str = ""
    """Why it failed."""


def printed(done: CommandState, seconds: float) -> ScriptOutput:
    """One that ends with 0 and prints nothing, or `{"wake": false}` last, wakes nobody."""
    output = cut(done.stdout.strip(), SHOWN)
    if done.state == "timeout":
        return ScriptOutput(
            _both(output, done), True, f"the script took longer than {span(seconds)}"
        )
    if done.state != "exited":
        return ScriptOutput(
            _both(output, done), True, f"the script did not end by itself: {done.state}"
        )
    if done.code:
        return ScriptOutput(
            _both(output, done), True, f"the script ended with exit code {done.code}"
        )
    if not output:
        return ScriptOutput("", False)
    *lines, last = output.split("\n")
    wakes = _wakes(last)
    if wakes is None:
        return ScriptOutput(output, True)
    text = "\n".join(lines).strip()
    return ScriptOutput(text, wakes)


def _both(output: str, done: CommandState) -> str:
    return "\n".join(filter(None, (output, cut(done.stderr.strip(), SHOWN))))


def _wakes(line: str) -> bool | None:
    """What a last line says of waking, where it says anything."""
    if not line.strip().startswith("{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    wake = said.get("wake") if isinstance(said, dict) else None
    return wake if isinstance(wake, bool) else None
