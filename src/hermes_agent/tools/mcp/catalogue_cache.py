"""What a server offers, cached on disk between connections: bounded and sanitised."""

import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.settings.root import McpServerSettings

MAX_TOOLS = 1_000
"""Tools of one server; more are left out."""
DESCRIPTION_CHARS = 2_000
LINE_CHARS = 160
NAME_CHARS = 200
"""A tool with a longer name is left out."""
SCHEMA_BYTES = 20_000
READ_RESOURCE = "read_resource"
GET_PROMPT = "get_prompt"

_ANYTHING: Mapping[str, Any] = {"type": "object"}


class McpToolFacts(Struct, frozen=True):
    name: str
    """As the server calls it."""
    description: str
    schema: dict[str, Any]
    hints: dict[str, bool] = {}
    """The server's own hints: read-only, destructive and so on. Not verified."""


class ServerFacts(Struct, frozen=True):
    key: str
    """Hash of the settings it was reached with."""
    seen: float
    title: str
    """The server's own name and version."""
    version: str
    """Of the protocol."""
    tools: tuple[McpToolFacts, ...] = ()
    left_out: int = 0
    resources: bool = False
    prompts: tuple[str, ...] = ()
    """As `name(argument, argument)`."""
    agreed: tuple[McpToolFacts, ...] | None = None
    """The tools as they were when first seen, or when a person agreed to them."""

    def changed(self) -> dict[str, tuple[McpToolFacts | None, McpToolFacts]]:
        """The tools that are not as they were agreed to: before and now."""
        agreed = {tool.name: tool for tool in self.agreed or ()}
        return {
            tool.name: (agreed.get(tool.name), tool)
            for tool in self.tools
            if agreed.get(tool.name) != tool
        }

    def offered(self, settings: McpServerSettings) -> list[str]:
        """The allowed names: tools, and those for resources and prompts."""
        names = [tool.name for tool in self.tools]
        names += [READ_RESOURCE] if self.resources and READ_RESOURCE not in names else []
        names += [GET_PROMPT] if self.prompts and GET_PROMPT not in names else []
        return [name for name in names if allowed(name, settings)]


def allowed(name: str, settings: McpServerSettings) -> bool:
    def fits(globs: Iterable[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs)

    return (not settings.include or fits(settings.include)) and not fits(settings.exclude)


def settings_key(settings: McpServerSettings) -> str:
    """Changes with the settings that decide which server is reached, and as whom."""
    told = (settings.command, settings.url, settings.environment, settings.headers, settings.oauth)
    return sha256(msgspec.json.encode(told, order="sorted")).hexdigest()[:16]


def clean(text: str, most: int) -> str:
    """Printable and not too long."""
    shown = "".join(sign for sign in text[: most * 4] if sign.isprintable() or sign in "\n\t")
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def first_line(text: str, most: int = LINE_CHARS) -> str:
    return clean(" ".join(text[: most * 4].split()), most)


def tool_facts(
    name: str, description: str, schema: Mapping[str, Any], hints: Mapping[str, bool]
) -> McpToolFacts:
    kept, whole = _bounded(schema)
    mark = sha256(msgspec.json.encode(schema)).hexdigest()[:16]
    note = "" if whole else f"\n(its schema is too large to show: {mark})"
    return McpToolFacts(name, clean(description, DESCRIPTION_CHARS) + note, kept, dict(hints))


def _bounded(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES:
        return dict(_ANYTHING), False
    kept = {**schema, "type": "object"}
    required = kept.pop("required", None)
    if isinstance(required, list):
        kept["required"] = [name for name in required if isinstance(name, str)]
    return kept, True


class CatalogueCache:
    """The facts of every server, one file each, shared by the processes of this home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, tuple[int, ServerFacts | None]] = {}

    def get(self, name: str, settings: McpServerSettings) -> ServerFacts | None:
        """The cached facts of a server, if it was reached with these settings."""
        path = self.path(name, ".json")
        try:
            stamp = path.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        known = self._read.get(path)
        if known is None or known[0] != stamp:
            known = self._read[path] = (stamp, _decoded(path))
        facts = known[1]
        return facts if facts is not None and facts.key == settings_key(settings) else None

    def put(self, name: str, facts: ServerFacts) -> None:
        """Keep what a server offers now, beside what was agreed to. A tool that is new was agreed
        to with its server; one that is gone is remembered, in case it comes back another."""
        before, then = _decoded(self.path(name, ".json")), facts.tools
        if before is not None and before.key == facts.key:
            then = before.tools if before.agreed is None else before.agreed
        self._write(name, facts, (*facts.tools, *then))

    def agree(self, name: str, facts: ServerFacts) -> None:
        """Take the tools of a server as they are in these facts from now on."""
        self._write(name, facts, (*facts.tools, *(facts.agreed or ()), *facts.tools))

    def _write(self, name: str, facts: ServerFacts, agreed: Iterable[McpToolFacts]) -> None:
        """Of several tools of a name, the last is the one that was agreed to."""
        path, named = self.path(name, ".json"), {tool.name: tool for tool in agreed}
        facts = msgspec.structs.replace(facts, agreed=tuple(named.values())[: 5 * MAX_TOOLS])
        self.make()
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_bytes(msgspec.json.encode(facts))
        beside.replace(path)
        self._read.pop(path, None)

    def drop(self, name: str) -> None:
        for path in self._folder.glob(f"{self.path(name, '').name}.*"):
            path.unlink(missing_ok=True)

    def path(self, name: str, ending: str) -> Path:
        short = sha256(name.encode()).hexdigest()[:8]
        return self._folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:40]}-{short}{ending}"

    def make(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _decoded(path: Path) -> ServerFacts | None:
    """None for a file of another version: the server is asked again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError, FileNotFoundError):
        return None
