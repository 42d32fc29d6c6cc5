"""A guarded local HTTP proxy for programs that open their own connections, such as a browser. Names
are resolved here, and connections go to exactly the address that was checked."""

import asyncio
import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import host_of, plain
from hermes_agent.core.tools import EgressCheck
from hermes_agent.policy.network.egress import Resolver, checked, resolve

USER = "hermes"
GREETING = "hermes.invalid"
"""A host that the proxy answers itself, so that a browser authenticates."""
HEAD_BYTES = 65_536
PATIENCE = 15.0
"""Seconds for a name lookup, and for a connection."""
FAILED_KEPT = 200
_PIECE = 65_536
_OWN = frozenset({"connection", "keep-alive", "proxy-connection", "proxy-authorization"})
"""Hop-by-hop headers."""


@dataclass(frozen=True)
class _Head:
    """The first line of a message and its headers."""

    first: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def encoded(self, *more: tuple[str, str]) -> bytes:
        rows = [self.first, *(f"{name}: {value}" for name, value in (*self.headers, *more))]
        return ("\r\n".join(rows) + "\r\n\r\n").encode("latin-1")

    def without(self, names: frozenset[str], first: str = "") -> "_Head":
        kept = tuple(header for header in self.headers if header[0].lower() not in names)
        return _Head(first or self.first, kept)


class _Trouble(Exception):
    """The request is answered with this status and sentence instead."""

    def __init__(self, status: str, message: str, *headers: str) -> None:
        super().__init__(message)
        body = f"{message}\n".encode()
        rows = (
            f"HTTP/1.1 {status}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *headers,
        )
        self.answer = ("\r\n".join(rows) + "\r\n\r\n").encode() + body


