"""Restricts the local API to its owner, excluding the agent's own commands: an approved command
must not be able to approve the next."""

import asyncio
import json
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_agent.host.inspect import is_agents_command

_TOLD = json.dumps(
    {
        "error": "a command of the agent may not use the runtime",
        "hint": "ask the user to do it",
    }
).encode()
REFUSAL = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_TOLD), _TOLD)
)


class OwnerOnlyProtocol(H11Protocol):
    """uvicorn's HTTP protocol that refuses peers started by the agent's shells. A malicious command
    of root can hide its origin: only a sandbox is a boundary."""

    _refused: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("socket")
        if peer is not None and is_agents_command(_pid_of(peer)):
            self._refused = transport
        else:
            super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._refused is None:
            super().data_received(data)
        elif not self._refused.is_closing():
            # Not earlier: closing before reading would discard the refusal.
            self._refused.write(REFUSAL)
            self._refused.close()

    def eof_received(self) -> None:
        if self._refused is None:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._refused is None:
            super().connection_lost(exc)


def _pid_of(peer: socket.socket) -> int:
    size = struct.calcsize("3i")
    pid, _uid, _gid = struct.unpack(
        "3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return int(pid)
