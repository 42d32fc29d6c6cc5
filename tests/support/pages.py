"""Pages on loopback, and a session that looks at them with the browser tools."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_agent.core.effects import Permit
from hermes_agent.core.settings.root import BrowserSettings, Settings, TerminalSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import EgressCheck, Tool, ToolContext, ToolServices
from hermes_agent.policy.network.proxy import GuardingProxy, open_proxy
from hermes_agent.terminals.local.terminal import LocalTerminal
from hermes_agent.tools.browser.browser import Browser
from hermes_agent.tools.browser.tools import browser, browser_act
from tests.support.calls import Kept
from tests.support.patience import PATIENCE


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Page:
    body: bytes
    headers: tuple[str, ...] = ("Content-Type: text/html; charset=utf-8",)
    status: str = "200 OK"
    length: int | None = None
    """What it claims to have, where that is not the truth."""

    def encoded(self) -> bytes:
        length = len(self.body) if self.length is None else self.length
        rows = (f"HTTP/1.1 {self.status}", f"Content-Length: {length}", *self.headers)
        return ("\r\n".join((*rows, "Connection: close")) + "\r\n\r\n").encode() + self.body


def html(text: str, title: str = "A page") -> Page:
    return Page(f"<!doctype html><title>{title}</title>{text}".encode())


def goes_to(url: str) -> Page:
    return Page(b"", (f"Location: {url}",), "302 Found")


Answer = Page | Callable[[Asked], Awaitable[Page]]


class Site:
    """A small HTTP server on 127.0.0.1 that remembers what it was asked. `localhost` is the same
    server, and another origin."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.port = 0
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def add(self, path: str, answer: Answer | str) -> str:
        self.pages[path] = html(answer) if isinstance(answer, str) else answer
        return self.url(path)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first, *rows = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            split = (row.partition(": ") for row in rows if row)
            headers = {name.lower(): value for name, _, value in split}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = first.split()
            asked = Asked(method, path, headers, body)
            self.asked.append(asked)
            answer = self.pages.get(path.partition("?")[0], Page(b"not here", status="404 No"))
            page = answer if isinstance(answer, Page) else await answer(asked)
            writer.write(page.encoded())
            await writer.drain()
        except (EOFError, OSError):
            pass  # the browser went away
        finally:
            writer.close()

    async def close(self) -> None:
        for writer in self._open.values():
            writer.transport.abort()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    served = Site()
    server = await asyncio.start_server(served.accept, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await served.close()


@dataclass
class Session:
    """Calls to the browser tools in one session."""

    terminal: LocalTerminal
    results: Path
    settings: BrowserSettings = BrowserSettings(timeout_seconds=PATIENCE)
    keep: Kept = field(default_factory=Kept)
    allowed: frozenset[str] = frozenset({"127.0.0.1", "localhost"})
    names: Mapping[str, str] = field(default_factory=dict)
    """Where made-up names lead."""
    proxies: list[GuardingProxy] = field(default_factory=list)

    @property
    def browser(self) -> Browser:
        found = self.keep.held["browser"]
        assert isinstance(found, Browser)
        return found

    async def _proxy(self, reach: EgressCheck) -> GuardingProxy:
        async def look_up(name: str) -> Sequence[str]:
            if name == "localhost":
                return ["127.0.0.1"]
            if name not in self.names:
                raise OSError(-2, "Name or service not known")
            return [self.names[name]]

        proxy = await open_proxy(reach, resolver=look_up)
        self.proxies.append(proxy)
        return proxy

    def context(self) -> ToolContext:
        async def ask(question: str, choices: Sequence[str]) -> str | None:
            return None

        allowed = self.allowed
        return ToolContext(
            "effect",
            "session",
            self.terminal,
            ask,
            lambda _text: None,
            reach=lambda host, _address, public: public or host in allowed,
            settings=Settings(browser=self.settings),
            workspace=self.terminal.workspace,
            results=self.results,
            services=ToolServices(resources=self.keep, proxy=self._proxy),
        )

    async def _call(self, tool: Tool, given: Mapping[str, Any]) -> ToolResult:
        arguments = tool.arguments(given)
        result = await tool.run(Permit("effect", tool.name, arguments), self.context(), arguments)
        assert isinstance(result, ToolResult)
        return result

    async def look(self, action: str, **given: Any) -> ToolResult:
        return await self._call(browser, {"action": action, **given})

    async def open(self, url: str) -> ToolResult:
        return await self.look("open", url=url)

    async def act(self, action: str, ref: str = "", page: str = "127.0.0.1", **given: Any) -> Any:
        return await self._call(browser_act, {"page": page, "action": action, "ref": ref, **given})


def ref(result: ToolResult, thing: str) -> str:
    """The ref of a line such as `button "Buy"`."""
    found = re.search(rf"{re.escape(thing)} \[ref=(e\d+)\]", result.text)
    assert found is not None, f"no {thing} in:\n{result.text}"
    return found.group(1)


@asynccontextmanager
async def session(folder: Path, **more: Any) -> AsyncIterator[Session]:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    terminal = LocalTerminal(str(workspace), folder / "spool", TerminalSettings())
    made = Session(terminal, folder / "results", **more)
    try:
        yield made
    finally:
        await made.keep.drop("browser")
        await terminal.close()
        await terminal.destroy()