class GuardingProxy:
    """CONNECT and plain HTTP, one request for each connection. `failed` says of each host why it
    was not reached the last time."""

    def __init__(self, reach: EgressCheck, resolver: Resolver) -> None:
        self._may = reach
        self._resolver = resolver
        self._failed: dict[str, str] = {}
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._closed = False
        self.address = ""
        self.secret = secrets.token_urlsafe(24)
        self._password = base64.b64encode(f"{USER}:{self.secret}".encode()).decode()

    @property
    def failed(self) -> Mapping[str, str]:
        return MappingProxyType(self._failed)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def close(self) -> None:
        self._closed = True
        if self._server is not None:
            for listener in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listener.fileno())
            await asyncio.sleep(0)  # a closed server drops connections that are just being accepted
            self._server.close()
        tasks = list(self._tasks)
        for task, writer in self._tasks.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:  # accepted just before, and nothing would close it
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except _Trouble as trouble:
            writer.write(trouble.answer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()  # one side disconnected, or does not speak HTTP
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await _head(reader)
        method, _, rest = head.first.partition(" ")
        target = rest.rpartition(" ")[0]
        given = head.get("proxy-authorization").partition(" ")[2]
        if not hmac.compare_digest(given.encode(), self._password.encode()):
            raise _Trouble(
                "407 Proxy Authentication Required",
                "the proxy requires a password",
                'Proxy-Authenticate: Basic realm="hermes"',
            )
        tunnel = method == "CONNECT"
        host, port = _goal(target, tunnel)
        if host == GREETING:
            raise _Trouble("200 OK", "hello")
        far_reader, far_writer = await self._reach(host, port)
        try:
            if tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _join(reader, writer, far_reader, far_writer)
            else:
                await _forward(head, reader, writer, far_reader, far_writer)
        finally:
            far_writer.close()

    async def _reach(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = plain(host)
        try:
            async with asyncio.timeout(PATIENCE):
                addresses = await checked(host, self._may, self._resolver)
        except TimeoutError:
            raise self._fail(
                name, "504 Gateway Timeout", f"looking up {name!r} took too long"
            ) from None
        except OSError as error:
            why = f"cannot find {name!r}: {error.strerror}"
            raise self._fail(name, "502 Bad Gateway", why) from None
        except ToolError as error:
            raise self._fail(name, "403 Forbidden", error.message) from None
        why = "it has no address"
        for address in addresses:
            try:
                async with asyncio.timeout(PATIENCE):
                    made = await asyncio.open_connection(address, port, limit=HEAD_BYTES)
            except TimeoutError:
                why = "it does not answer"
            except OSError as error:
                why = error.strerror or str(error)
            else:
                self._failed.pop(name, None)
                return made
        raise self._fail(name, "502 Bad Gateway", f"cannot connect to {name!r}: {why}")

    def _fail(self, name: str, status: str, why: str) -> _Trouble:
        self._failed.pop(name, None)
        self._failed[name] = why
        if len(self._failed) > FAILED_KEPT:
            del self._failed[next(iter(self._failed))]
        return _Trouble(status, why)


async def open_proxy(reach: EgressCheck, *, resolver: Resolver = resolve) -> GuardingProxy:
    """A proxy that connects where `reach` says so."""
    proxy = GuardingProxy(reach, resolver)
    await proxy.start()
    return proxy


def _goal(target: str, tunnel: bool) -> tuple[str, int]:
    """The host and port that a request is for."""
    try:
        parts = urlsplit(f"//{target}" if tunnel else target)
        port = parts.port
    except ValueError:
        raise _Trouble("400 Bad Request", f"no host in {target!r}") from None
    host = host_of(f"//{target}" if tunnel else target)
    if not host or (parts.scheme != "http" and not tunnel):
        raise _Trouble("400 Bad Request", f"no host in {target!r}")
    if tunnel and port is None:
        raise _Trouble("400 Bad Request", f"no port in {target!r}")
    return host, 80 if port is None else port


async def _head(reader: asyncio.StreamReader) -> _Head:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rows = text[:-4].split("\r\n")
    split = (row.partition(":") for row in rows)
    return _Head(first, tuple((name, value.strip()) for name, _, value in split))


async def _forward(
    head: _Head,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """One request and its answer. Nothing more of the client is passed on: its next request may be
    for another server."""
    method, _, rest = head.first.partition(" ")
    target, _, version = rest.rpartition(" ")
    parts = urlsplit(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    upgrade = bool(head.get("upgrade"))
    request = head.without(_OWN, f"{method} {path} {version}")
    far_writer.write(request.encoded(("Connection", "Upgrade" if upgrade else "close")))
    if upgrade:
        await _join(reader, writer, far_reader, far_writer)
        return
    sending = asyncio.create_task(_body(head, reader, far_writer))
    try:
        status = "1"
        while status.startswith("1"):
            answer = await _head(far_reader)
            status = answer.first.partition(" ")[2]
            last = () if status.startswith("1") else (("Connection", "close"),)
            writer.write(answer.without(_OWN).encoded(*last))
        await _copy(far_reader, writer)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _body(head: _Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The body of a request, and then whether the client is still there."""
    if "chunked" in head.get("transfer-encoding").lower():
        await _chunks(reader, writer)
    else:
        await _copy(reader, writer, int(head.get("content-length") or 0))
    while await reader.read(_PIECE):
        pass
    writer.transport.abort()


async def _chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    size = 1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        writer.write(line)
        await _copy(reader, writer, size)
        while (end := await reader.readuntil(b"\r\n")) != b"\r\n":
            writer.write(end)
        writer.write(end)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int | None = None
) -> None:
    """So many bytes, or all there are."""
    while size is None or size > 0:
        piece = await reader.read(_PIECE if size is None else min(_PIECE, size))
        if not piece:
            return
        size = None if size is None else size - len(piece)
        writer.write(piece)
        await writer.drain()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Copy both ways until one side closes. Browsers do not half-close connections."""
    ways = (
        asyncio.create_task(_copy(reader, far_writer)),
        asyncio.create_task(_copy(far_reader, writer)),
    )
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
