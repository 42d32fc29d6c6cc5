"""Read, write and change text files through the session's terminal."""

import asyncio
import difflib
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any
from weakref import WeakValueDictionary

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import IMAGE_BYTES, Media
from hermes_agent.core.protocols import Terminal
from hermes_agent.core.text.sensitive_paths import may_hold_secrets
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, ToolContext, tool
from hermes_agent.tools.replace import Replaced, replace
from hermes_agent.tools.web.documents.types import HEAD, image_type, kind_of

READ_BYTES = 10_000_000
READ_CHARS = 15_000
"""The most that one call shows; the loop would cut more without saying how to continue."""
LINE_CHARS = 2_000
DIFF_BYTES = 200_000
"""Larger files get no diff: it would take seconds."""
DIFF_CHARS = 8_000
"""The most of a diff that is stored with the result."""

_writers: "WeakValueDictionary[tuple[int, str], asyncio.Lock]" = WeakValueDictionary()


def _writer(path: str) -> asyncio.Lock:
    """One change to a file at a time: sessions may share a workspace, and a patch reads before it
    writes. A lock belongs to one event loop, so the key names it."""
    return _writers.setdefault((id(asyncio.get_running_loop()), path), asyncio.Lock())


@tool(capabilities=("filesystem",), repeatable=True, paths={"path": "read"}, located=True)
async def read_file(
    context: ToolContext,
    path: str,
    start: Annotated[int, Meta(ge=1)] = 1,
    lines: Annotated[int, Meta(ge=1)] = 400,
) -> ToolResult:
    """Read a text, PDF or Office file as `number|line`, from line `start`; an image is shown."""
    data = await _bytes(context, path)
    if (kind := image_type(data)) is not None:
        return _image(path, data, kind)
    text, note = await _readable(path, data)
    there = _lines(text)
    if not there:
        return ToolResult("[the file is empty]", {"path": path, "lines": 0})
    if start > len(there):
        raise ToolError(f"{path!r} has {len(there)} lines; line {start} is past its end")
    shown = _numbered(there, start, start - 1 + lines)
    last = start - 1 + len(shown)
    if start > 1 or last < len(there):
        on = f"; continue with start={last + 1}" if last < len(there) else ""
        note = f"[lines {start} to {last} of {len(there)}{on}]{note}"
    facts = {"path": path, "start": start, "shown": len(shown), "lines": len(there)}
    return ToolResult("\n".join([*shown, *([note] if note else [])]), facts)


async def _prepare_write(context: ToolContext, path: str, content: str) -> dict[str, Any]:
    return await _note(context, path, content.encode())


async def _recover(context: ToolContext, note: dict[str, Any], **_arguments: Any) -> RecoveryResult:
    """The file's hash shows whether it was written: the note has the one before and after."""
    path = note["path"]
    now = _hash(await _present(context.terminal, path))
    if now == note["after"]:
        return ToolResult(f"{path} was written before the restart", {"path": path})
    return "not-run" if now == note["before"] else None


def _undo(note: dict[str, Any], _arguments: Mapping[str, Any], result: ToolResult) -> str:
    """A small change is reverted by its diff; a new file by removing it."""
    if note["before"] is None:
        return f"remove {note['path']}"
    if 0 < len(str(result.data.get("diff", ""))) <= DIFF_CHARS:
        return f"reverse its recorded diff in {note['path']}: patch -R"
    return ""


async def _preview_write(terminal: Terminal, path: str, content: str) -> str:
    real = await terminal.resolve(path)
    return _preview(real, await _present(terminal, real), content.encode())


@tool(
    capabilities=("filesystem",),
    paths={"path": "write"},
    located=True,
    preview=_preview_write,
    prepare=_prepare_write,
    recover=_recover,
    inverse=_undo,
)
async def write_file(context: ToolContext, path: str, content: str) -> ToolResult:
    """Create a text file, or replace it whole; folders are created as needed."""
    real = await context.resolve(path)
    async with _writer(real):
        before = await _present(context.terminal, real)
        after = content.encode()
        await context.terminal.write(real, after)
    word = "made" if before is None else "replaced"
    text = f"{word} {path} ({len(_lines(content))} lines, {len(after)} bytes)"
    return ToolResult(text, _facts(real, before, after))


