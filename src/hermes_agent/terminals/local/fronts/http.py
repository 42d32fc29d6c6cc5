"""Forwards HTTP requests that a filter lets through. Each gets a connection of its own on which
nothing follows it, so both ends agree on where it ends, and answers are passed on as they are."""

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from hermes_agent.core.errors import HermesError

MOST_HEAD = 65_536
MOST_BODY = 1 << 20
PIECE = 65_536
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LINE = re.compile(r"([A-Z]+) (/[!-~]*) HTTP/1\.1")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ \t!-~]*?)[ \t]*")
_ODD = re.compile(r"//|/\.\.?(/|$)|[^ -~]|[#?\\%]")
_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "expect", "host", "content-length"})
_ONCE = ("host", "content-length", "upgrade", "connection", "accept")


class RequestRefused(HermesError):
    """Why a request is not forwarded."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.status = status


class ServiceRequest(NamedTuple):
    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    """Names are in lower case."""
    body: bytes = b""
    rewrite: Callable[[bytes], bytes] | None = None
    """What becomes of each line of the answer. May raise `RequestRefused`."""

    @property
    def path(self) -> str:
        """Decoded; refused if two readers could understand it differently."""
        path = unquote(self.target.partition("?")[0], errors="strict")
        if _ODD.search(path):
            raise RequestRefused("the path of the request is not in plain form", 400)
        return path

    @property
    def query(self) -> dict[str, list[str]]:
        text = self.target.partition("?")[2]
        if ";" in text or "#" in text:
            raise RequestRefused("the query of the request is not in plain form", 400)
        return parse_qs(text, keep_blank_values=True)

    def field(self, name: str) -> str:
        return next((value for key, value in self.fields if key == name), "")


Filter = Callable[[ServiceRequest], ServiceRequest]
"""Returns what to forward, or raises `RequestRefused`."""
Connect = Callable[[ServiceRequest], Awaitable[Streams]]


def parse_head(head: bytes) -> ServiceRequest:
    """The head of a request, up to its empty line. Strict: what is unusual is refused."""
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    begun, fields = _LINE.fullmatch(line), [_FIELD.fullmatch(one) for one in lines]
    if begun is None or not all(fields):
        raise RequestRefused("the request is malformed", 400)
    request = ServiceRequest(
        begun[1], begun[2], tuple((one[1].lower(), one[2]) for one in fields if one)
    )  # fmt: skip
    names = [name for name, _ in request.fields]
    if "transfer-encoding" in names or any(names.count(name) > 1 for name in _ONCE):
        raise RequestRefused("it is unclear where the request ends", 400)
    if not re.fullmatch(r"[0-9]{0,7}", request.field("content-length")):
        raise RequestRefused("the request is too large", 400)
    wanted = {one.strip().lower() for one in request.field("connection").split(",")} - {""}
    if wanted - {"keep-alive", "close", "upgrade"} or ("upgrade" in wanted) != ("upgrade" in names):
        raise RequestRefused("the request would change how the connection is used", 400)
    return request


class FilterServer:
    """Answers connections until it is closed."""

    def __init__(self, judge: Filter, connect: Connect) -> None:
        self._judge = judge
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None

    async def listen(self, made: socket.socket) -> None:
        unix = made.family == socket.AF_UNIX
        start = asyncio.start_unix_server if unix else asyncio.start_server
        self._listening = await start(self._accept, sock=made, limit=MOST_HEAD)

    def hold(self, task: asyncio.Task[None]) -> None:
        """Until it is done, or this is closed."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hold(asyncio.ensure_future(self._answer(reader, writer)))

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for task in (*self._tasks,):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = parse_head(await reader.readuntil(b"\r\n\r\n"))
            size = int(request.field("content-length") or 0)
            if size > MOST_BODY:
                raise RequestRefused("the request is too large", 400)
            request = request._replace(body=await reader.readexactly(size))
            await self._forward(self._judge(request), reader, writer)
        except RequestRefused as refused:
            writer.write(_answer_refused(refused))
        except UnicodeDecodeError:
            writer.write(_answer_refused(RequestRefused("the request is malformed", 400)))
        except (asyncio.LimitOverrunError, EOFError, OSError):  # whoever asked is gone, or rambles
            pass
        finally:
            writer.close()

    async def _forward(
        self, request: ServiceRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            answers, service = await self._connect(request)
        except OSError as error:
            raise RequestRefused(f"the service does not answer: {error}", 502) from error
        try:
            service.write(_encoded(request))
            upgraded = bool(request.field("upgrade"))
            if upgraded:  # only if the service agrees: it would read what follows as a request
                head = await answers.readuntil(b"\r\n\r\n")
                upgraded = head.startswith(b"HTTP/1.1 101 ")
                writer.write(head)
            # Without an upgrade nothing may follow: whoever asked went away, or sent more.
            there = asyncio.ensure_future(_copy(reader, service) if upgraded else _rest(reader))
            rewrite = request.rewrite
            passed = _rewrite(answers, writer, rewrite) if rewrite else _copy(answers, writer)
            back = asyncio.ensure_future(passed)
            try:
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                if upgraded:
                    await back
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        finally:
            service.close()


async def _rewrite(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, line_of: Callable[[bytes], bytes]
) -> None:
    head = await source.readuntil(b"\r\n\r\n")
    target.write(re.sub(rb"(?i)\r\ncontent-length:[^\r]*", b"", head))
    rest = b""
    try:
        while data := await source.read(PIECE):
            *lines, rest = (rest + data).split(b"\n")
            target.writelines(line_of(line) + b"\n" for line in lines)
            await target.drain()
        target.write(line_of(rest) if rest else b"")
    except RequestRefused as refused:
        target.write(_status(refused))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(PIECE):
        target.write(data)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


async def _rest(reader: asyncio.StreamReader) -> None:
    await reader.read(1)


def _encoded(request: ServiceRequest) -> bytes:
    upgraded = request.field("upgrade")
    version = "1.0" if request.rewrite else "1.1"  # without chunks
    lines = [f"{request.method} {request.target} HTTP/{version}", "host: localhost"]
    lines += [f"{name}: {value}" for name, value in request.fields if name not in _HOP]
    lines.append(f"connection: {'upgrade' if upgraded else 'close'}")
    if request.body or request.method not in ("GET", "HEAD"):
        lines.append(f"content-length: {len(request.body)}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + request.body


def _answer_refused(refused: RequestRefused) -> bytes:
    body = _status(refused)
    head = (
        f"HTTP/1.1 {refused.status} {_reason(refused)}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _reason(refused: RequestRefused) -> str:
    return "Forbidden" if refused.status == 403 else "BadRequest"


def _status(refused: RequestRefused) -> bytes:
    """As Docker, Podman and Kubernetes say it."""
    said = f"hermes: {refused.message}"
    facts = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": _reason(refused),
        "code": refused.status, "message": said, "cause": said, "response": refused.status,
    }  # fmt: skip
    return json.dumps(facts).encode()
