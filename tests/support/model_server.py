"""A local HTTP server that stands for a service: it answers byte for byte what a test tells it to,
in every way a real one fails, and records what it is sent."""

import asyncio
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import uvicorn

from tests.support.patience import PATIENCE

End = Literal["end", "cut", "reset", "hang"]
"""How an answer ends: properly, with the connection closed too early, with the connection reset,
or not at all."""


@dataclass(frozen=True)
class Raw:
    """An answer byte for byte."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    end: End = "end"

    @classmethod
    def events(cls, *chunks: Any, end: End = "end") -> "Raw":
        """A stream of these chunks (values that become JSON; bytes go out as they are)."""
        return cls([c if isinstance(c, bytes) else event(c) for c in chunks], end=end)

    @classmethod
    def json(cls, content: Any, status: int = 200, **headers: str) -> "Raw":
        body = json.dumps(content).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls([body], status, {"content-type": "application/json", **named})


def event(chunk: Any, name: str = "") -> bytes:
    """One server-sent event."""
    named = f"event: {name}\n".encode() if name else b""
    return named + b"data: " + json.dumps(chunk).encode() + b"\n\n"


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    query: str
    body: bytes
    headers: dict[str, str]
    time: float
    port: int
    """The sender's: the same for calls over one connection."""

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


class _Server(uvicorn.Server):
    """Runs in a thread and stops at once: open answers hang on purpose, so none is waited for."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._running = threading.Event()

    async def main_loop(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._running.set()
        while not self._end.is_set():
            await self.on_tick(0)  # keeps the date header right
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), 1.0)

    def stop(self) -> None:
        assert self._running.wait(PATIENCE)
        self._loop.call_soon_threadsafe(self._end.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        connections: Any = list(self.server_state.connections)
        for connection in connections:
            connection.transport.abort()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Answers = Iterable[Raw] | Callable[[Received], Raw]


class ModelServer:
    """Gives `answers` one by one, or what the function makes of each request."""

    def __init__(
        self,
        answers: Answers = (),
        *,
        port: int = 0,
        first_delay: float = 0.0,
        chunk_delay: float = 0.0,
    ) -> None:
        self.requests: list[Received] = []
        self.first_delay = first_delay
        self.chunk_delay = chunk_delay
        self.left_early = 0
        """Answers that the listener did not hear to their end."""
        self._failures: deque[Raw] = deque()
        self._answers = answers if callable(answers) else deque(answers)
        # Named as TCP, asyncio sends small pieces at once; otherwise each waits 40 ms for an ACK.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(512)
        config = uvicorn.Config(
            self._app, http="h11", ws="none", loop="asyncio", lifespan="off", interface="asgi3",
            proxy_headers=False, log_config=None, access_log=False, timeout_keep_alive=60,
        )  # fmt: skip
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def connected(self) -> set[int]:
        """The ports of those whose connections are open."""
        connections: Any = list(self._server.server_state.connections)
        return {connection.client[1] for connection in connections if connection.client}

    def answer_next(self, raw: Raw, times: int = 1) -> None:
        """Before everything else."""
        self._failures.extend([raw] * times)

    # life

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join(timeout=PATIENCE)
        self._socket.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    # the wire

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        received = Received(
            scope["method"], scope["path"], scope["query_string"].decode(), body, headers,
            time.time(), scope["client"][1],
        )  # fmt: skip
        refused = self._refused(received)
        if refused is not None:
            await self._send(scope, receive, send, refused)
            return
        self.requests.append(received)
        if self.first_delay:
            await asyncio.sleep(self.first_delay)
        if self._failures:
            await self._send(scope, receive, send, self._failures.popleft())
            return
        await self._answer(scope, receive, send, received)

    def _refused(self, _received: Received) -> Raw | None:
        """What is answered to a request that is none, without counting it."""
        return None

    async def _answer(self, scope: Any, receive: Any, send: Any, received: Received) -> None:
        if callable(self._answers):
            raw = self._answers(received)
        else:
            out = Raw.json({"error": {"message": "the script is used up"}}, 400)
            raw = self._answers.popleft() if self._answers else out
        await self._send(scope, receive, send, raw)

    async def _start(self, send: Any, raw: Raw) -> None:
        headers = [(name.encode(), value.encode()) for name, value in raw.headers.items()]
        await send({"type": "http.response.start", "status": raw.status, "headers": headers})

    async def _piece(self, send: Any, piece: bytes) -> None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self.chunk_delay:
            await asyncio.sleep(self.chunk_delay)

    async def _send(self, scope: Any, receive: Any, send: Any, raw: Raw) -> None:
        if raw.status:
            await self._start(send, raw)
        for piece in raw.pieces:
            await self._piece(send, piece)
        match raw.end:
            case "end":
                await send({"type": "http.response.body", "body": b""})
            case "cut":
                self._connection(scope).close()
            case "reset":
                self._reset(scope)
            case "hang":
                while (await receive())["type"] != "http.disconnect":
                    pass
                self.left_early += 1

    def _connection(self, scope: Any) -> Any:
        connections: Any = self._server.server_state.connections
        return next(c.transport for c in connections if c.client == tuple(scope["client"]))

    def _reset(self, scope: Any) -> None:
        transport = self._connection(scope)
        # Closing without lingering sends RST instead of FIN.
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()