async def _prepare_patch(
    context: ToolContext, path: str, old: str, new: str, all: bool
) -> dict[str, Any]:
    before, done = await _patched(context, path, old, new, all)
    return await _note(context, path, done.text.encode(), before)


async def _preview_patch(terminal: Terminal, path: str, old: str, new: str, all: bool) -> str:
    real = await terminal.resolve(path)
    before = await _present(terminal, real)
    if before is None or isinstance(before, _Large):
        return ""
    text, damage = _decoded(path, before)
    return (
        ""
        if damage
        else _preview(real, before, replace(text, old, new, everywhere=all).text.encode())
    )


@tool(
    capabilities=("filesystem",),
    paths={"path": "write"},
    located=True,
    preview=_preview_patch,
    prepare=_prepare_patch,
    recover=_recover,
    inverse=_undo,
)
async def patch(
    context: ToolContext, path: str, old: str, new: str, all: bool = False
) -> ToolResult:
    """Replace the passage `old`, exact and unique, by `new` in a text file. `all`: replace every
    occurrence."""
    real = await context.resolve(path)
    async with _writer(real):
        before, done = await _patched(context, path, old, new, all)
        await context.terminal.write(real, done.text.encode())
    many = len(done.lines)
    text = (
        f"replaced {many} passages" if many > 1 else f"replaced the passage at line {done.lines[0]}"
    )
    if done.loosely:
        text += "; white space differed from `old`, so the file's own was used"
    return ToolResult(
        f"{path}: {text}", {**_facts(real, before, done.text.encode()), "replaced": many}
    )


async def _patched(
    context: ToolContext, path: str, old: str, new: str, everywhere: bool
) -> tuple[bytes, Replaced]:
    before = await _bytes(context, path)
    _refuse_binary(path, before)
    text, damage = _decoded(path, before)
    if damage:
        raise ToolError(f"{path!r} is not UTF-8; a patch would damage it")
    try:
        return before, replace(text, old, new, everywhere=everywhere)
    except ToolError as error:
        raise ToolError(f"{path}: {error.message}", error.hint) from None


async def _note(
    context: ToolContext, path: str, after: bytes, before: bytes | None = None
) -> dict[str, Any]:
    real = await context.resolve(path)
    if before is None:
        before = await _present(context.terminal, real)
    return {"path": real, "before": _hash(before), "after": _hash(after)}


def _hash(data: bytes | None) -> str | None:
    return None if data is None else sha256(data).hexdigest()


class _Large(bytes):
    """Stands for the content of a file that is too large to read: its size and time."""


async def _present(terminal: Terminal, path: str) -> bytes | None:
    """The current content; None when there is no file."""
    facts = await terminal.stat(path)
    if facts is None:
        return None
    if facts.kind != "file":
        raise ToolError(f"{path!r} is not a file but a {facts.kind}")
    if facts.size > READ_BYTES:
        return _Large(f"{facts.size} bytes of {facts.modified}".encode())
    return await terminal.read(path)


def _refuse_binary(path: str, data: bytes) -> None:
    if b"\0" in data:
        raise ToolError(f"{path!r} is not text ({len(data)} bytes)", "a command can inspect it")


def _image(path: str, data: bytes, type: str) -> ToolResult:
    if len(data) > IMAGE_BYTES:
        raise ToolError(
            f"{path!r} is an image of {len(data)} bytes; the limit is {IMAGE_BYTES}",
            "a command can make it smaller",
        )
    facts = {"path": path, "bytes": len(data), "type": type}
    name = path.rpartition("/")[2]
    return ToolResult(
        f"[{name}: {type}, {len(data)} bytes]", facts, files=(Media(type, data, name),)
    )


