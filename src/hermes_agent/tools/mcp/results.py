"""A server's answer as a tool result: framed text for the model, images, the rest as data."""

import base64
import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import IMAGE_BYTES, Media
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.mcp.catalogue_cache import first_line

if TYPE_CHECKING:
    from mcp.types import (
        CallToolResult,
        ContentBlock,
        GetPromptResult,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
    )

ERROR_CHARS = 4_000
DATA_BYTES = 100_000
"""Larger structured content is only shown as text."""
IMAGES = 10
LISTED = 200
"""Rows of a list."""
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def tool_result(
    server: str, tool: str, answer: "CallToolResult", hints: dict[str, bool]
) -> ToolResult:
    shown = _Shown()
    for block in answer.content:
        shown.add(block)
    data: dict[str, Any] = {"server": server, "tool": tool, "hints": hints}
    if (structured := answer.structured_content) is not None:
        written = msgspec.json.encode(structured)
        if len(written) <= DATA_BYTES:
            data["structured"] = structured
        if not shown.parts:
            shown.parts.append(written.decode())
    if answer.is_error:
        said = "\n".join(shown.parts)[:ERROR_CHARS] or "it does not say why"
        raise ToolError(f"{tool} of {server} failed: {wrap_untrusted('mcp', server, said)}")
    return shown.result(server, data)


def resource_result(server: str, uri: str, answer: "ReadResourceResult") -> ToolResult:
    shown = _Shown()
    for content in answer.contents:
        shown.resource(content)
    return shown.result(server, {"server": server, "uri": uri})


def prompt_result(server: str, name: str, answer: "GetPromptResult") -> ToolResult:
    shown = _Shown()
    for message in answer.messages:
        shown.parts.append(f"[{message.role}]")
        shown.add(message.content)
    return shown.result(server, {"server": server, "prompt": name})


def resource_list(
    server: str, resources: "list[Resource]", templates: "list[ResourceTemplate]"
) -> ToolResult:
    rows = [_row(one.uri, one.name, one.description) for one in resources]
    rows += [_row(one.uri_template, one.name, one.description) for one in templates]
    return _listing(server, rows, "resources")


def prompt_list(server: str, prompts: "list[Prompt]") -> ToolResult:
    rows = [_row(signature(one), one.title or "", one.description) for one in prompts]
    return _listing(server, rows, "prompts")


def signature(prompt: "Prompt") -> str:
    arguments = [
        first_line(one.name, 60) + ("" if one.required else "?") for one in prompt.arguments or ()
    ]
    return f"{first_line(prompt.name, 100)}({', '.join(arguments[:20])})"


def _row(name: str, title: str, about: str | None) -> str:
    return "  ".join(
        part for part in (name[:500], first_line(title), first_line(about or "")) if part
    )


def _listing(server: str, rows: list[str], what: str) -> ToolResult:
    more = f"\n[{len(rows) - LISTED} more]" if len(rows) > LISTED else ""
    text = "\n".join(rows[:LISTED]) + more or f"no {what}"
    return ToolResult(wrap_untrusted("mcp", server, text), {"server": server, what: len(rows)})


class _Shown:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self._files: list[Media] = []

    def add(self, block: "ContentBlock") -> None:
        match block.type:
            case "text":
                self.parts.append(block.text)
            case "image":
                self._binary("image", block.mime_type, block.data)
            case "audio":
                self._binary("audio", block.mime_type, block.data)
            case "resource":
                self.resource(block.resource)
            case "resource_link":
                self.parts.append(f"[resource {_row(block.uri, block.name, block.description)}]")

    def resource(self, content: Any) -> None:
        kind = content.mime_type or ""
        if (text := getattr(content, "text", None)) is not None:
            self.parts.append(f"[{content.uri} {kind}]".replace(" ]", "]"))
            self.parts.append(text)
        else:
            self._binary(content.uri, kind, content.blob)

    def _binary(self, what: str, kind: str, encoded: str) -> None:
        """Attach an image that models accept; mention anything else."""
        size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
        note = f"{f'{what} {kind}'.strip()}, {size} bytes"
        if kind not in _IMAGE_TYPES:
            self.parts.append(f"[{note}: not shown]")
        elif size > IMAGE_BYTES or len(self._files) >= IMAGES:
            self.parts.append(f"[{note}: too large to show]")
        else:
            try:
                self._files.append(Media(kind, base64.b64decode(encoded, validate=True)))
            except binascii.Error:
                self.parts.append(f"[{note}: damaged]")
            else:
                self.parts.append(f"[{note}]")

    def result(self, server: str, data: dict[str, Any]) -> ToolResult:
        text = "\n".join(_valid(self.parts)) or "[nothing]"
        return ToolResult(wrap_untrusted("mcp", server, text), data, files=tuple(self._files))


def _valid(parts: Iterable[str]) -> Iterable[str]:
    return (part.encode("utf-8", "replace").decode() for part in parts)
