"""A local server that speaks the OpenAI chat wire from a script, records what it is sent, and
fails in every way a real one does.

In a test:

    with OpenAIServer([Reply("hello")]) as server:
        ...  # OPENAI_BASE_URL=server.url
        server.fail_next("429", retry_after=0)
        server.assert_prefix_stable()

For other processes: `python tests/support/openai_server.py --port 0 --script FILE` prints its URL
as the first line (the file is in the format of `hermes_agent.models.scripted`).
"""

import argparse
import asyncio
import json
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, pairwise, zip_longest
from pathlib import Path
from typing import Any, Literal, Self

import uvicorn

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    Prompt,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.core.protocols import Model
from hermes_agent.models.scripted import ScriptedModel, load_script

End = Literal["end", "cut", "reset", "hang"]
"""How an answer ends: properly, with the connection closed too early, with the connection reset,
or not at all."""

FINISH = {"end": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}


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
        return cls([c if isinstance(c, bytes) else _event(c) for c in chunks], end=end)


@dataclass(frozen=True)
class Received:
    body: bytes
    headers: dict[str, str]
    time: float
    port: int
    """The sender's: the same for calls over one connection."""

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content

    @property
    def conversation(self) -> str:
        """Which conversation it belongs to: our session header, else how it begins."""
        if session := self.headers.get("x-hermes-session"):
            return session
        messages = self.json["messages"]
        first = next((m for m in messages if m["role"] == "user"), None)
        system = [m for m in messages if m["role"] in ("system", "developer")]
        return json.dumps([system[:1], first])


def _error(status: int, message: str, type: str, code: str | None = None, **headers: str) -> Raw:
    body = {"error": {"message": message, "type": type, "param": None, "code": code}}
    return Raw([json.dumps(body).encode()], status, {"content-type": "application/json", **headers})


