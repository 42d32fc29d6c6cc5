"""Where a server may send us. Logging in asks addresses that the server names, and it must not name
one of this machine or its neighbours.

A name is looked up here and once more when it is connected to. Whoever changes it in between leads
us elsewhere, but to something that must have a certificate for that name. The server's own host is
trusted as far as the user did who named it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx2

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses, as networks without any show them."""


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
        public = all(map(is_public, await _addresses(to)))
        if to.host == own.host and not public:
            return
        if to.scheme != "https" or not public:
            why = "is not a public address" if to.scheme == "https" else "is not https"
            raise BlockedAddress(
                f"{to.scheme}://{to.netloc.decode()}, which {why}", request=request
            )

    return check


def is_public(text: str) -> bool:
    address = _carried(ip_address(text))
    return address.is_global and not address.is_multicast


def _carried(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address leads to, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo is not None else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


async def _addresses(to: httpx2.URL) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"{to.host} cannot be looked up: {error}") from None
    return [str(where[0]) for *_, where in found]
