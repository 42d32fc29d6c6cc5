"""One request over the guarded client, bounded in time and bytes."""

import asyncio
import zlib
from collections.abc import Callable, Mapping
from email.message import Message
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.tools import ToolContext
from hermes_agent.tools.web.documents.types import HEAD

REDIRECTS = 10
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; hermes-runtime)",
    "Accept": "text/html,application/xhtml+xml,text/markdown;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
}


class WebResponse(Struct, frozen=True):
    url: str
    """The final address, after redirects."""
    status: int
    headers: Mapping[str, str]
    data: bytes
    cut: bool = False
    """The body was longer than allowed."""

    @property
    def type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def name(self) -> str:
        """Its file name."""
        message = Message()
        message["content-disposition"] = self.headers.get("content-disposition", "inline")
        told = message.get_filename()
        return told or unquote(urlsplit(self.url).path).rpartition("/")[2]


async def ask(
    context: ToolContext,
    method: str,
    url: str,
    *,
    most: int,
    check: Callable[[WebResponse], None] | None = None,
    **request: Any,
) -> WebResponse:
    """The answer with at most `most` bytes of its body. `check` gets it when only the start of the
    body is there, and may refuse the rest. `request` has httpx's own options."""
    if context.http is None:
        raise ToolError("the network is not available here", retry="never")
    seconds = context.settings.web.timeout_seconds
    options: dict[str, Any] = {
        "timeout": seconds,
        "follow_redirects": True,
        "max_redirects": REDIRECTS,
        "headers": _HEADERS,
    }
    host = host_of(url) or url
    try:
        async with (
            asyncio.timeout(seconds),
            context.http(**options) as client,
            client.stream(method, url, **request) as response,
        ):
            return await _received(response, most, check)
    except (TimeoutError, httpx.TimeoutException):
        raise ToolError(
            f"{host} took longer than {seconds:.0f} s to answer", retry="same"
        ) from None
    except httpx.TooManyRedirects:
        raise ToolError(f"{host} redirects more than {REDIRECTS} times", retry="changed") from None
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise ToolError(f"{host} leads to an invalid address: {error}", retry="changed") from None
    except httpx.ConnectError as error:
        raise ToolError(f"cannot reach {host}: {error}", "check the address") from None
    except httpx.HTTPError as error:
        what = str(error) or error.__class__.__name__
        raise ToolError(f"the connection to {host} failed: {what}", retry="same") from None


async def _received(
    response: httpx.Response, most: int, check: Callable[[WebResponse], None] | None
) -> WebResponse:
    body = BoundedBody(response.headers.get("content-encoding", ""), most)
    facts = (str(response.url), response.status_code, dict(response.headers))
    async for piece in response.aiter_raw():
        body.add(piece)
        if check is not None and len(body.data) >= HEAD:
            check(WebResponse(*facts, bytes(body.data)))
            check = None
        if body.cut:
            break
    answer = WebResponse(*facts, bytes(body.data[:most]), body.cut)
    if check is not None:
        check(answer)
    return answer


class BoundedBody:
    """Collects and decompresses a body up to `most` bytes: httpx would decompress a whole chunk at
    once, and that may be a bomb."""

    def __init__(self, encoding: str, most: int) -> None:
        self.data = bytearray()
        self.cut = False
        self._most = most
        self._raw = 0
        match encoding.strip().lower():
            case "" | "identity":
                self._inflate: Any = None
            case "gzip" | "x-gzip" | "deflate":
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
            case other:
                raise ToolError(f"the answer is compressed as {other!r}, which was not requested")
        self._headless = encoding.strip().lower() == "deflate"

    def add(self, piece: bytes) -> None:
        self._raw += len(piece)
        try:
            self._unpack(piece)
        except zlib.error as error:
            what = f"the answer is compressed incorrectly: {error}"
            raise ToolError(what, retry="same") from None
        self.cut = len(self.data) > self._most or self._raw > self._most

    def _unpack(self, piece: bytes) -> None:
        if self._inflate is None:
            self.data += piece
            return
        if self._headless and piece:
            # Some send deflate without zlib's two bytes before it; the first of them is telling.
            self._headless = False
            if piece[0] & 0x0F != zlib.DEFLATED:
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        while piece and len(self.data) <= self._most:
            if self._inflate.eof:
                if not piece.startswith(b"\x1f\x8b"):
                    return  # padding
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
            self.data += self._inflate.decompress(piece, self._most + 1 - len(self.data))
            piece = self._inflate.unused_data or self._inflate.unconsumed_tail