async def _bytes(context: ToolContext, path: str) -> bytes:
    """The bytes of a file of reasonable size."""
    real = await context.resolve(path)
    facts = await context.terminal.stat(real)
    names = "search_files with mode 'names' finds files"
    if facts is None:
        raise ToolError(f"no file at {path!r}", names)
    if facts.kind != "file":
        raise ToolError(f"{path!r} is not a file but a {facts.kind}", names)
    if facts.size > READ_BYTES:
        raise ToolError(
            f"{path!r} is too large: {facts.size} bytes, the limit is {READ_BYTES}",
            "search_files finds the lines, or take a part with a command such as sed or tail",
        )
    return await context.terminal.read(real)


async def _readable(path: str, data: bytes) -> tuple[str, str]:
    """The text of a document or text file, and a note about it."""
    if kind_of("application/zip", path, data[:HEAD]) not in {"pdf", "office"}:
        _refuse_binary(path, data)
        return _decoded(path, data)
    from hermes_agent.tools.web.documents.worker import extract_apart

    made = await extract_apart(data, "", path)
    return made.text, "".join(f"[{note}]" for note in made.notes)


def _decoded(path: str, data: bytes) -> tuple[str, str]:
    """The text, and a note about it."""
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return data.decode(errors="replace"), f"[{path} is not UTF-8; some bytes show as \ufffd]"


def _lines(text: str) -> list[str]:
    """Lines as grep and sed count them, so that numbers agree; str.splitlines breaks at more."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _numbered(lines: list[str], first: int, last: int) -> list[str]:
    """Numbered lines from `first` to `last`, fewer when they would be too much at once."""
    shown: list[str] = []
    room = READ_CHARS
    for number, line in enumerate(lines[first - 1 : last], first):
        extra = len(line) - LINE_CHARS
        if extra > 0:
            line = f"{line[:LINE_CHARS]}… [{extra} more characters]"
        row = f"{number}|{line}"
        room -= len(row) + 1
        if room < 0 and shown:
            break
        shown.append(row)
    return shown


def _diff(before: bytes | None, after: bytes) -> list[str] | None:
    """The rows of a diff; None if it would take too long."""
    if isinstance(before, _Large) or len(before or b"") + len(after) > DIFF_BYTES:
        return None
    old = _lines((before or b"").decode(errors="replace"))
    new = _lines(after.decode())
    return list(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def _counts(rows: list[str]) -> tuple[int, int]:
    """How many lines a diff adds and removes."""
    return sum(row.startswith("+") for row in rows[2:]), sum(r.startswith("-") for r in rows[2:])


def _preview(path: str, before: bytes | None, after: bytes) -> str:
    """What people are shown before they allow a change."""
    if before is None:
        return f"creates a new file of {len(_lines(after.decode())):,} lines"
    if may_hold_secrets(path):
        return "replaces a file that may contain secrets, so the old content is not shown"
    rows = _diff(before, after)
    if rows is None:
        return "changes an existing file that is too large to compare here"
    added, removed = _counts(rows)
    count = len(_lines(before.decode(errors="replace")))
    head = f"changes an existing file of {count:,} lines: {added:,} added, {removed:,} removed"
    return "\n".join([head, *rows[2:]])


def _facts(path: str, before: bytes | None, after: bytes) -> dict[str, Any]:
    """Facts about a change, with its diff."""
    facts: dict[str, Any] = {"path": path, "created": before is None, "bytes": len(after)}
    rows = _diff(before, after)
    if rows is None:
        return facts
    diff = "\n".join(rows)
    if len(diff) > DIFF_CHARS:
        diff = f"{diff[:DIFF_CHARS]}\n… {len(diff) - DIFF_CHARS} more characters"
    added, removed = _counts(rows)
    return {**facts, "added": added, "removed": removed, "diff": diff}
