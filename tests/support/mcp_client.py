"""The official MCP client, connected to `hermes mcp serve`: by either transport, and by the newest
protocol or by the one with a handshake."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)

from hermes_agent.cli.mcp.serve.tools import build_server
from tests.support.cli import PATIENCE, Hermes, wait_until
from tests.support.daemons import folder_of, lock, locked
from tests.support.images import program

COMMAND = (sys.executable, "-m", "hermes_agent", "mcp", "serve")
WAYS = ("stdio", "stdio with handshake", "http", "http with handshake")


INSPECTOR = "@modelcontextprotocol/inspector@0.15.0"


def inspector() -> Path:
    """The inspector's command line, from npm; installed once for this user."""
    npm = program("npm", "npm")
    folder = folder_of("mcp-inspector")
    with locked(lock(folder, "start")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as made:
                words = [npm, "install", "--no-audit", "--no-fund", "--prefix", made, INSPECTOR]
                subprocess.run(words, check=True, capture_output=True)
                Path(made).rename(folder)
                Path(made).mkdir()  # for its end
    return folder / "node_modules" / ".bin" / "mcp-inspector"


class Served(NamedTuple):
    url: str
    token: str
    process: subprocess.Popen[str]


@contextmanager
def served(hermes: Hermes, *words: str, **environ: str) -> Iterator[Served]:
    """The server over HTTP, on a free port."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "0", *words],
        cwd=hermes.work,
        env={**hermes.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = process.stderr.readline().removeprefix("serving MCP at ").strip()
        assert url.startswith("http://127.0.0.1:"), url + process.stderr.read()
        known = environ.get("HERMES_MCP_TOKEN", "")
        token = known or process.stderr.readline().removeprefix("token: ").strip()
        yield Served(url, token, process)
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=PATIENCE)
        assert said == ""


@asynccontextmanager
async def http_transport(server: Served) -> AsyncIterator[TransportStreams]:
    headers = {"authorization": f"Bearer {server.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        streamable_http_client(server.url, http_client=http) as streams,
    ):
        yield streams


@asynccontextmanager
async def connected(
    hermes: Hermes, way: str = "in process", answer: str | None = None, **more: Any
) -> AsyncIterator[Client]:
    """A client; `answer` is what its user says to every question (`-` declines), None: it has no
    way to ask. Where the transport is not what is tested, the server needs no process."""
    more.setdefault("mode", "legacy" if way.endswith("handshake") else "auto")
    if answer is not None:
        more["elicitation_callback"] = saying(answer)
    if way == "in process":
        await asyncio.to_thread(hermes.good, "up")  # a runtime is nobody's child here
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HERMES_HOME", "HERMES_MODEL", "HERMES_POLICY"):
                patch.setenv(name, hermes.environ[name])
            server = build_server(hermes.api, str(hermes.work), leaving=lambda: False)
            async with Client(server, **more) as client:
                yield client
        return
    if way.startswith("stdio"):
        command, *words = COMMAND
        transport: Any = StdioServerParameters(
            command=command, args=words, env=hermes.environ, cwd=hermes.work
        )
        async with Client(transport, **more) as client:
            yield client
        return
    with served(hermes) as process:
        async with Client(http_transport(process), **more) as client:
            yield client


Elicited = Callable[[ClientRequestContext, ElicitRequestParams], Awaitable[ElicitResult]]


def saying(answer: str, seen: list[ElicitRequestFormParams] | None = None) -> Elicited:
    async def said(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        if seen is not None:
            seen.append(params)
        if answer == "-":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": answer})

    return said


async def never(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """A user who has gone for coffee."""
    await asyncio.Event().wait()
    raise AssertionError


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def data_of(result: CallToolResult) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def eventually(met: Callable[[], Any], what: str) -> Any:
    """`wait_until`, while the client goes on."""
    return await asyncio.to_thread(wait_until, met, what)
