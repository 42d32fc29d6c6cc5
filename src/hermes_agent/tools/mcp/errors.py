"""What went wrong between a server and us, as it is told."""

from mcp import MCPError
from mcp.types import INVALID_PARAMS
from pydantic import ValidationError

from hermes_agent.core.errors import HermesError, OutcomeUnknown, ToolError
from hermes_agent.tools.mcp.catalogue_cache import first_line
from hermes_agent.tools.mcp.transports.http import Trouble


def on_the_way(name: str, trouble: Trouble, message: str) -> ToolError:
    match trouble:
        case "login":
            return ToolError(f"{name} wants a login", f"`hermes mcp login {name}`", "never")
        case "busy":
            return ToolError(f"{name} has no time for it now ({message})", retry="same")
        case "unsent" | "expired" | "lost":
            return ToolError(f"{name} cannot be reached: {message}", retry="same")
        case "astray":
            return ToolError(
                f"{name} sends us to {message}",
                "a login that is not at the server itself must be at a public https address",
                "never",
            )
        case "refused":
            return ToolError(f"{name} refused: {message}")


def refused(name: str, what: str, error: MCPError) -> ToolError:
    said = first_line(error.message, 1_000)
    changed = error.code == INVALID_PARAMS
    return ToolError(f"{name} refused {what}: {said}", retry="changed" if changed else "")


def lost(name: str, what: str, effect: bool) -> HermesError:
    if effect:
        return OutcomeUnknown(f"{name} went away while {what} ran")
    return ToolError(f"{name} went away while it was asked for {what}", retry="same")


def silent(name: str, what: str, seconds: float, effect: bool) -> HermesError:
    said = f"nothing was heard of {what} of {name} for {seconds:g} seconds"
    return OutcomeUnknown(said) if effect else ToolError(said, retry="same")


def cause(error: BaseException) -> Exception:
    """What lies at the bottom of a group, as something to tell."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, HermesError | MCPError):
        return error
    if isinstance(error, ValidationError):
        return ToolError(f"it does not keep to the protocol: {wrong(error)}")
    return ToolError(f"{type(error).__name__}: {first_line(str(error), 300)}", retry="same")


def wrong(error: ValidationError) -> str:
    """Where an answer is not as it must be."""
    first = error.errors()[0]
    return first_line(f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}", 300)
