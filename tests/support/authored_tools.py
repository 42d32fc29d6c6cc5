"""Written tools on real sandboxes, with a session's tools to call."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes_agent.agent.authored_tools.service import AuthoredTools
from hermes_agent.core.effects import Permit
from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import Terminal
from hermes_agent.core.settings.root import CodeSettings, Settings, ToolSettings
from hermes_agent.core.tool_results import ToolResult, failed
from hermes_agent.core.tools import CodeSandbox, ToolContext, ToolServices
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner

TAKEN = ("terminal", "read_file", "use_tool", "make_tool", "execute_code")

ADD = '''"""Sums."""
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    The second is one when it is left out."""
    return a + b

def test_add() -> None:
    assert add(1, 2) == 3
'''


def tool_code(name: str, body: str, test: str = "assert True", *, head: str = "") -> str:
    """A tool that takes a text and returns one."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        f'"""For a test."""\n{head}\n'
        f'def {name}(text: str = "") -> str:\n    """Do it."""\n{lines}\n\n'
        f"def test_{name}() -> None:\n    {test}\n"
    )


class Bench:
    """A home's written tools, and calls of them as the agent makes them."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.folder = folder / "tools"
        self.settings = Settings(tools=ToolSettings(crashes=3))
        self.shop = CodeSandboxRunner(folder / "workers", os.environ)
        self.now = 1_000.0
        self.heard: list[str] = []
        self.tools: dict[str, Callable[..., Awaitable[ToolResult]]] = {"use_tool": self._use_tool}
        self._terminal = terminal
        self.written = self.opened()

    def opened(self, workers: Callable[[], CodeSandbox] | None = None) -> AuthoredTools:
        """As another runtime would open them."""
        return AuthoredTools(
            self.folder,
            workers=workers or (lambda: self.shop),
            settings=lambda: self.settings,
            taken=lambda: TAKEN,
            clock=lambda: self.now,
            redact=Redactor({}),
        )

    def limit(self, **limits: Any) -> None:
        self.settings = Settings(code=CodeSettings(**limits), tools=self.settings.tools)

    async def make(self, name: str, code: str) -> ToolResult:
        return await self.written.make(name, code, self._call, "session-1")

    async def use(self, name: str, **given: Any) -> ToolResult:
        """Raises `ToolError`, as the tool does."""
        tool = await self.written.find(name)
        assert tool is not None
        arguments = tool.arguments(given)
        result = await tool.run(Permit("effect", name, arguments), self.context(), arguments)
        assert isinstance(result, ToolResult)
        return result

    async def failure(self, name: str, **given: Any) -> str:
        """What a use that fails says."""
        try:
            result = await self.use(name, **given)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"it went well: {result.text}")

    def context(self) -> ToolContext:
        return ToolContext(
            "effect", "session-1", self._terminal, self._nobody, self.heard.append,
            call=self._call, services=ToolServices(authoring=self.written, tools=tuple(self.tools)),
        )  # fmt: skip

    async def _nobody(self, _question: str, _choices: Sequence[str]) -> str | None:
        return None

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        return await self.tools[name](**arguments)

    async def _use_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        try:
            return await self.use(name, **arguments)
        except ToolError as error:
            return failed(error)
