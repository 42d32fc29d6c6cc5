"""Where a server may send us. Logging in asks addresses that the server names, and it must not name
one of this machine or its neighbours.

A name is looked up here and once more when it is connected to. Whoever changes it in between leads
us elsewhere, but to something that must have a certificate for that name. The server's own host is
trusted as far as the user did who named it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import httpx2

from hermes_agent.core.text.addresses import classify


class BlockedAddress(httpx2.TransportError):
    """The server sent us where we do not go. The request never left."""


def only_public(url: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Checks a request before it leaves. To the server's own origin it may go, and elsewhere over
    https to public addresses; where the server itself is not public, to its host as well."""
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
