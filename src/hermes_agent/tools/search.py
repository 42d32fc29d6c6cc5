"""Find lines and files below a folder through the session's terminal."""

from collections.abc import Sequence
from posixpath import join, relpath
from typing import Annotated, Literal

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import SearchMatch
from hermes_agent.core.text.sensitive_paths import holds_secrets
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool

LINE_CHARS = 300


@tool(capabilities=("filesystem",), repeatable=True, paths={"path": "read"}, located=True)
async def search_files(
    context: ToolContext,
    pattern: str,
    path: str = ".",
    files: str = "",
    mode: Literal["content", "names"] = "content",
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50,
) -> ToolResult:
    """Find lines by regular expression (`files`: only in files fitting this glob), or, with mode
    `names`, files by glob, newest first."""
    root = await context.resolve(path)
    if await context.terminal.stat(root) is None:
        raise ToolError(f"no file or folder at {path!r}")
    if mode == "names":
        if files:
            raise ToolError("`files` narrows a search in contents", "put the glob in `pattern`")
        names = [fact.path for fact in await context.terminal.find(root, pattern, limit + 1)]
        rows = [_shown(context, name) for name in names]
        return _result(rows, limit, "files", "")
    matches = await context.terminal.grep(root, pattern, files or "*", limit + 1)
    open_to_see, withheld = await _sifted(context, root, matches)
    rows = [
        f"{_shown(context, match.path)}:{match.line}: {_short(match.text)}" for match in open_to_see
    ]
    note = "[left out, as they may contain secrets or are elsewhere: " + ", ".join(withheld) + "]"
    return _result(rows, limit, "lines", note if withheld else "")


async def _sifted(
    context: ToolContext, root: str, matches: Sequence[SearchMatch]
) -> tuple[list[SearchMatch], list[str]]:
    """The matches that may be shown, and the files of the others. The gate judged only the root: a
    link out of it, or a file of secrets below it, must be requested by its own name."""
    may: dict[str, bool] = {}
    for match in matches:
        if match.path not in may:
            real = await context.terminal.resolve(match.path)
            within = real == root or real.startswith(join(root, ""))
            secret = any(
                holds_secrets(relpath(name, root)) for name in (real, _absolute(context, match))
            )
            may[match.path] = within and (real == root or not secret)
    withheld = [_shown(context, name) for name, allowed in may.items() if not allowed]
    return [match for match in matches if may[match.path]], withheld


def _absolute(context: ToolContext, match: SearchMatch) -> str:
    return join(context.terminal.workspace, match.path)


def _shown(context: ToolContext, path: str) -> str:
    """Relative to the workspace if inside."""
    return path.removeprefix(join(context.terminal.workspace, ""))


def _result(rows: list[str], limit: int, what: str, note: str) -> ToolResult:
    shown = rows[:limit]
    parts = shown or [f"no {what} found"]
    more = len(rows) > limit
    if more:
        parts = [*parts, f"[more than {limit} {what}; narrow the search or raise `limit`]"]
    if note:
        parts = [*parts, note]
    return ToolResult("\n".join(parts), {"found": len(shown), "more": more})


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…"
