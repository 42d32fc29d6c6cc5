"""Real servers that the sources' tools look at, and a session that calls those tools."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.core.effects import Permit
from hermes_agent.core.protocols import Terminal
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Tool, ToolContext
from hermes_agent.policy.network.egress import guarded_client
from hermes_agent.tools.sources.connection import Source, configured
from hermes_agent.tools.sources.registry import TYPES
from tests.support.calls import Caller

START_SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def server(
    folder: Path, command: Sequence[str], ready: Callable[[], bool], **how: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that runs until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, **how)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def answers(url: str, part: bytes = b"") -> bool:
    """Whether a page is there, with this part in it."""
    try:
        with urllib.request.urlopen(url, timeout=5) as page:
            return part in page.read()
    except (OSError, urllib.error.URLError):
        return False


@dataclass
class Observer:
    """Calls the sources' tools in one session, as a rule allows it."""

    here: Caller
    sources: dict[str, SourceSettings] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    now: Callable[[], float] = time.time
    terminal: Terminal | None = None
    """Instead of the one here."""

    def context(self) -> ToolContext:
        def allowed(_host: str, _address: str, _public: bool) -> bool:
            return True

        here = self.here.context("call")
        return msgspec.structs.replace(
            here,
            terminal=self.terminal or here.terminal,
            http=lambda **options: guarded_client(allowed, **options),
            reach=allowed,
            clock=self.now,
            settings=Settings(sources=self.sources),
            secrets=self.secrets,
        )

    def source(self) -> Source:
        """The only one of the settings, as the tools reach it."""
        [settings] = self.sources.values()
        [found] = configured(self.context(), [settings.kind])
        return found

    async def verify(self) -> str:
        """What the only source says of itself."""
        source = self.source()
        said: str = await TYPES[source.settings.kind].load().verify(source)
        return said

    async def call(self, tool: Tool, **given: Any) -> ToolResult:
        arguments = tool.arguments(given)
        result = await tool.run(Permit("call", tool.name, arguments), self.context(), arguments)
        assert isinstance(result, ToolResult)
        return result
