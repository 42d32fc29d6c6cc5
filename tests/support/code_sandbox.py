"""Workshops to run programs in, beside a person's home with secrets in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Call, SandboxLimits, SandboxResult
from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner
from tests.support.sandboxes import Box, Kind

SMALL = SandboxLimits(seconds=60, memory_mb=128, processes=64, output_bytes=20_000, calls=5)


class Shop:
    """A workshop, what the programs in it called, and what they were heard to print."""

    def __init__(self, root: Path, kind: Kind = "bubblewrap") -> None:
        self.box = Box(root, kind)
        self.folder = self.box.person / ".hermes" / "workers"
        self.workshop = CodeSandboxRunner(self.folder, self.box.environ)
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.heard: list[str] = []
        self.runs = 0

    async def run(
        self, source: str, limits: SandboxLimits = SMALL, call: Call | None = None, **more: Any
    ) -> SandboxResult:
        self.runs += 1
        return await self.workshop.run(
            f"run/{self.runs}",
            source,
            tools=("terminal", "read_file"),
            call=call or self.echo,
            limits=limits,
            output=self.heard.append,
            **more,
        )

    async def echo(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.called.append((tool, dict(arguments)))
        ok = arguments.get("command") != "false"
        return ToolResult(f"{tool} {arguments.get('command', '')}", {"n": len(self.called)}, ok)

    def left(self) -> list[Path]:
        """What lies in its folder."""
        return list(self.folder.iterdir()) if self.folder.exists() else []
