"""The MCP server as a process: over standard input and output, or over HTTP."""

import asyncio
import hmac
import json
import logging
import signal
import socket
import sys

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.mcp.serve.tools import build_server
from hermes_agent.core.errors import HermesError

SHUTDOWN_SECONDS = 3
"""How long open connections may take to close when the server stops."""


def over_stdio(workspace: str) -> None:
    """Serve the one client that started us, until it closes our input."""
    _log_to_stderr()
    # The thread that reads the input cannot be woken, so Ctrl-C must end the process. Turns go on
    # in the runtime.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = build_server(RuntimeClient(), workspace, leaving=lambda: False)
    try:
        asyncio.run(server.run_stdio_async())
    except* BrokenPipeError:
        pass  # the client died


def over_http(workspace: str, host: str, port: int, token: str, *, show_token: bool) -> None:
    """Serve clients that send the token, until stopped."""
    _log_to_stderr()
    listening = _listen(host, port)
    runner: uvicorn.Server | None = None
    server = build_server(
        RuntimeClient(), workspace, leaving=lambda: runner is not None and runner.should_exit
    )
    app = TokenOnly(server.streamable_http_app(host=host), token)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS
    )
    runner = uvicorn.Server(config)
    shown = f"[{host}]" if ":" in host else host
    print(f"serving MCP at http://{shown}:{listening.getsockname()[1]}/mcp", file=sys.stderr)
    if show_token:
        print(f"token: {token}", file=sys.stderr)
    sys.stderr.flush()
    asyncio.run(runner.serve(sockets=[listening]))


def _log_to_stderr() -> None:
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(where[:2], family=family)
        return socket.socket(fileno=made.detach())  # knows its protocol: asyncio sets TCP_NODELAY
    except OSError as error:
        raise HermesError(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            "choose another port, such as --http 8765; 0 takes a free one",
        ) from None


class TokenOnly:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._has_token(scope)):
            return await self._app(scope, receive, send)
        if scope["type"] != "http":  # a websocket, which nothing here supports
            return await send({"type": "websocket.close"})
        body = {"error": "wrong token, or none", "hint": "send `Authorization: Bearer TOKEN`"}
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        return await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)
