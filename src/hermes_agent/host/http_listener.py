"""Serves routes on a TCP address from the settings. Limits connections from untrusted clients: how
many there are, how long they may idle, and what a refusal reveals."""

import asyncio
import base64
import contextlib
import hmac
import itertools
import logging
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_agent.core.errors import HermesError, TooMuch, UsageError

log = logging.getLogger("hermes.http")

POLL_SECONDS = 2.0
MAX_BYTES = 1_000_000
MAX_PARALLEL = 64
BODY_SECONDS = 15.0
PATIENCE_SECONDS = 20.0
"""How long a client may stay connected without a request in progress."""
SHORTEST_TOKEN = 16
_NUMBERS = itertools.count()


class SignalFreeServer(uvicorn.Server):
    """Leaves signals to the runtime, which waits for running effects before it exits."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class LimitedHttpProtocol(H11Protocol):
    """A connection that is closed when it idles. When there are too many, the oldest that
    has not sent a whole request makes room: whoever only connects keeps nobody out."""

    patience = PATIENCE_SECONDS
    _leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        super().connection_made(transport)
        self._leaving = self.loop.call_later(self.patience, self._leave)
        self._number = next(_NUMBERS)
        if len(self.connections) > MAX_PARALLEL:
            others = (one for one in self.connections if isinstance(one, LimitedHttpProtocol))
            one = min(others, key=LimitedHttpProtocol._precedence)
            self.connections.discard(one)  # at once: the event loop aborts it a little later
            one.transport.abort()

    def _precedence(self) -> tuple[bool, int]:
        """Sorts first what makes room first: the oldest that has not sent a whole request."""
        return self._is_answering() and not self.cycle.more_body, self._number

    def _is_answering(self) -> bool:
        # None before the first request, whatever its type says.
        return bool(self.cycle and not self.cycle.response_complete)  # type: ignore[truthy-bool]  # so

    def connection_lost(self, exc: Exception | None) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        super().connection_lost(exc)

    def _leave(self) -> None:
        if self._is_answering():
            self._leaving = self.loop.call_later(self.patience, self._leave)
        else:
            self.transport.abort()


class HttpListener:
    """`setting` is the name of the setting whose `value` is the address. `ready` raises a
    `HermesError` as long as it must not listen. `refresh` reloads the settings."""

    def __init__(
        self,
        setting: str,
        value: Callable[[], str],
        routes: Callable[[], Sequence[Route]],
        ready: Callable[[], object],
        refresh: Callable[[], None],
    ) -> None:
        self._setting = setting
        self._value = value
        self._routes = routes
        self._ready = ready
        self._refresh = refresh
        self.address = ""
        """The address it listens on now."""
        self.trouble = ""
        """Why it does not listen although it should."""

    async def run(self) -> None:
        """Listen where the settings say, and follow their changes."""
        while True:
            self._refresh()
            wanted = self._value()
            if not wanted:
                self.trouble = ""
            else:
                await self._serve(wanted)
            await asyncio.sleep(POLL_SECONDS)

    async def _serve(self, wanted: str) -> None:
        try:
            self._ready()
            listening = _bound(wanted)
        except HermesError as error:
            self.report(error)
            return
        except OSError as error:
            self._set_trouble(f"cannot listen on {wanted}: {error.strerror or error}")
            return
        self._set_trouble("")
        server = SignalFreeServer(self._config())
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        host, port = listening.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        log.info("%s: listening on %s", self._setting, self.address)
        try:
            while self._value() == wanted and not serving.done():
                await asyncio.wait({serving}, timeout=POLL_SECONDS)
                self._refresh()
        finally:
            self.address = ""
            server.should_exit = True
            serving.cancel()
            listening.close()

    def report(self, trouble: HermesError | None) -> None:
        """Report what is wrong, or None if nothing is."""
        self._set_trouble(f"{self._setting}: {trouble.message} ({trouble.hint})" if trouble else "")

    def _set_trouble(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s", trouble)
        self.trouble = trouble

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            Starlette(routes=self._routes()),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=LimitedHttpProtocol,
            loop="asyncio",
            server_header=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )


class TookTooLong(HermesError):
    """A request body did not arrive in time, or not at all."""


async def body_within(request: Request, most: int = MAX_BYTES) -> bytes:
    """Read the body of a request, up to a size and within a time."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise TooMuch(f"more than {most:,} bytes", "send less at a time")
    except ClientDisconnect:
        raise TookTooLong("the client disconnected", "send it again") from None
    except TimeoutError:
        raise TookTooLong(f"not sent within {BODY_SECONDS:g} s", "send less at a time") from None
    return bytes(data)


def token_of(setting: str, name: str, secret: Callable[[str], str]) -> str:
    """The token that clients must present: the secret of that name."""
    if not name:
        raise UsageError(f"{setting} is not set", f"`hermes config set {setting} NAME`")
    token = secret(name)
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(f"the secret {name} is too short", f"at least {SHORTEST_TOKEN} characters")
    return token


def knows(header: str, token: str) -> bool:
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


def _bound(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"not a valid address: {address!r}", "write it as 127.0.0.1:9911")
    host = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:  # a name would need a blocking lookup
        socket.inet_pton(family, host)
    except OSError:
        raise UsageError(f"not an IP address: {host!r}", "write it as 127.0.0.1:9911") from None
    # With its protocol named, asyncio sets TCP_NODELAY on the connections.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        listening.listen(128)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
