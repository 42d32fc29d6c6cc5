"""Runs a tool's function. A tool may be anyone's code: whatever it returns or raises becomes a
result that can be journaled and that the model can act on."""

import asyncio
import logging
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.effects import Permit
from hermes_agent.core.errors import OutcomeUnknown, ToolError
from hermes_agent.core.tool_results import ToolResult, failed, failure
from hermes_agent.core.tools import Tool, ToolContext
from hermes_agent.policy.redaction.redactor import Redactor

log = logging.getLogger("hermes.tools")


async def invoke(
    tool: Tool, permit: Permit, context: ToolContext, arguments: dict[str, Any]
) -> ToolResult:
    """Run a call. Of the tool's exceptions, only `OutcomeUnknown` is raised."""
    try:
        return _result(await tool.run(permit, context, arguments))
    except ToolError as error:
        return failed(error)
    except OutcomeUnknown:
        raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failure(f"{tool.name} failed: it was cancelled")
    except (Exception, SystemExit) as error:
        log.warning("%s failed", tool.name, exc_info=True)
        return crashed(tool.name, error)


def crashed(name: str, error: BaseException) -> ToolResult:
    """The result of a call that raised what nobody expected."""
    return failure(f"{name} failed: {type(error).__name__}: {error}")


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(value)
    return ToolResult(msgspec.json.encode(value, enc_hook=str).decode())


def writable(result: ToolResult, redact: Redactor) -> ToolResult:
    """The result without secrets, and with only what JSON can hold."""
    data = {str(key): _plain(value) for key, value in result.data.items()}
    return replace(result, text=redact(_valid(result.text)), data=redact.deep(data))


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    match value:
        case str():
            return _valid(value)
        case bool() | int() | None:
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case dict():
            return {_valid(str(key)): _plain(inner) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(inner) for inner in value]
        case _:
            return _valid(str(value))
