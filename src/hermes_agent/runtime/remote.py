"""The library's client of a runtime that runs on the same home."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
from msgspec.structs import replace

from hermes_agent.agent.tools.executor import run_relayed
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.records import Parked, Session, SessionMessage
from hermes_agent.core.tools import Tool
from hermes_agent.host.paths import socket_paths
from hermes_agent.host.responses import STATUS
from hermes_agent.runtime.sessions import turn_of
from hermes_agent.runtime.tools.programs import NewProgram, ProgramLine, ProgramTool

T = TypeVar("T")

CLOSING_SECONDS = 10.0
"""How long `close` waits for tools that run."""


class RemoteRuntime:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._streams: dict[str, asyncio.Task[None]] = {}
        """By session."""
        self._tools: dict[str, Mapping[str, Tool]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}

    @classmethod
    async def find(cls, home: Path) -> "RemoteRuntime | None":
        once = httpx.Limits(max_keepalive_connections=0)  # a kept connection may be closed by now
        for path in socket_paths(str(home)):
            transport = httpx.AsyncHTTPTransport(uds=path, limits=once)
            timeout = httpx.Timeout(None)
            http = httpx.AsyncClient(transport=transport, base_url="http://hermes", timeout=timeout)
            if await (found := cls(http)).is_up():
                return found
            await found.stop()
        return None

    async def is_up(self) -> bool:
        try:
            await self._http.get("/v1/status")
        except httpx.TransportError:
            return False
        return True

    async def stop(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls.values(), timeout=CLOSING_SECONDS)
        for task in self._calls.values():
            task.cancel()
        for session in list(self._streams):
            await self.disconnect(session, self._tools[session])
        await self._http.aclose()

    async def disconnect(self, session: str, tools: Mapping[str, Tool]) -> None:
        """Disconnect the agent that has these tools."""
        if session in self._streams and self._tools[session] is tools:
            stream = self._streams.pop(session)
            stream.cancel()
            await asyncio.wait({stream})

    async def open(self, program: NewProgram, tools: Mapping[str, Tool]) -> str:
        """Connect the program, unless it is connected; returns its session."""
        stream = self._streams.get(program.session)
        if stream is not None and not stream.done():
            if self._tools[program.session] is not tools:
                raise UsageError(
                    f"another agent of this program is using session {program.session}",
                    "close that agent first",
                )
            return program.session
        sent = replace(program, tools=tuple(map(ProgramTool.of, tools.values())))
        request = self._http.build_request(
            "POST", "/v1/programs", content=msgspec.json.encode(sent)
        )
        with _reaching():
            response = await self._http.send(request, stream=True)
            if response.is_error:
                raise _error(response.status_code, await response.aread())
            lines = _lines(response)
            first = msgspec.json.decode(await anext(lines, b""), type=ProgramLine)
        self._tools[first.session] = tools
        reading = self._serve(response, lines, first.session)
        self._streams[first.session] = asyncio.create_task(reading)
        return first.session

    async def _serve(
        self, response: httpx.Response, lines: AsyncIterator[bytes], session: str
    ) -> None:
        try:
            async for line in lines:
                call = msgspec.json.decode(line, type=ProgramLine)
                if call.cancelled and call.effect in self._calls:
                    self._calls[call.effect].cancel()
                elif not call.cancelled:
                    running = self._call(session, call)
                    self._calls[call.effect] = asyncio.create_task(running)
        except httpx.TransportError:
            pass  # the runtime died; the next run looks for another
        finally:
            await response.aclose()

    async def _call(self, session: str, call: ProgramLine) -> None:
        tool = self._tools[session][call.tool]

        async def result() -> AsyncIterator[bytes]:
            # The tool runs once the runtime is reached, which then does not stop before its end.
            yield msgspec.json.encode(await run_relayed(tool, call.effect, call.arguments))

        path, which = f"/v1/programs/{session}/results", {"effect": call.effect}
        try:
            await self._http.post(path, params=which, content=result())
        except httpx.TransportError:
            pass  # the runtime died: the next one parks the call
        finally:
            self._calls.pop(call.effect, None)

    async def ask(self, session: str, message: SessionMessage) -> AsyncGenerator[ev.Recorded]:
        """Events until the turn with the message ends."""
        sent = {"session": session, "text": message.text, "key": message.key}
        taken = await self._ask("POST", "/v1/messages", dict[str, Any],
                                {**sent, "source": message.source})  # fmt: skip
        path, after = f"/v1/sessions/{session}/events", {"after": taken["after"]}
        with _reaching():
            async with self._http.stream("GET", path, params=after) as response:
                async for recorded, _taken in turn_of(_events(response), message.key):
                    yield recorded

    async def session(self, id: str) -> Session:
        return await self._ask("GET", f"/v1/sessions/{id}", Session)

    async def parked(self) -> Sequence[Parked]:
        return await self._ask("GET", "/v1/parked", list[Parked])

    async def decide(self, effect: str, decision: str, by: str) -> None:
        body = {"decision": decision, "by": by}
        await self._ask("POST", f"/v1/parked/{effect}", dict[str, str], body)

    async def _ask(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        content = None if body is None else msgspec.json.encode(body)
        with _reaching():
            response = await self._http.request(method, path, content=content)
        if response.is_error:
            raise _error(response.status_code, response.content)
        return msgspec.json.decode(response.content, type=kind)


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except (httpx.TransportError, msgspec.MsgspecError) as error:
        raise HermesError(
            f"the connection to the runtime broke: {error}", "run again: what was said is stored"
        ) from None


def _error(status: int, body: bytes) -> HermesError:
    kind = next((kind for kind, code in STATUS if code == status), HermesError)
    try:
        told = msgspec.json.decode(body, type=dict[str, str])
        return kind(told["error"], told["hint"])
    except (msgspec.DecodeError, KeyError):
        return HermesError(
            f"the runtime answered {status}; it may be of another version than this program",
            "`hermes down` stops it, so that the next one is of the installed version",
        )


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Those of httpx also end at what JSON has unescaped in a string, such as U+2028."""
    rest = b""
    async for chunk in response.aiter_raw():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


async def _events(response: httpx.Response) -> AsyncGenerator[ev.Recorded]:
    async for line in _lines(response):
        if line.startswith(b"data: "):
            yield msgspec.json.decode(line[6:], type=ev.Recorded)
