"""Pictures and sound: make an image, speak a text, transcribe a recording."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Literal

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.messages import Media
from hermes_agent.core.protocols import MediaModels
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.send import read_whole


@tool(capabilities=("network", "filesystem"), paths={"path": "write"}, located=True)
async def make_image(
    context: ToolContext,
    prompt: str,
    path: str,
    size: Literal["1024x1024", "1024x1536", "1536x1024", "auto"] = "auto",
) -> ToolResult:
    """Make an image and write it to a file (PNG); `send_message` sends it."""
    with _as_tool_error():
        made = await _models(context).draw(prompt, size)
    await context.terminal.write(await context.resolve(path), made.data)
    return ToolResult(f"{path}: {len(made.data)} bytes", {"path": path}, cost=None)


@tool(
    capabilities=("network", "filesystem"), repeatable=True, paths={"path": "write"}, located=True
)
async def speak(context: ToolContext, text: str, path: str) -> ToolResult:
    """Speak a text into a file (Ogg); `send_message` sends it as a voice message."""
    with _as_tool_error():
        made = await _models(context).speak(text)
    if made is None:
        raise ToolError("nothing in this text can be spoken", retry="changed")
    await context.terminal.write(await context.resolve(path), made.data)
    return ToolResult(f"{path}: {len(made.data)} bytes", {"path": path}, cost=None)


@tool(capabilities=("network", "filesystem"), repeatable=True, paths={"path": "read"}, located=True)
async def transcribe(context: ToolContext, path: str) -> ToolResult:
    """The words of a recording."""
    data = await read_whole(context, path)
    with _as_tool_error():
        words = await _models(context).transcribe(Media("", data, PurePosixPath(path).name))
    return ToolResult(wrap_untrusted("recording", path, words or "no words"), cost=None)


@contextmanager
def _as_tool_error() -> Iterator[None]:
    """The model reads why it did not work; a service that fails is no fault of ours."""
    try:
        yield
    except ToolError:
        raise
    except HermesError as error:
        raise ToolError(error.message, error.hint, "changed") from None


def _models(context: ToolContext) -> MediaModels:
    if context.services.media is None:
        raise ToolError("this session has no models for this", "do without them", "never")
    return context.services.media
