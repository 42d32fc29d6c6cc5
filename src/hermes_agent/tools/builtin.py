"""The built-in tools by name, found without importing them. The order is the prompt's order."""

from collections.abc import Collection, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from hermes_agent.core.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.core.tools import Tool

BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        "terminal": "hermes_agent.tools.terminal",
        "process": "hermes_agent.tools.terminal",
        "read_file": "hermes_agent.tools.files",
        "write_file": "hermes_agent.tools.files",
        "patch": "hermes_agent.tools.files",
        "search_files": "hermes_agent.tools.search",
        "ask_user": "hermes_agent.tools.ask",
    }
)
"""Tool name to the module that defines it under that name. New tools go at the end."""


def load_tools(names: Collection[str] | None = None) -> "tuple[Tool, ...]":
    """The named built-in tools, or all, in the table's order whatever order was asked for."""
    wanted = BUILTIN.keys() if names is None else names
    unknown = [name for name in wanted if name not in BUILTIN]
    if unknown:
        raise UsageError(f"no tool called {unknown[0]!r}", f"built in: {', '.join(BUILTIN)}")
    return tuple(
        getattr(import_module(module), name) for name, module in BUILTIN.items() if name in wanted
    )