def _event(chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def text_chunk(text: str | None, finish: str | None = None) -> dict[str, Any]:
    """A chunk as OpenAI sends it; None is its null content."""
    return chunk({"content": text}, finish)


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


_PAGE = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"
_HALF = (_event(text_chunk("half an ")), _event(text_chunk("answer")))

FAILURES: dict[str, Raw] = {
    "400": _error(400, "Unknown parameter: 'nonsense'.", "invalid_request_error"),
    "401": _error(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    "403": _error(403, "Country not supported", "request_forbidden"),
    "404": _error(404, "The model does not exist.", "invalid_request_error", "model_not_found"),
    "422": _error(422, "messages.0.content: field required", "invalid_request_error"),
    "429": _error(429, "Rate limit reached", "requests", "rate_limit_exceeded"),
    "500": _error(500, "The server had an error", "server_error"),
    "502": Raw([_PAGE], 502, {"content-type": "text/html"}),
    "503": _error(503, "Overloaded, try again later", "service_unavailable"),
    "529": _error(529, "Overloaded", "overloaded_error"),
    "quota": _error(
        429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"
    ),
    "context": _error(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9000 tokens. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    "cut": Raw(_HALF, end="cut"),
    "stall": Raw(_HALF, end="hang"),
    "garbage": Raw([*_HALF, b'data: {"choices": [{"del\xff\n\n']),
    "html": Raw([_PAGE], 200, {"content-type": "text/html"}),
    "empty": Raw([]),
    "midway": Raw([*_HALF, _event({"error": {"message": "worker died", "code": 502}})]),
    "silent": Raw(status=0, end="hang"),
    "reset": Raw(status=0, end="reset"),
}


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
        assert self._running.wait(30)
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


Script = Sequence[Reply | Raw | Callable[[Request], Reply]] | Model


class OpenAIServer:
    """`script`: a model, or replies picked by the number of assistant messages in the request (so
    that a resumed turn goes on where it was), or, `in_order`, one for each request that is not
    made to fail. `Raw` entries need `in_order`."""

    def __init__(
        self,
        script: Script = (),
        *,
        in_order: bool = False,
        port: int = 0,
        first_delay: float = 0.0,
        chunk_delay: float = 0.0,
    ) -> None:
        self.requests: list[Received] = []
        self.first_delay = first_delay
        self.chunk_delay = chunk_delay
        self._entries: deque[Any] | None = None
        self._model: Model = ScriptedModel()
        if not isinstance(script, Sequence):
            self._model = script
        elif in_order:
            self._entries = deque(script)
        else:
            self._model = ScriptedModel(*script)  # type: ignore[arg-type]  # no Raw among them
        self._failures: deque[Raw] = deque()
        self._numbers = count(1)
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
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def fail_next(
        self, how: str | Raw, *, retry_after: float | str | None = None, times: int = 1
    ) -> None:
        """Make the next request fail: one of `FAILURES`, or anything."""
        raw = FAILURES[how] if isinstance(how, str) else how
        if retry_after is not None:
            raw = Raw(
                raw.pieces, raw.status, {**raw.headers, "retry-after": str(retry_after)}, raw.end
            )
        self._failures.extend([raw] * times)

    def conversations(self) -> dict[str, list[Received]]:
        grouped: dict[str, list[Received]] = {}
        for request in list(self.requests):
            grouped.setdefault(request.conversation, []).append(request)
        return grouped

    def assert_prefix_stable(self, compactions: int = 0) -> None:
        """In every conversation each request begins with the bytes of the one before, less its
        closing brackets. A compaction branches off twice (the request for the summary, and the
        shortened conversation); what is fixed and the first message are shared even then."""
        branches = 0
        for name, requests in self.conversations().items():
            for number, (before, after) in enumerate(pairwise(requests), 1):
                if _extends(before.body, after.body):
                    continue
                branches += 1
                shared = _shared(before.body, after.body)
                allowed = shared >= _first_end(before) and branches <= 2 * compactions
                assert allowed, (
                    f"request {number + 1} of {name} does not begin with the one before it:\n"
                    f"  {before.body[max(0, shared - 60) : shared + 60]!r}\n"
                    f"  {after.body[max(0, shared - 60) : shared + 60]!r}"
                )

    # life

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join(timeout=30)
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
        if scope["method"] != "POST" or not scope["path"].endswith("/chat/completions"):
            await self._send(scope, receive, send, _error(404, "no such page", "not_found"))
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append(Received(body, headers, time.time(), scope["client"][1]))
        if self.first_delay:
            await asyncio.sleep(self.first_delay)
        if self._failures:
            await self._send(scope, receive, send, self._failures.popleft())
            return
        await self._answer(scope, receive, send, json.loads(body))

    async def _answer(self, scope: Any, receive: Any, send: Any, body: dict[str, Any]) -> None:
        request, model = _request_of(body), self._model
        if self._entries is not None:
            entry = self._entries.popleft() if self._entries else FAILURES["400"]
            if isinstance(entry, Raw):
                await self._send(scope, receive, send, entry)
                return
            reply = entry if isinstance(entry, Reply) else entry(request)
            model = ScriptedModel(*[reply] * (len(request.messages) + 1))
        try:
            if not body.get("stream"):
                await self._send(scope, receive, send, await self._whole(model, request, body))
                return
            pieces = self._stream(model, request, body)
            first = await anext(pieces)
        except ModelError as error:
            raw = _error(400, error.message, "invalid_request_error")
            await self._send(scope, receive, send, raw)
            return
        await self._start(send, Raw())
        await self._piece(send, first)
        async for piece in pieces:
            await self._piece(send, piece)
        await send({"type": "http.response.body", "body": b""})

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

    async def _stream(
        self, model: Model, request: Request, body: dict[str, Any]
    ) -> AsyncIterator[bytes]:
        number, reply = next(self._numbers), Reply()
        counted = bool(body.get("stream_options", {}).get("include_usage"))

        def event(delta: dict[str, Any] | None, **other: Any) -> bytes:
            choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": None}]
            for choice in choices:
                choice["finish_reason"] = other.pop("finish", None)
            return _event(
                {
                    "id": f"chatcmpl-{number}", "object": "chat.completion.chunk",
                    "created": int(time.time()), "model": body["model"], "choices": choices,
                    **({"usage": None} if counted else {}), **other,
                }
            )  # fmt: skip

        parts = model.stream(request)
        part: Chunk | None = await anext(parts)  # a script that is used up says so before it begins
        yield event({"role": "assistant", "content": ""})
        while part is not None:
            if isinstance(part, Delta):
                yield event({"content": part.text})
            elif isinstance(part, Reply):
                reply = part
            part = await anext(parts, None)
        for piece in _call_pieces(reply.calls):
            yield event({"tool_calls": [piece]})
        yield event({}, finish=FINISH[reply.stop])
        if counted:
            yield event(None, usage=_usage_of(reply))
        yield b"data: [DONE]\n\n"

    async def _whole(self, model: Model, request: Request, body: dict[str, Any]) -> Raw:
        reply = Reply()
        async for part in model.stream(request):
            if isinstance(part, Reply):
                reply = part
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function",
                 "function": {"name": c.name, "arguments": c.arguments}}
                for c in reply.calls
            ]  # fmt: skip
        choice = {"index": 0, "message": message, "finish_reason": FINISH[reply.stop]}
        content = {
            "id": f"chatcmpl-{next(self._numbers)}", "object": "chat.completion",
            "created": int(time.time()), "model": body["model"], "choices": [choice],
            "usage": _usage_of(reply),
        }  # fmt: skip
        return Raw([json.dumps(content).encode()], 200, {"content-type": "application/json"})


def _call_pieces(calls: Sequence[ToolCall]) -> Iterator[dict[str, Any]]:
    """The calls in pieces, those of different calls in turn: the hardest way they come."""
    for index, call in enumerate(calls):
        yield {
            "index": index, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }  # fmt: skip
    cut = [[c.arguments[i : i + 7] for i in range(0, len(c.arguments), 7)] for c in calls]
    for row in zip_longest(*cut):
        for index, piece in enumerate(row):
            if piece:
                yield {"index": index, "function": {"arguments": piece}}


def _usage_of(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.usage.input,
        "completion_tokens": reply.usage.output,
        "total_tokens": reply.usage.total,
        "prompt_tokens_details": {"cached_tokens": reply.usage.cached},
    }


def _request_of(body: dict[str, Any]) -> Request:
    """The request in our own terms."""
    system, messages = "", list[Message]()
    for message in body["messages"]:
        content = message.get("content") or ""
        match message["role"]:
            case "system" | "developer":
                system = content
            case "user":
                messages.append(UserMessage(content))
            case "tool":
                messages.append(ToolMessage(message["tool_call_id"], "", content))
            case "assistant":
                calls = tuple(
                    ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"])
                    for c in message.get("tool_calls") or ()
                )
                messages.append(AssistantMessage(content, calls))
    tools = tuple(
        ToolSpec(f["name"], f.get("description", ""), f.get("parameters", {}))
        for f in (tool["function"] for tool in body.get("tools", ()))
    )
    return Request(Prompt(system, tools), tuple(messages))


def _extends(before: bytes, after: bytes) -> bool:
    return after.startswith(before.removesuffix(b"]}"))


def _shared(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _first_end(request: Received) -> int:
    """Where the system prompt and the first message of the conversation end in the body."""
    messages = request.json["messages"]
    first = next((n for n, m in enumerate(messages) if m["role"] == "user"), 0)
    kept = json.dumps(messages[: first + 1], separators=(",", ":"), ensure_ascii=False).encode()
    return request.body.index(b'"messages":') + len(b'"messages":') + len(kept) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description="a scripted server for the OpenAI chat format")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--first-delay", type=float, default=0.0)
    parser.add_argument("--chunk-delay", type=float, default=0.0)
    options = parser.parse_args()
    # Blocked before the server's thread starts, so that they wait for `sigwait` below.
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    server = OpenAIServer(
        load_script(options.script),
        port=options.port,
        first_delay=options.first_delay,
        chunk_delay=options.chunk_delay,
    )
    with server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        signal.sigwait(ending)


if __name__ == "__main__":
    main()
