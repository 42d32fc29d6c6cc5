"""A server over HTTP. A transport error becomes the answer to the one request it concerns, so that
other calls continue, and it says whether the request may have been carried out."""

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from hermes_agent.core.text.addresses import classify
from hermes_agent.tools.mcp.transports.stdio import Streams

CONNECT_SECONDS = 30.0
ANSWER_BYTES = 32_000_000
"""The largest answer, or event of a stream."""

Trouble = Literal["unsent", "expired", "busy", "lost", "login", "refused", "astray"]
"""After `unsent`, `expired` and `busy` the request was certainly not carried out; after `lost` the
outcome is unknown."""

_MARK = secrets.token_hex(8)
"""Tells our own answers from a server's, which could imitate them."""
_STATUS: Mapping[int, Trouble] = {
    401: "login",
    429: "busy",
    502: "lost",
    503: "busy",
    504: "lost",
}


def trouble_of(error: MCPError) -> Trouble | None:
    """The transport error of a request; None for an answer of the server itself."""
    data = error.data
    if isinstance(data, dict) and data.get("mark") == _MARK:
        kind: Trouble = data["trouble"]
        return kind
    return None


@asynccontextmanager
async def remote(
    url: str, headers: Mapping[str, str], auth: httpx2.Auth | None
) -> AsyncIterator[Streams]:
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)  # the caller has a timeout
    async with (
        _Client(
            headers=dict(headers),
            timeout=timeout,
            auth=auth,
            trust_env=False,  # no proxy from the environment
            verify=httpx2.create_ssl_context(),  # but the CAs that the user trusts
            event_hooks={"request": [only_public(url)]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=ANSWER_BYTES) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
        except BlockedAddress as error:
            return _answer(request, "astray", str(error))
        except OAuthFlowError as error:
            return _answer(request, "login", str(error))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
            return _answer(request, "unsent", str(error) or type(error).__name__)
        except httpx2.TransportError as error:
            return _answer(request, "lost", str(error) or type(error).__name__)
        trouble = _judged(request, response)
        if trouble is None:
            return _bounded(response)
        await response.aclose()
        return _answer(request, trouble, f"HTTP {response.status_code}")


def _judged(request: httpx2.Request, response: httpx2.Response) -> Trouble | None:
    if response.status_code == 404 and MCP_SESSION_ID in request.headers:
        return "expired"
    if response.status_code in _STATUS:
        return _STATUS[response.status_code]
    told = response.headers.get("content-type", "").lower().startswith("application/json")
    return "refused" if response.status_code >= 400 and not told else None


def _answer(request: httpx2.Request, trouble: Trouble, message: str) -> httpx2.Response:
    error = {"code": 1, "message": message, "data": {"mark": _MARK, "trouble": trouble}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    kind = {"content-type": "application/json"}
    return httpx2.Response(500, headers=kind, content=body, request=request)


def _bounded(response: httpx2.Response) -> httpx2.Response:
    """Events of a stream are bounded one by one; an answer in one piece is bounded here."""
    if response.headers.get("content-type", "").startswith("application/json"):
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(stream)
    return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > ANSWER_BYTES:
                    raise httpx2.StreamError("the answer is too large")
                yield chunk
        except httpx2.TransportError as error:
            # The SDK turns this kind into the answer to one request; others end the connection.
            raise httpx2.StreamError(str(error)) from None

    async def aclose(self) -> None:
        await self._stream.aclose()


class BlockedAddress(httpx2.TransportError):
    """The server redirected to an address that is not allowed. The request was not sent."""


def only_public(url: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Checks a request before it leaves: logging in asks addresses that the server names. Allowed
    are the server's own origin and, over https, public addresses; where the server itself is not
    public, its host as well.

    A name is looked up here and again when it is connected to. Whoever changes it in between leads
    us elsewhere, but only to something that has a certificate for that name."""
    own = httpx2.URL(url)

    async def check(request: httpx2.Request) -> None:
        to = request.url
        if (to.scheme, to.host, to.port) == (own.scheme, own.host, own.port):
            return
        public = all(classify(one) == "public" for one in await _addresses(to))
        if to.host == own.host and not public:
            return
        if to.scheme != "https" or not public:
            why = "is not a public address" if to.scheme == "https" else "is not https"
            raise BlockedAddress(
                f"{to.scheme}://{to.netloc.decode()}, which {why}", request=request
            )

    return check


async def _addresses(to: httpx2.URL) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"{to.host} cannot be looked up: {error}") from None
    return [str(where[0]) for *_, where in found]
