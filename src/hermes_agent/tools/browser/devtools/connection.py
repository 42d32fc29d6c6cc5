"""The DevTools protocol: calls with answers, and events, over a pipe or a WebSocket. Each page and
each frame of another process has a session of its own on the one connection."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from hermes_agent.core.errors import ToolError

Params = Mapping[str, Any]
Listener = Callable[[str, str, dict[str, Any]], None]
"""Called with an event's session (empty for the browser's own), name and parameters."""

GONE = "Hermes.gone"
"""The last event: the browser ended."""


class DevtoolsTransport(Protocol):
    """Carries messages. `receive` raises `EOFError` when the browser is gone."""

    async def send(self, message: bytes) -> None: ...

    async def receive(self) -> bytes | str: ...

    async def close(self) -> None: ...


class DevtoolsError(Exception):
    """The browser refused the call."""


class SessionLost(Exception):
    """The page or frame is gone."""


class BrowserGone(ToolError):
    """The browser ended or the connection broke."""

    def __init__(self) -> None:
        super().__init__(
            "the browser crashed or was stopped; its pages are lost",
            "open the page again: a new browser starts",
            "changed",
        )


class _Message(msgspec.Struct):
    id: int = 0
    method: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    session: str = msgspec.field(default="", name="sessionId")


class DevtoolsConnection:
    """The connection to one browser."""

    def __init__(self, wire: DevtoolsTransport, listener: Listener) -> None:
        self._wire = wire
        self._listener = listener
        self._last = 0
        self._waiting: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._decoder = msgspec.json.Decoder(_Message)
        self.alive = True
        self._pump = asyncio.create_task(self._read())

    async def call(self, method: str, params: Params | None = None, session: str = "") -> Any:
        """Returns the browser's answer. Raises `DevtoolsError`, `SessionLost` or `BrowserGone`. It
        has no timeout of its own: the caller has one for the whole action."""
        future = await self.begin(method, params, session)
        try:
            return await future
        finally:
            future.cancel()

    async def begin(
        self, method: str, params: Params | None = None, session: str = ""
    ) -> "asyncio.Future[dict[str, Any]]":
        """Send a call; returns the future of its answer."""
        if not self.alive:
            raise BrowserGone
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = (session, future)
        try:
            await self._wire.send(msgspec.json.encode(message))
        except (OSError, EOFError):
            raise BrowserGone from None
        return future

    def lose(self, session: str) -> None:
        """Fail all calls of a session that is over."""
        for number, (owner, future) in list(self._waiting.items()):
            if owner == session:
                del self._waiting[number]
                _fail(future, SessionLost(session))

    async def _read(self) -> None:
        try:
            while True:
                message = self._decoder.decode(await self._wire.receive())
                if message.method:
                    self._listener(message.session, message.method, message.params)
                elif message.id in self._waiting:
                    self._answer(self._waiting.pop(message.id)[1], message)
        except (EOFError, OSError):
            pass  # reported to all callers below
        finally:
            self.alive = False
            for _, future in self._waiting.values():
                _fail(future, BrowserGone())
            self._waiting.clear()
            self._listener("", GONE, {})

    @staticmethod
    def _answer(future: "asyncio.Future[dict[str, Any]]", message: _Message) -> None:
        if message.error is None:
            if not future.done():
                future.set_result(message.result)
            return
        text = str(message.error.get("message", ""))
        gone = "session" in text.lower() and "not found" in text.lower()
        _fail(future, SessionLost(text) if gone else DevtoolsError(text))

    async def close(self) -> None:
        self.alive = False
        await self._wire.close()
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)


def _fail(future: "asyncio.Future[dict[str, Any]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # the caller may have stopped waiting
