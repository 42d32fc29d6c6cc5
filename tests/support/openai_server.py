"""A local server that speaks the OpenAI chat wire from a script, records what it is sent, and
fails in every way a real one does.

In a test:

    with OpenAIServer([Reply("hello")]) as server:
        ...  # OPENAI_BASE_URL=server.url
        server.fail_next("429", retry_after=0)
        server.assert_prefix_stable()

For other processes: `python -m tests.support.openai_server --port 0 --script FILE` prints its URL
as the first line (the file is in the format of `hermes_agent.models.scripted`).
"""

import argparse
import json
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count, pairwise, zip_longest
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    Prompt,
    Reply,
    Request,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.core.protocols import Model
from hermes_agent.models.scripted import ScriptedModel, load_script
from tests.support.model_server import ModelServer, Raw, Received, event

FINISH = {"end": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}


def _error(status: int, message: str, type: str, code: str | None = None, **headers: str) -> Raw:
    body = {"error": {"message": message, "type": type, "param": None, "code": code}}
    return Raw([json.dumps(body).encode()], status, {"content-type": "application/json", **headers})


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
_HALF = (event(text_chunk("half an ")), event(text_chunk("answer")))

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
    "midway": Raw([*_HALF, event({"error": {"message": "worker died", "code": 502}})]),
    "silent": Raw(status=0, end="hang"),
    "reset": Raw(status=0, end="reset"),
}


Script = Sequence[Reply | Raw | Callable[[Request], Reply]] | Model


def conversation_of(received: Received) -> str:
    """Which conversation a request belongs to: our session header, else how it begins."""
    if session := received.headers.get("x-hermes-session"):
        return session
    messages = received.json["messages"]
    first = next((m for m in messages if m["role"] == "user"), None)
    system = [m for m in messages if m["role"] in ("system", "developer")]
    return json.dumps([system[:1], first])


class OpenAIServer(ModelServer):
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
        super().__init__(port=port, first_delay=first_delay, chunk_delay=chunk_delay)
        self._entries: deque[Any] | None = None
        self._model: Model = ScriptedModel()
        if not isinstance(script, Sequence):
            self._model = script
        elif in_order:
            self._entries = deque(script)
        else:
            self._model = ScriptedModel(*script)  # type: ignore[arg-type]  # no Raw among them
        self._numbers = count(1)

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def fail_next(
        self, how: str | Raw, *, retry_after: float | str | None = None, times: int = 1
    ) -> None:
        """Make the next request fail: one of `FAILURES`, or anything."""
        raw = FAILURES[how] if isinstance(how, str) else how
        if retry_after is not None:
            raw = Raw(
                raw.pieces, raw.status, {**raw.headers, "retry-after": str(retry_after)}, raw.end
            )
        self.answer_next(raw, times)

    def conversations(self) -> dict[str, list[Received]]:
        grouped: dict[str, list[Received]] = {}
        for request in list(self.requests):
            grouped.setdefault(conversation_of(request), []).append(request)
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

    def _refused(self, received: Received) -> Raw | None:
        if received.method == "POST" and received.path.endswith("/chat/completions"):
            return None
        return _error(404, "no such page", "not_found")

    async def _answer(self, scope: Any, receive: Any, send: Any, received: Received) -> None:
        body = received.json
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

    async def _stream(
        self, model: Model, request: Request, body: dict[str, Any]
    ) -> AsyncIterator[bytes]:
        number, reply = next(self._numbers), Reply()
        counted = bool(body.get("stream_options", {}).get("include_usage"))

        def piece_of(delta: dict[str, Any] | None, **other: Any) -> bytes:
            choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": None}]
            for choice in choices:
                choice["finish_reason"] = other.pop("finish", None)
            return event(
                {
                    "id": f"chatcmpl-{number}", "object": "chat.completion.chunk",
                    "created": int(time.time()), "model": body["model"], "choices": choices,
                    **({"usage": None} if counted else {}), **other,
                }
            )  # fmt: skip

        parts = model.stream(request)
        part: Chunk | None = await anext(parts)  # a script that is used up says so before it begins
        yield piece_of({"role": "assistant", "content": ""})
        while part is not None:
            if isinstance(part, Delta):
                yield piece_of({"content": part.text})
            elif isinstance(part, Thinking):
                yield piece_of({"reasoning_content": part.text})
            elif isinstance(part, Reply):
                reply = part
            part = await anext(parts, None)
        for piece in _call_pieces(reply.calls):
            yield piece_of({"tool_calls": [piece]})
        yield piece_of({}, finish=FINISH[reply.stop])
        if counted:
            yield piece_of(None, usage=_usage_of(reply))
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


def _text_of(content: Any) -> str:
    """The text of a message, whether it is in parts or not."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _request_of(body: dict[str, Any]) -> Request:
    """The request in our own terms."""
    system, messages = "", list[Message]()
    for message in body["messages"]:
        content = _text_of(message.get("content"))
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
