"""A guarded HTTP client for tools: it resolves names itself, refuses what a rule denies and
non-public addresses unless a rule allows them, and connects to exactly the address it checked."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import httpcore
import httpx

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import address_of, classify, plain
from hermes_agent.core.tools import EgressCheck

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name."""

_PATIENCE = 5.0
"""Seconds that one of several addresses gets before the next is tried."""

_WAS_SECURE = "hermes.was_secure"
"""Set on an HTTPS request; httpx passes it on to redirected requests."""


async def resolve(name: str) -> Sequence[str]:
    """Ask the system."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def checked(host: str, reach: EgressCheck, resolver: Resolver = resolve) -> Sequence[str]:
    """The addresses to connect to. If one is refused, all are. Raises `OSError` for an unknown
    name."""
    name = plain(host)
    literal = address_of(host)
    found = [str(literal)] if literal else await resolver(name)
    addresses = []
    for text in found:
        address = address_of(text)
        if address is None:
            raise ToolError(f"{name!r} resolved to {text!r}, which is not an address")
        kind = classify(text)
        if kind == "public" and literal is None and classify(name) != "name":
            kind = classify(name)
        if not reach(name, str(address), kind == "public"):
            raise _refusal(name, str(address), kind)
        addresses.append(str(address))
    return addresses


def guarded_client(
    reach: EgressCheck,
    *,
    resolver: Resolver = resolve,
    verify: ssl.SSLContext | bool = True,
    socket: str = "",
    **options: Any,
) -> httpx.AsyncClient:
    """A client that connects where `reach` allows it, or only to the Unix socket at this path,
    which `reach` must allow as `unix:///path`. `options` are httpx's, without those that would
    bypass the guard."""
    for name in ("transport", "mounts", "proxy", "trust_env", "http2", "cert", "limits"):
        if name in options:
            raise TypeError(f"a guarded client does not accept {name!r}")
    context = httpx.create_ssl_context(verify=verify, trust_env=False)
    transport = _Transport(_Backend(reach, resolver), context, socket)
    return httpx.AsyncClient(transport=transport, trust_env=False, **options)


class _Backend(httpcore.AsyncNetworkBackend):
    """Opens connections only to checked addresses. TLS and the Host header keep the name, because
    the layers above never see the address."""

    def __init__(self, reach: EgressCheck, resolver: Resolver) -> None:
        self._reach = reach
        self._resolver = resolver
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore calls it so
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await checked(host, self._reach, self._resolver)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"looking up {host!r} took too long") from None
        except OSError as error:
            raise httpcore.ConnectError(f"cannot find {host!r}: {error.strerror}") from error
        patience = timeout if len(addresses) == 1 else min(timeout or _PATIENCE, _PATIENCE)
        trouble: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(
                    address, port, patience, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
        raise trouble or httpcore.ConnectError(f"{host!r} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore calls it so
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if not self._reach(f"unix://{path}", f"unix://{path}", False):
            raise ToolError(
                f"cannot connect to the socket {path!r}: it is not that of a source",
                "the user can add one: `hermes sources add`", "never",
            )  # fmt: skip
        return await self._inner.connect_unix_socket(path, timeout, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def _refusal(name: str, address: str, kind: str) -> ToolError:
    leads = f", which resolves to {address}" if name != address else ""
    if kind == "public":
        return ToolError(f"cannot connect to {name!r}{leads}: a rule denies it", retry="changed")
    return ToolError(
        f"cannot connect to {name!r}{leads}: {kind} addresses are refused",
        f"to permit it, add a rule that allows the host {name!r}",
    )


class _Transport(httpx.AsyncHTTPTransport):
    """httpx's own, with a pool whose connections are guarded. The pool uses a connection again
    only for the same scheme, host and port. Each redirect comes through here as a new request."""

    def __init__(self, backend: _Backend, context: ssl.SSLContext, socket: str) -> None:
        super().__init__(verify=context, trust_env=False)
        # httpx offers no way to hand in the network; the rest of its transport is as it should be.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=20,
            max_keepalive_connections=5,
            keepalive_expiry=5.0,
            network_backend=backend,
            uds=socket or None,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme == "https":
            request.extensions[_WAS_SECURE] = True
        elif request.extensions.get(_WAS_SECURE):
            raise ToolError(
                "refused to follow a redirect from https to "
                f"{request.url.scheme}://{request.url.host}: the request would not be encrypted",
                f"request {str(request.url)!r} itself if that is what you want",
            )
        return await super().handle_async_request(request)
