"""The built-in tools. Their specs are data, generated from the code by `make docs`; a tool's module
is imported when it is first called."""

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import install_hint, pip_name
from hermes_agent.tools.browser.executables import BROWSERS

if TYPE_CHECKING:
    from hermes_agent.core.messages import ToolSpec
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.core.tools import Tool

DATA = Path(__file__).with_name("builtin.json")


class BuiltinTool(NamedTuple):
    """A tool's module, toolset and required packages."""

    module: str
    toolset: str
    packages: tuple[str, ...] = ()
    extra: str = ""
    """The extra to install when a package is missing."""
    in_prompt: bool = True
    """Otherwise the model finds it with `find_tools`, and it costs no tokens until then."""


_FILES, _SHELL = "hermes_agent.tools.files", "hermes_agent.tools.terminal"
_LEARNING = "hermes_agent.learning.tools"
_BROWSER = "hermes_agent.tools.browser.tools"
_SOURCES = "hermes_agent.tools.sources"

TABLE: Mapping[str, BuiltinTool] = {
    "terminal": BuiltinTool(_SHELL, "terminal"),
    "process": BuiltinTool(_SHELL, "terminal"),
    "read_file": BuiltinTool(_FILES, "files"),
    "write_file": BuiltinTool(_FILES, "files"),
    "patch": BuiltinTool(_FILES, "files"),
    "search_files": BuiltinTool("hermes_agent.tools.search", "files"),
    "ask_user": BuiltinTool("hermes_agent.tools.ask", "people"),
    "read_on": BuiltinTool("hermes_agent.agent.tools.result_overflow", "base"),
    "todo": BuiltinTool("hermes_agent.tools.todo", "base"),
    "web_search": BuiltinTool("hermes_agent.tools.web.search", "web"),
    "web_fetch": BuiltinTool(
        "hermes_agent.tools.web.fetch", "web", ("trafilatura", "pypdf"), extra="web"
    ),
    "browser": BuiltinTool(_BROWSER, "browser"),
    "browser_act": BuiltinTool(_BROWSER, "browser"),
    "execute_code": BuiltinTool("hermes_agent.agent.tools.execute_code", "code"),
    "delegate": BuiltinTool("hermes_agent.agent.tools.delegate", "delegate"),
    "find_tools": BuiltinTool("hermes_agent.agent.tools.discovery", "base"),
    "use_tool": BuiltinTool("hermes_agent.agent.tools.discovery", "base"),
    "make_tool": BuiltinTool("hermes_agent.agent.authored_tools.service", "code"),
    "memory": BuiltinTool(_LEARNING, "memory"),
    "skill": BuiltinTool(_LEARNING, "skills"),
    "write_skill": BuiltinTool(_LEARNING, "skills"),
    "recall": BuiltinTool(_LEARNING, "memory"),
    "incident": BuiltinTool("hermes_agent.incidents.tools", "incident"),
    "task": BuiltinTool("hermes_agent.jobs.tools", "tasks"),
    "send_message": BuiltinTool("hermes_agent.tools.send", "messages"),
    "what_changed": BuiltinTool(f"{_SOURCES}.changes", "sources", in_prompt=False),
    "prometheus": BuiltinTool(f"{_SOURCES}.prometheus", "sources", in_prompt=False),
    "kubernetes": BuiltinTool(f"{_SOURCES}.kubernetes", "sources", in_prompt=False),
    "containers": BuiltinTool(f"{_SOURCES}.containers", "sources", in_prompt=False),
    "git_host": BuiltinTool(f"{_SOURCES}.git_hosts.tool", "sources", in_prompt=False),
    "open_pull_request": BuiltinTool(f"{_SOURCES}.git_hosts.tool", "sources", in_prompt=False),
    "argocd": BuiltinTool(f"{_SOURCES}.argocd", "sources", in_prompt=False),
    "postgresql": BuiltinTool(
        f"{_SOURCES}.databases.postgresql", "sources", ("psycopg",), "sources", in_prompt=False
    ),
    "mysql": BuiltinTool(
        f"{_SOURCES}.databases.mysql", "sources", ("pymysql",), "sources", in_prompt=False
    ),
    "redis": BuiltinTool(f"{_SOURCES}.databases.redis", "sources", in_prompt=False),
    "probe": BuiltinTool(f"{_SOURCES}.probe", "sources", in_prompt=False),
    "remind": BuiltinTool("hermes_agent.jobs.tools", "tasks", in_prompt=False),
    "make_image": BuiltinTool("hermes_agent.tools.media", "media", in_prompt=False),
    "speak": BuiltinTool("hermes_agent.tools.media", "media", in_prompt=False),
    "transcribe": BuiltinTool("hermes_agent.tools.media", "media", in_prompt=False),
    "read_feed": BuiltinTool(
        "hermes_agent.tools.web.feed", "web", ("lxml",), extra="web", in_prompt=False
    ),
    "calendar": BuiltinTool(
        "hermes_agent.tools.web.calendar",
        "web",
        ("icalendar", "recurring_ical_events"),
        "calendar",
        in_prompt=False,
    ),
    "alertmanager": BuiltinTool(f"{_SOURCES}.alertmanager", "sources", in_prompt=False),
    "silence_alerts": BuiltinTool(f"{_SOURCES}.alertmanager", "sources", in_prompt=False),
    "journal": BuiltinTool(f"{_SOURCES}.journal", "sources", in_prompt=False),
    "log_files": BuiltinTool(f"{_SOURCES}.log_files", "sources", in_prompt=False),
    "loki": BuiltinTool(f"{_SOURCES}.loki", "sources", in_prompt=False),
    "opensearch": BuiltinTool(f"{_SOURCES}.opensearch", "sources", in_prompt=False),
}
"""The order is the prompt's order; new tools go at the end."""

