"""A message to people, by a channel."""

from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import Media
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, ToolContext, tool

MAX_BYTES = 20_000_000
MAX_FILES = 10


async def _recover(_context: ToolContext, _note: dict[str, Any], **_given: Any) -> RecoveryResult:
    return "again"  # what was handed in for this effect is not handed in twice


@tool(capabilities=("messages",), paths={"files": "read"}, located=True, recover=_recover)
async def send_message(
    context: ToolContext,
    text: str = "",
    target: str = "here",
    files: tuple[str, ...] = (),
    after: str = "",
) -> ToolResult:
    """Send a message or `files` (paths) to people. `target`: `here` (this chat), a channel's home
    (`telegram`), a chat (`telegram:CHAT`), the owner's `phone`, or `all` homes. Your answers reach
    this chat anyway. `after`: id of a background command; sent with its outcome when it ends."""
    if context.services.messenger is None:
        raise ToolError("this session cannot send messages", "say it in your answer", "never")
    if len(files) > MAX_FILES:
        raise ToolError(f"at most {MAX_FILES} files go with a message", "send several", "changed")
    if after:
        if files:
            raise ToolError("files cannot wait for a command", "send them once it ended", "changed")
        where = await context.services.messenger.send_after(context.effect, target, text, after)
        return ToolResult(f"goes to {', '.join(where)} when {after} ends", {"targets": list(where)})
    media = [await _read(context, path) for path in files]
    where = await context.services.messenger.send(context.effect, target, text, media)
    return ToolResult(f"on its way to {', '.join(where)}", {"targets": list(where)})


async def read_whole(context: ToolContext, path: str) -> bytes:
    """A file that is not too large: a sparse one may be larger than the memory."""
    real = await context.resolve(path)
    try:
        facts = await context.terminal.stat(real)
        if facts is not None and facts.size > MAX_BYTES:
            what = f"{path} has more than {MAX_BYTES // 1_000_000} MB"
            raise ToolError(what, "use a part of it", "changed")
        return await context.terminal.read(real)
    except (FileNotFoundError, IsADirectoryError):
        raise ToolError(f"no file at {path!r}", "name an existing one", "changed") from None


async def _read(context: ToolContext, path: str) -> Media:
    from mimetypes import guess_type

    data = await read_whole(context, path)
    name = path.rpartition("/")[2]
    return Media(guess_type(name)[0] or "application/octet-stream", data, name)
