"""Servers as the runtime has them, and calls to their tools as the agent makes them."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.errors import NotFound
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.mcp.provider import Servers
from tests.support.calls import Caller
from tests.support.mcp_servers import odd


@dataclass
class Desk:
    folder: Path
    caller: Caller
    settings: dict[str, McpServerSettings] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    now: float = 1_000_000.0
    opened: list[Servers] = field(default_factory=list)

    def secret(self, name: str) -> str:
        if name not in self.secrets:
            raise NotFound(f"no secret called {name!r}", "write it down")
        return self.secrets[name]

    def open(self) -> Servers:
        """Another runtime on the same home."""
        clock: Callable[[], float] = lambda: self.now  # noqa: E731 - a protocol wants a value
        home = self.folder / "home"
        made = Servers(lambda: self.settings, home, self.secret, os.environ, clock)
        self.opened.append(made)
        return made

    @property
    def servers(self) -> Servers:
        return self.opened[0] if self.opened else self.open()

    @property
    def file(self) -> Path:
        return self.folder / "notes"

    def odd(self, mode: str = "good", name: str = "odd", **more: Any) -> None:
        """Add the server that does what it is told."""
        self.settings[name] = McpServerSettings(command=odd(mode, self.file), **more)

    def go(self, what: str = "go") -> None:
        """Let go of calls that are held, or of a step."""
        self.file.with_name(f"notes.{what}").touch()

    def notes(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    async def call(self, name: str, /, **given: Any) -> ToolResult:
        tool = await self.servers.find(name)
        assert tool is not None, f"no tool called {name}"
        return await self.caller.call(tool, **given)


@pytest.fixture
async def desk(tmp_path: Path, here: Caller) -> AsyncIterator[Desk]:
    made = Desk(tmp_path, here)
    yield made
    for servers in made.opened:
        await servers.close()
