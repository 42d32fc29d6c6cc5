"""The tools of memory and skills."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hermes_agent.core.errors import ToolError
from hermes_agent.core.knowledge import NoteEdit, View
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import KnowledgeService, Provenance, RecoveryResult, ToolContext, tool

OUTPUT_CHARS = 4_000
"""Of one command in a skill's text."""
SEARCHED = ("skill", "note", "session", "message", "incident")


def _learned(context: ToolContext) -> KnowledgeService:
    if context.services.knowledge is None:
        raise ToolError("this session has no memory", "do without it", "never")
    return context.services.knowledge


def _writer(context: ToolContext) -> Provenance:
    return Provenance(context.session, context.effect, context.services.model)


async def _was_noted(context: ToolContext, _note: dict[str, Any], **_given: Any) -> RecoveryResult:
    if await _learned(context).noted(_writer(context)):
        return ToolResult("noted")
    return "not-run"


@tool(recover=_was_noted)
async def memory(
    context: ToolContext,
    action: Literal["add", "replace", "remove"],
    text: str = "",
    old: str = "",
    about: View = "memory",
) -> ToolResult:
    """Remember for later sessions what will be needed again: facts of the systems and lessons
    (`memory`), who the user is and wants (`user`). `old`: a part of the note to replace or remove.
    Not for what the task at hand needs, nor what can be looked up."""
    learned = _learned(context)
    if action != "remove" and not text.strip():
        raise ToolError(f"{action} needs a text", retry="changed")
    if action != "add" and not old.strip():
        raise ToolError(f"{action} needs `old`: a part of the note", retry="changed")
    id = 0 if action == "add" else await learned.which(about, old)
    edit = NoteEdit(None if action == "remove" else text, id, about)
    return ToolResult(await learned.note([edit], _writer(context)))


async def _opening(
    context: ToolContext, name: str, arguments: str = "", file: str = ""
) -> dict[str, Any]:
    """What becomes active is written down before any command of the skill runs."""
    if file and not _is_the_skill(file):
        return {}
    opened = await _learned(context).open_skill(name, arguments)
    return {"opened": msgspec.to_builtins(opened.opened)}


@tool(repeatable=True, prepare=_opening)
async def skill(context: ToolContext, name: str, arguments: str = "", file: str = "") -> ToolResult:
    """Open a skill, with its arguments as words or name=value; or read one of its files."""
    learned = _learned(context)
    if file and not _is_the_skill(file):
        return ToolResult(await learned.read_skill(name, file), {"skill": name, "file": file})
    # What was written down is what is shown, whatever has become of the skill since.
    digest = context.note.get("opened", {}).get("digest", "")
    commanded = context.services.incident
    facts = None if commanded is None else await commanded.facts(arguments)
    found = await learned.open_skill(name, arguments, digest, facts)
    parts, at = [], 0
    for snippet in found.snippets:
        parts += [found.text[at : snippet.start], await _output(context, snippet.command)]
        at = snippet.end
    return ToolResult("".join([*parts, found.text[at:]]), {"skill": name})


def _is_the_skill(file: str) -> bool:
    """Whoever reads the text itself opens the skill: its bounds come with it."""
    return file.removeprefix("./").casefold() == "skill.md"


async def _output(context: ToolContext, command: str) -> str:
    """What a command in a skill's text prints; it is a call like any other."""
    assert context.call is not None
    if "terminal" not in context.services.tools:
        return f"(not run, there is no terminal: {command})"
    done = await context.call("terminal", {"command": command})
    shown = done.text if len(done.text) <= OUTPUT_CHARS else f"{done.text[:OUTPUT_CHARS]}…"
    return shown if done.ok else f"({command} did not work: {shown})"


async def _was_written(
    _context: ToolContext, _note: dict[str, Any], **_given: Any
) -> RecoveryResult:
    # The same text again is no new version.
    return "again"


@tool(recover=_was_written)
async def write_skill(
    context: ToolContext, name: str, files: Mapping[str, str], why: str
) -> ToolResult:
    """Write down a procedure that will be needed again, or improve one (`SKILL.md`: frontmatter
    with name and description, then When to Use, Procedure, Pitfalls, Verification; optionally
    `runbook.yaml`). The skill write-a-skill says how. `why`: what it comes from. It is a candidate
    until it is proven."""
    return ToolResult(await _learned(context).write_skill(name, files, why, _writer(context)))


@tool(repeatable=True)
async def recall(
    context: ToolContext,
    query: str,
    kind: Literal["", "skill", "note", "session", "message", "incident"] = "",
    limit: int = 8,
) -> ToolResult:
    """Search everything seen before: past sessions and their messages, notes, skills, incidents."""
    kinds = (kind,) if kind else SEARCHED
    most = max(1, min(limit, 50))
    return ToolResult(await _learned(context).recall(query, kinds, most, _writer(context)))
