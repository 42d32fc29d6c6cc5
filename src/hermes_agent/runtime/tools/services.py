"""Builds what tools use besides a terminal. Each service is created on first use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.core.protocols import Clock, MediaModels
from hermes_agent.core.records import Session
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.tools import (
    Call,
    EgressCheck,
    IncidentActions,
    JobActions,
    KnowledgeService,
    Messenger,
    Proxy,
    SandboxResult,
    SubagentRunner,
    ToolListing,
    ToolProvider,
    ToolServices,
)
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.runtime.tools.builtin import TABLE
from hermes_agent.runtime.tools.searchable import SearchableTools
from hermes_agent.runtime.tools.session_resources import SessionResources

if TYPE_CHECKING:
    from hermes_agent.agent.authored_tools.service import AuthoredTools
    from hermes_agent.core.tool_results import ToolResult
    from hermes_agent.core.tools import Tool
    from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner
    from hermes_agent.tools.mcp.provider import Servers


@dataclass(eq=False, repr=False)
class ToolServiceFactory:
    _home: Path
    _environ: Mapping[str, str]
    _settings: Callable[[], Settings]
    _secret: Callable[[str], str]
    _redact: Redactor
    _clock: Clock
    resources: SessionResources = field(init=False)

    def __post_init__(self) -> None:
        self.resources = SessionResources(self._clock)
        self._searchable = SearchableTools(self._settings)

    @cached_property
    def code_sandbox(self) -> "CodeSandboxRunner":
        from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner

        return CodeSandboxRunner(self._home / "workers", self._environ)

    @cached_property
    def written(self) -> "AuthoredTools":
        from hermes_agent.agent.authored_tools.service import AuthoredTools

        return AuthoredTools(
            self._home / "tools",
            workers=lambda: self.code_sandbox,
            settings=self._settings,
            taken=TABLE.keys,
            clock=self._clock,
            redact=self._redact,
        )

    @cached_property
    def servers(self) -> "Servers":
        from hermes_agent.tools.mcp.provider import Servers

        return Servers(
            settings=lambda: self._settings().mcp,
            folder=self._home,
            secret=self._secret,
            environ=self._environ,
            clock=self._clock,
            learn=self._redact.learn,
        )

    def services(
        self,
        session: Session,
        children: SubagentRunner,
        learned: KnowledgeService,
        commanded: IncidentActions | None = None,
        tasks: JobActions | None = None,
        messenger: Messenger | None = None,
        media: MediaModels | None = None,
    ) -> ToolServices:
        late = _LazyToolServices(self)
        return ToolServices(
            resources=self.resources.of(session.id),
            sandbox=late,
            subagents=children,
            providers=self._sources(late),
            authoring=late,
            knowledge=learned,
            incident=commanded,
            jobs=tasks,
            messenger=messenger,
            media=media,
            proxy=_proxy,
        )

    def _sources(self, late: "_LazyToolServices") -> Sequence[ToolProvider]:
        return [self._searchable, *([self.servers] if self._settings().mcp else []), late]

    def about(self) -> str:
        """What a new session's prompt says about tools that are not in it."""
        lines = [source.about() for source in self._sources(_LazyToolServices(self))]
        return "\n".join(line for line in lines if line)

    @property
    def has_authored_tools(self) -> bool:
        return (self._home / "tools").is_dir()

    async def tidy(self, busy: Callable[[], set[str]]) -> None:
        await self.resources.tidy(busy)
        if "servers" in self.__dict__:
            await self.servers.tidy()

    async def close(self) -> None:
        await self.resources.close()
        if "servers" in self.__dict__:
            await self.servers.close()


class _LazyToolServices:
    """The code sandbox and the authored tools, imported on first use."""

    def __init__(self, tool_services: ToolServiceFactory) -> None:
        self._tool_services = tool_services

    async def run(self, name: str, source: str, **how: Any) -> SandboxResult:
        worked: SandboxResult = await self._tool_services.code_sandbox.run(name, source, **how)
        return worked

    async def make(self, name: str, code: str, call: Call | None, by: str = "") -> "ToolResult":
        return await self._tool_services.written.make(name, code, call, by)

    async def holds(self, name: str, digest: str) -> bool:
        return self._tool_services.has_authored_tools and await self._tool_services.written.holds(
            name, digest
        )

    def about(self) -> str:
        return self._tool_services.written.about() if self._tool_services.has_authored_tools else ""

    async def search(self, query: str) -> Sequence[ToolListing]:
        has_any = self._tool_services.has_authored_tools
        return await self._tool_services.written.search(query) if has_any else ()

    async def find(self, name: str) -> "Tool | None":
        has_any = self._tool_services.has_authored_tools
        return await self._tool_services.written.find(name) if has_any else None


async def _proxy(reach: EgressCheck) -> Proxy:
    from hermes_agent.policy.network.proxy import open_proxy

    return await open_proxy(reach)
