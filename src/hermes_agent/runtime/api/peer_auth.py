"""Restricts the local API to its owner. The agent's own commands may read some of it, and change
nothing: an approved command must not be able to approve the next."""

import asyncio
import json
import re
import socket
import struct
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_agent.host.inspect import alive, is_agents_command

if TYPE_CHECKING:
    from uvicorn._types import (
        ASGI3Application,
        ASGIReceiveCallable,
        ASGIReceiveEvent,
        ASGISendCallable,
        Scope,
    )

READS = re.compile(
    r"/v1/(?:status|check|checks|costs|drift(?:/[^/]+)?|incidents(?:/[^/]+(?:/report)?)?"
    r"|jobs(?:/[^/]+)?|models/health|recall|runs)"
)
"""What `hermes status`, `doctor`, `watch list`, `cost`, `drift`, `incidents`, `task` and `search`
get."""
AUDIT = "/v1/drift"
AUDIT_FIELDS = frozenset({"repository", "scopes", "ref"})
"""What an audit of drift may be told. It only looks, under the profile `observe`, and is saved."""
MAX_BODY = 100_000
_TOLD = json.dumps(
    {
        "error": "a command of the agent may not use the runtime for this",
        "hint": "ask the user to do it",
    }
).encode()


class OwnerOnlyProtocol(H11Protocol):
    """uvicorn's HTTP protocol, which lets peers started by the agent's shells only read. A
    malicious command of root can hide its origin: only a sandbox is a boundary."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("socket")
        if peer is not None and _may_only_read(_pid_of(peer)):
            self.app = _reads_only(self.app)
        super().connection_made(transport)


def _may_only_read(pid: int) -> bool:
    """Whoever has ended after connecting cannot be told from a command of the agent: its socket may
    be in other hands."""
    return is_agents_command(pid) or not alive(pid)


def _reads_only(app: "ASGI3Application") -> "ASGI3Application":
    async def guarded(
        scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable"
    ) -> None:
        asked = (scope["method"], scope["path"]) if scope["type"] == "http" else ("", "")
        if asked[0] == "GET" and READS.fullmatch(asked[1]):
            await app(scope, receive, send)
            return
        body = await _body(receive) if asked == ("POST", AUDIT) else None
        if body is not None and _is_plain_audit(body):
            await app(scope, _again(body, receive), send)
            return
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send(
            {"type": "http.response.start", "status": 403, "headers": headers, "trailers": False}
        )
        await send({"type": "http.response.body", "body": _TOLD, "more_body": False})

    return guarded


async def _body(receive: "ASGIReceiveCallable") -> bytes | None:
    body = b""
    while len(body) <= MAX_BODY:
        event = await receive()
        if event["type"] != "http.request":
            return None
        body += event["body"]
        if not event["more_body"]:
            return body
    return None


def _again(body: bytes, receive: "ASGIReceiveCallable") -> "ASGIReceiveCallable":
    """Receives a body that was read already."""
    first: list[ASGIReceiveEvent] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> "ASGIReceiveEvent":
        return first.pop() if first else await receive()

    return replayed


def _is_plain_audit(body: bytes) -> bool:
    try:
        given = json.loads(body)
    except ValueError:
        return False
    return isinstance(given, dict) and {key for key in given if given[key]} <= AUDIT_FIELDS


def _pid_of(peer: socket.socket) -> int:
    size = struct.calcsize("3i")
    pid, _uid, _gid = struct.unpack(
        "3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return int(pid)
