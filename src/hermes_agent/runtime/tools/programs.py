"""Tools of a program that uses a running runtime: calls go to the program, results come back."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import Access, check_capabilities
from hermes_agent.core.errors import NotFound, OutcomeUnknown, ToolError, UsageError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Tool, ToolContext


class ProgramTool(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    parameters: dict[str, Any]
    capabilities: tuple[str, ...] = ()
    repeatable: bool = False
    paths: Mapping[str, Access] = {}
    command: str = ""
    hosts: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @classmethod
    def of(cls, tool: Tool) -> "ProgramTool":
        """Raises if the tool works only in the process of its runtime."""
        if tool.bound_by:
            raise UsageError(
                f"tool {tool.name!r} uses {tool.bound_by}, which needs a runtime in this program, "
                "and another process runs the runtime of this home",
                "stop it with `hermes down`, or use another home: Agent(home=…)",
            )
        return cls(
            tool.name, tool.spec.description, dict(tool.spec.parameters), tuple(tool.capabilities),
            tool.repeatable, tool.paths, tool.command, tuple(tool.hosts), tuple(tool.after),
        )  # fmt: skip


class NewProgram(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/programs`. Without a session, a new one is opened."""

    name: str
    workspace: str
    granted: frozenset[str]
    """Capabilities that its tools may use."""
    tools: tuple[ProgramTool, ...] = ()
    builtin: bool = True
    """Whether its session has the built-in tools, too."""
    session: str = ""
    model: str = ""
    policy: str = ""
    terminals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_capabilities(self.granted, self.name)


class ProgramLine(Struct, frozen=True, omit_defaults=True):
    """A line of the stream to a program: first its session, then calls and their cancellations."""

    session: str = ""
    effect: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}
    cancelled: bool = False


class ProgramLink:
    """The way to the program of a session. It outlasts the program, so that later calls fail."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[ProgramLine | None] | None = None
        self._results: dict[str, asyncio.Future[ToolResult | None]] = {}

    @property
    def connected(self) -> bool:
        return self._lines is not None

    async def stream(self, session: str) -> AsyncGenerator[ProgramLine]:
        """The lines for the program, which is connected as long as somebody reads them. What it
        leaves unfinished has an unknown outcome."""
        lines = self._lines = asyncio.Queue()
        stopping = False
        try:
            yield ProgramLine(session)
            while (line := await lines.get()) is not None:
                yield line
            stopping = True
        finally:
            self._lines = None
            for result in () if stopping else self._results.values():
                if not result.done():
                    result.set_result(None)

    def end(self) -> None:
        """The runtime stops; the next one finds out about calls that are running."""
        if self._lines is not None:
            self._lines.put_nowait(None)

    def finish(self, effect: str, result: ToolResult) -> None:
        waiting = self._results.get(effect)
        if waiting is None or waiting.done():
            raise NotFound(f"nobody waits for the result of {effect!r}", "drop it")
        waiting.set_result(result)

    async def call(self, tool: ProgramTool, effect: str, given: dict[str, Any]) -> ToolResult:
        if self._lines is None:
            raise ToolError(
                f"the program that runs {tool.name} has ended",
                "do without it, or ask the user to start the program again",
                "never",
            )
        lines, waiting = self._lines, asyncio.get_running_loop().create_future()
        self._results[effect] = waiting
        lines.put_nowait(ProgramLine(effect=effect, tool=tool.name, arguments=given))
        try:
            result: ToolResult | None = await waiting
        except asyncio.CancelledError:
            lines.put_nowait(ProgramLine(effect=effect, cancelled=True))
            raise
        finally:
            del self._results[effect]
        if result is not None:
            return result
        lost = f"the program ended while {tool.name} ran"
        raise ToolError(lost, retry="never") if tool.repeatable else OutcomeUnknown(lost)


class RelayedTool(Tool):
    """A program's tool, in the runtime. The program checks the arguments again."""

    @classmethod
    def of(cls, tool: ProgramTool, link: ProgramLink) -> "RelayedTool":
        async def relay(context: ToolContext, given: dict[str, Any]) -> ToolResult:
            return await link.call(tool, context.effect, given)

        facts = msgspec.structs.asdict(tool)
        return cls(function=relay, schema=facts.pop("parameters"), **facts)

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """With defaults, so that the gate judges what the program will use."""
        known = self.spec.parameters.get("properties", {})
        defaults = {name: one["default"] for name, one in known.items() if "default" in one}
        return super().arguments({**defaults, **given})
