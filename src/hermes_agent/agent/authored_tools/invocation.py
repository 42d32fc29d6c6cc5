"""One use of a written tool: its arguments, the calls that it makes, and what came of it."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from hermes_agent.agent.authored_tools.signature import ToolSignature
from hermes_agent.agent.tools.resolver import NOT_FOR_PROGRAMS
from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Call, RecoveryResult, SandboxResult, ToolContext

_TOOL_FAILED = re.compile(r"^(?:\w+\.)*ToolFailed\b", re.MULTILINE)
"""The exception of a failed call in a traceback."""


class InvocationCalls:
    """Makes the calls of one run, and remembers whether one failed."""

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

    def stopped(self, result: SandboxResult) -> bool:
        """Whether the run ended because one of its calls failed."""
        said = _TOOL_FAILED.search(result.trouble)
        return self._failed and not result.limit and said is not None


def callable_names(names: Collection[str], call: Call | None) -> list[str]:
    return [name for name in names if name not in NOT_FOR_PROGRAMS] if call is not None else []


def fitting(signature: ToolSignature, given: dict[str, Any]) -> dict[str, Any]:
    try:
        checked = msgspec.convert(given, signature.arguments, strict=False)
    except msgspec.ValidationError as error:
        wanted = msgspec.json.encode(signature.schema["properties"]).decode()
        raise ToolError(
            f"bad arguments for {signature.name}: {error}; it takes {wanted}", retry="changed"
        ) from None
    built: dict[str, Any] = msgspec.to_builtins(checked)
    return built


def shown(result: SandboxResult) -> str:
    """What it printed, then what it returned."""
    value = result.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if not result.output.strip():
        return text
    return result.output.rstrip() + ("" if value is None else f"\n[returned]\n{text}")


async def run_again(
    _context: ToolContext, _note: dict[str, Any], /, **_arguments: Any
) -> RecoveryResult:
    # It has no effects but its calls; those that had finished are in the journal and not repeated.
    return "again"
