"""Results that are too large for the model: stored on disk, shown in part."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool

LINES = 400
PAGE_CHARS = 16_000
"""The most that is shown of a stored result at once."""
LINE_CHARS = 4_000
"""A longer line is shown as several."""
NOTE_CHARS = 100
"""Room for the note below a page."""


class ResultStore:
    """The stored results of one session."""

    def __init__(self, folder: Path, most: Callable[[], int]) -> None:
        self._folder = folder
        self._most = most

    async def shown(self, effect: str, text: str) -> str:
        """What the model sees of a result: all of it, or both ends and how to read the rest."""
        limit = self._most()
        if len(text) <= limit:
            return text
        whole = self._folder / f"{effect}.txt"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # As bytes, to preserve line endings.
            await asyncio.to_thread(whole.write_bytes, text.encode("utf-8", "replace"))
            kept = f'read_on(result="{effect}") shows the whole'
        except OSError as error:
            kept = f"they could not be saved: {error}"
        half = limit // 2
        left_out = len(text) - 2 * half
        return f"{text[:half]}\n[… {left_out} characters left out; {kept} …]\n{text[-half:]}"

    async def whole(self, effect: str, shown: str) -> str:
        """The full result; `shown` when nothing was left out."""
        try:
            kept = await asyncio.to_thread((self._folder / f"{effect}.txt").read_bytes)
        except FileNotFoundError:
            return shown
        return kept.decode()


@tool(repeatable=True)
async def read_on(
    context: ToolContext, result: str, start: Annotated[int, Meta(ge=1)] = 1
) -> ToolResult:
    """Read a result that was cut, from line `start`."""
    path = context.results / f"{result}.txt" if context.results and _is_plain(result) else None
    if path is None or not path.is_file():
        raise ToolError(f"no stored result {result!r}", "the shortened result names it", "changed")
    # A page must not be larger than a result may be.
    room = max(NOTE_CHARS, min(PAGE_CHARS, context.settings.loop.result_chars) - NOTE_CHARS)
    kept = await asyncio.to_thread(path.read_bytes)
    lines = _lines(kept.decode(), min(LINE_CHARS, room))
    if start > len(lines):
        raise ToolError(f"it has {len(lines)} lines", retry="changed")
    shown: list[str] = []
    for line in lines[start - 1 : start - 1 + LINES]:
        room -= len(line) + 1
        if shown and room < 0:
            break
        shown.append(line)
    last = start - 1 + len(shown)
    on = f"; continue with start={last + 1}" if last < len(lines) else ""
    note = f"[lines {start} to {last} of {len(lines)}{on}]"
    facts = {"result": result, "start": start, "shown": len(shown), "lines": len(lines)}
    return ToolResult("\n".join([*shown, note]), facts)


def _lines(text: str, most: int) -> list[str]:
    return [
        line[at : at + most]
        for line in text.splitlines()
        for at in range(0, max(1, len(line)), most)
    ]


def _is_plain(name: str) -> bool:
    return "/" not in name and "\0" not in name and ".." not in name
