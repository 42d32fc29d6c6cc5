"""A browser on another machine, by the address of its DevTools."""

import ssl
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from hermes_agent.core.errors import ToolError

MESSAGE_BYTES = 128 * 1024 * 1024


class SocketWire:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send(message.decode())
        except ConnectionClosed:
            raise EOFError from None

    async def receive(self) -> bytes | str:
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed:
            raise EOFError from None

    async def close(self) -> None:
        await self._socket.close()


async def connected(address: str) -> SocketWire:
    """Connect to the browser at `ws://…`, or at `http://host:port`, which names its WebSocket."""
    try:
        url = address if address.startswith("ws") else await _told(address)
        socket = await connect(
            url, max_size=MESSAGE_BYTES, compression=None, proxy=None, ping_interval=None
        )
    except (OSError, EOFError, ValueError, ssl.SSLError, WebSocketException) as error:
        raise ToolError(
            f"no browser at {address!r}: {error}",
            "the setting browser.address names it; without it a browser is started here",
            "never",
        ) from None
    return SocketWire(socket)


async def _told(address: str) -> str:
    """The WebSocket that `/json/version` names, at the given host and port: a browser behind a
    tunnel does not know its own address."""
    import httpx

    base = address.removesuffix("/").removesuffix("/json/version")
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=10.0) as client:
            answer = await client.get(f"{base}/json/version", headers={"Host": "localhost"})
        told = msgspec.json.decode(answer.content)["webSocketDebuggerUrl"]
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, TypeError) as error:
        raise ValueError(f"it does not report its address ({error!r})") from None
    parts = urlsplit(base)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}{urlsplit(told).path}"
