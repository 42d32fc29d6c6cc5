"""Call a tool as the agent does: arguments checked, context lent, prepared before it runs."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_agent.core.effects import Permit
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import AsyncCloseable, Closable, RecoveryResult, Tool, ToolContext
from hermes_agent.terminals.local.terminal import LocalTerminal


class Kept:
    """What one session keeps open."""

    def __init__(self) -> None:
        self.held: dict[str, AsyncCloseable] = {}

    async def get(self, name: str, make: Callable[[], Awaitable[Closable]]) -> Closable:
        if name not in self.held:
            self.held[name] = await make()
        held: Any = self.held[name]
        return held

    async def drop(self, name: str) -> None:
        if name in self.held:
            await self.held.pop(name).close()


@dataclass
class Caller:
    """One session's terminal, and calls to tools in it."""

    workspace: Path
    terminal: LocalTerminal
    answers: list[str | None] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    calls: int = 0

    def context(self, effect: str) -> ToolContext:
        async def ask(question: str, choices: Sequence[str]) -> str | None:
            self.asked.append((question, tuple(choices)))
            return self.answers.pop(0)

        return ToolContext(effect, "session", self.terminal, ask, self.heard.append)

    async def call(self, tool: Tool, effect: str = "", /, **given: Any) -> ToolResult:
        self.calls += 1
        context = self.context(effect or f"call-{self.calls}")
        arguments = tool.arguments(given)
        permit = Permit(context.effect, tool.name, arguments)
        result = await tool.run(permit, context, arguments)
        assert isinstance(result, ToolResult)
        return result

    async def prepare(self, tool: Tool, **given: Any) -> dict[str, Any]:
        assert tool.prepare is not None
        return await tool.prepare(self.context("prepared"), **tool.arguments(given))

    async def recover(
        self, tool: Tool, effect: str, note: dict[str, Any], **given: Any
    ) -> RecoveryResult:
        assert tool.recover is not None
        return await tool.recover(self.context(effect), note, **tool.arguments(given))


@asynccontextmanager
async def caller(folder: Path) -> AsyncIterator[Caller]:
    workspace = folder / "workspace"
    workspace.mkdir()
    settings = TerminalSettings(idle_seconds=60.0)
    terminal = LocalTerminal(str(workspace), folder / "spool", settings)
    try:
        yield Caller(workspace.resolve(), terminal)
    finally:
        await terminal.close()
        await terminal.destroy()
