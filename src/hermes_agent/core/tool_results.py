"""What a tool returns."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hermes_agent.core.errors import HermesError, Retry
from hermes_agent.core.messages import Media, Usage


class ToolResult(Struct, frozen=True):
    """Text for the model, data for people and programs."""

    text: str
    data: dict[str, Any] = {}
    ok: bool = True
    files: tuple[Media, ...] = ()
    """Images for the model to look at."""
    usage: Usage = Usage()
    """What models used to come to it: those of children."""
    cost: float | None = 0.0
    """Dollars of that; None where a price is not known."""


ADVICE: Mapping[Retry, str] = {
    "": "",
    "same": "the same call may work if you make it again",
    "changed": "the same call will fail again: change it",
    "never": "no such call will work now: do without it",
}


def failure(message: str, hint: str = "", retry: Retry = "") -> ToolResult:
    """The one shape of a call that failed: what is wrong, a way out, and whether to try again."""
    lines = [message, *([f"hint: {hint}"] if hint else [])]
    lines += [f"retry: {ADVICE[retry]}"] if retry else []
    return ToolResult("\n".join(lines), {"error": message, "hint": hint, "retry": retry}, ok=False)


def failed(error: HermesError) -> ToolResult:
    return failure(error.message, error.hint, getattr(error, "retry", ""))