TOOLSETS: Mapping[str, tuple[str, ...]] = {
    **{
        toolset: tuple(name for name, row in TABLE.items() if row.toolset == toolset)
        for toolset in dict.fromkeys(row.toolset for row in TABLE.values())
    },
    "look": (
        "read_file",
        "search_files",
        "read_on",
        "todo",
        "web_search",
        "web_fetch",
        "browser",
        "skill",
        "recall",
    ),
    "all": tuple(
        name for name, row in TABLE.items() if row.toolset != "incident" and row.in_prompt
    ),
}
"""Named groups of tools: by what they work on, `look` (read-only), and `all`, without the tool for
incident sessions and those that `find_tools` finds."""


class BuiltinToolFacts(NamedTuple):
    """A built-in tool's data, available without importing it."""

    name: str
    toolset: str
    description: str
    parameters: dict[str, Any]
    capabilities: tuple[str, ...]
    repeatable: bool
    missing: str
    """What it lacks on this machine; it is not offered then."""


@cache
def _data() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(DATA.read_bytes())}


def facts(settings: "Settings | None" = None) -> Sequence[BuiltinToolFacts]:
    """Every built-in tool, in the table's order."""
    return [
        BuiltinToolFacts(
            name=name,
            toolset=row.toolset,
            description=kept["description"],
            parameters=kept["parameters"],
            capabilities=tuple(kept["capabilities"]),
            repeatable=kept["repeatable"],
            missing=missing(name, settings),
        )
        for name, row in TABLE.items()
        if (kept := _data().get(name)) is not None
    ]


def missing(name: str, settings: "Settings | None" = None) -> str:
    """What a tool lacks on this machine; empty when it works."""
    row = TABLE[name]
    lacking = [package for package in row.packages if find_spec(package) is None]
    if lacking:
        return f"the package {pip_name(lacking[0])}: {install_hint(row.extra)}"
    if row.toolset == "browser":
        return _without_browser(settings)
    return _without_sandbox(os.environ.get("PATH", "")) if row.toolset == "code" else ""


@cache
def _without_sandbox(path: str) -> str:
    from hermes_agent.terminals.sandbox.launch import find_way

    try:
        find_way({"PATH": path})
    except HermesError as error:
        return f"a sandbox: {error.message}"
    return ""


def _without_browser(settings: "Settings | None") -> str:
    address = settings.browser.address if settings is not None else ""
    named = settings.browser.program if settings is not None else ""
    if address:
        there = find_spec("websockets") is not None
        return "" if there else f"the package websockets: {install_hint('browser')}"
    if any(shutil.which(program) for program in ([named] if named else BROWSERS)):
        return ""
    if named:
        return f"the program {named!r}, which the setting browser.program names"
    return f"one of these programs: {', '.join(BROWSERS)}"


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """Expand names of tools and toolsets, in the table's order; no names mean all."""
    wanted: set[str] = set()
    for name in names or ("all",):
        if name not in TOOLSETS and name not in TABLE:
            raise UsageError(
                f"no tool or toolset called {name!r}",
                f"toolsets: {', '.join(TOOLSETS)}; `hermes tools list` shows the tools",
            )
        wanted |= set(TOOLSETS.get(name, (name,)))
    return tuple(name for name in TABLE if name in wanted)


def specs(names: Collection[str], settings: "Settings | None" = None) -> "tuple[ToolSpec, ...]":
    """The specs of these tools, without those that do not work on this machine."""
    from hermes_agent.core.messages import ToolSpec

    return tuple(
        ToolSpec(one.name, one.description, one.parameters)
        for one in facts(settings)
        if one.name in names and not one.missing
    )


def load(name: str) -> "Tool":
    tool: Tool = getattr(import_module(TABLE[name].module), name)
    return tool


def load_tools(names: Collection[str] | None = None) -> "tuple[Tool, ...]":
    """Import the named tools and toolsets, or all, in the table's order."""
    wanted = chosen(tuple(names)) if names is not None else tuple(TABLE)
    return tuple(load(name) for name in wanted)


class SessionTools(Mapping[str, "Tool"]):
    """The tools in one session's prompt, by name: a program's `own`, and built-in ones, which are
    imported on first use."""

    def __init__(
        self,
        names: Sequence[str],
        own: Mapping[str, "Tool"] | None = None,
        *,
        builtin: bool = True,
    ) -> None:
        own = own or {}
        self._names = tuple(name for name in names if name in own or (builtin and name in TABLE))
        self._tools = {name: own[name] for name in self._names if name in own}

    def __getitem__(self, name: str) -> "Tool":
        if name not in self._names:
            raise KeyError(name)
        if name not in self._tools:
            self._tools[name] = load(name)
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def described() -> list[dict[str, Any]]:
    """The tools' data, which `make docs` writes."""
    return [
        {
            "name": tool.name,
            "description": tool.spec.description,
            "parameters": tool.spec.parameters,
            "capabilities": list(tool.capabilities),
            "repeatable": tool.repeatable,
        }
        for tool in load_tools()
    ]
