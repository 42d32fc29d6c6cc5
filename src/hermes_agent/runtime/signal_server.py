"""The one door to the network: alerts of other systems, and nothing else. Whoever raises one there
must know the token."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.runtime.replies import guarded, reply

if TYPE_CHECKING:
    from hermes_agent.runtime.incidents import Incidents
    from hermes_agent.runtime.runtime import Runtime

log = logging.getLogger("hermes.incidents")

LOOK_SECONDS = 2.0
MOST_BYTES = 1_000_000
MOST_AT_ONCE = 64
BODY_SECONDS = 15.0
PATIENCE_SECONDS = 20.0
"""How long somebody may stay connected without a request that is being answered."""
SHORTEST_TOKEN = 16


class _Server(uvicorn.Server):
    """Signals of the process are the runtime's own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Visitor(H11Protocol):
    """A connection. Strangers can make them, so there are only so many, and none that only waits
    is kept for long."""

    patience = PATIENCE_SECONDS
    _leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        super().connection_made(transport)
        if len(self.connections) > MOST_AT_ONCE:
            transport.abort()
        else:
            self._leaving = self.loop.call_later(self.patience, self._leave)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        super().connection_lost(exc)

    def _leave(self) -> None:
        # There is none before the first request, whatever its type says.
        if self.cycle and not self.cycle.response_complete:  # type: ignore[truthy-bool]  # so
            self._leaving = self.loop.call_later(self.patience, self._leave)
        else:
            self.transport.abort()


class SignalServer:
    def __init__(self, runtime: "Runtime", incidents: "Incidents") -> None:
        self._runtime = runtime
        self._incidents = incidents
        self.address = ""
        """Where it listens now."""
        self.trouble = ""
        """Why it does not, where it should."""

    async def tend(self) -> None:
        """Listen where the settings say, for as long as they say so."""
        while True:
            self._incidents.notice_settings()
            wanted = self._runtime.settings.watch.listen
            if not wanted:
                self.trouble = ""
            else:
                await self._serve(wanted)
            await asyncio.sleep(LOOK_SECONDS)

    async def _serve(self, wanted: str) -> None:
        try:
            self._token()
            listening = _bound(wanted)
        except HermesError as error:
            self._say(f"watch.listen: {error.message} ({error.hint})")
            return
        except OSError as error:
            self._say(f"cannot listen on {wanted}: {error.strerror or error}")
            return
        self._say("")
        server = _Server(self._config())
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        host, port = listening.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        log.info("alerts are taken on %s", self.address)
        try:
            while self._runtime.settings.watch.listen == wanted and not serving.done():
                await asyncio.wait({serving}, timeout=LOOK_SECONDS)
                self._incidents.notice_settings()
        finally:
            self.address = ""
            server.should_exit = True
            serving.cancel()
            listening.close()

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s", trouble)
        self.trouble = trouble

    def _config(self) -> uvicorn.Config:
        routes = [
            Route("/v1/signals", guarded(self.own), methods=["POST"]),
            Route("/v1/signals/{kind}", guarded(self.foreign), methods=["POST"]),
        ]
        return uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=Visitor,
            loop="asyncio",
            server_header=False,
            limit_concurrency=MOST_AT_ONCE + 1,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )

    def _token(self) -> str:
        name = self._runtime.settings.watch.token
        if not name:
            raise UsageError("watch.token names no secret", "`hermes config set watch.token NAME`")
        token = self._runtime.secret(name)
        if len(token) < SHORTEST_TOKEN:
            raise UsageError(
                f"the secret {name} is too short", f"at least {SHORTEST_TOKEN} characters"
            )
        return token

    async def own(self, request: Request) -> Response:
        from hermes_agent.runtime.incident_routes import raised_outside

        body = await self._body(request)
        return body if isinstance(body, Response) else await raised_outside(self._incidents, body)

    async def foreign(self, request: Request) -> Response:
        from hermes_agent.runtime.incident_routes import raised_by

        body = await self._body(request)
        if isinstance(body, Response):
            return body
        return await raised_by(self._incidents, request.path_params["kind"], body)

    async def _body(self, request: Request) -> bytes | Response:
        """The body of somebody who may raise a signal, or why there is none."""
        try:
            token = self._token()
        except HermesError as error:
            self._say(f"watch.listen: {error.message} ({error.hint})")
            return reply({"error": "no alerts are taken now", "hint": "`hermes doctor`"}, 503)
        self._say("")
        signature = request.headers.get("x-pagerduty-signature", "")
        if not signature and not _knows(request.headers.get("authorization", ""), token):
            return _refused()
        data = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    data += piece
                    if len(data) > MOST_BYTES:
                        return _too_much(f"more than {MOST_BYTES:,} bytes", 413)
        except TimeoutError:
            return _too_much(f"not sent within {BODY_SECONDS:g} s", 408)
        if signature and not _signed(signature, bytes(data), token):
            return _refused()
        self._runtime.touch()
        return bytes(data)


def _too_much(what: str, status: int) -> Response:
    return reply({"error": what, "hint": "send fewer alerts at a time"}, status)


def _refused() -> Response:
    hint = "send `Authorization: Bearer …` with the secret that watch.token names"
    return reply({"error": "this needs the token", "hint": hint}, 401)


def _knows(header: str, token: str) -> bool:
    """Whether a header carries the token: as a bearer, or as the password of basic
    authentication."""
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
        except ValueError:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())


def _signed(header: str, body: bytes, token: str) -> bool:
    """PagerDuty signs what it sends, with any of several secrets while one is exchanged."""
    made = f"v1={hmac.new(token.encode(), body, hashlib.sha256).hexdigest()}".encode()
    return any(hmac.compare_digest(one.strip().encode(), made) for one in header.split(","))


def _bound(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{address!r} is no address", "write it as 127.0.0.1:9911")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        listening.listen(128)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
