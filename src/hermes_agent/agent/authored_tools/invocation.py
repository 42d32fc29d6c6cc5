"""One use of a written tool: its arguments, the calls that it makes, and what came of it."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from hermes_agent.agent.authored_tools.signature import ToolSignature
from hermes_agent.agent.tools.resolver import KEPT_BACK
from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Call, RecoveryResult, SandboxResult, ToolContext

_TOOL_FAILED = re.compile(r"^(?:\w+\.)*ToolFailed\b", re.MULTILINE)
"""How a traceback names what a call that failed raises."""


class InvocationCalls:
    """Makes the calls of one run, and sees how they go."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._failed = False
        self.made = 0

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.made += 1
        try:
            result = await self._call(name, arguments)
        except ToolError:
            self._failed = True
            raise
        self._failed = self._failed or not result.ok
        return result

    def stopped(self, worked: SandboxResult) -> bool:
        """Whether it ended because a call of it failed."""
        said = _TOOL_FAILED.search(worked.trouble)
        return self._failed and not worked.limit and said is not None


def callable_names(names: Collection[str], call: Call | None) -> list[str]:
    return [name for name in names if name not in KEPT_BACK] if call is not None else []


def fitting(shape: ToolSignature, given: dict[str, Any]) -> dict[str, Any]:
    try:
        checked = msgspec.convert(given, shape.arguments, strict=False)
    except msgspec.ValidationError as error:
        wanted = msgspec.json.encode(shape.schema["properties"]).decode()
        raise ToolError(
            f"bad arguments for {shape.name}: {error}; it takes {wanted}", retry="changed"
        ) from None
    built: dict[str, Any] = msgspec.to_builtins(checked)
    return built


def shown(worked: SandboxResult) -> str:
    """What it printed, then what it returned."""
    value = worked.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if not worked.output.strip():
        return text
    return worked.output.rstrip() + ("" if value is None else f"\n[returned]\n{text}")


async def run_again(
    _context: ToolContext, _note: dict[str, Any], /, **_arguments: Any
) -> RecoveryResult:
    # In its sandbox it has no effects of its own; the calls that it made are in the journal, and
    # those that had ended are not made again.
    return "again"
