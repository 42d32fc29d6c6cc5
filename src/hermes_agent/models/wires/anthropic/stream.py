"""The Messages wire format of Anthropic, streaming."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import ReasoningBlock, Request, Stop, Usage
from hermes_agent.models.wires.anthropic.request import AnthropicProviderState, request_body
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.http import HttpResponse
from hermes_agent.models.wires.streaming import (
    HttpWireClient,
    SseAccumulator,
    bearer,
    path_of,
    standing_headers,
)

VERSION = "2023-06-01"
SIGNED_IN = "sk-ant-oat"
"""How the token of somebody who signed in begins; everything else is a key."""
SIGNED_IN_BETA = "oauth-2025-04-20"
INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
"""Lets models with a budget think between calls too; the others do so unasked."""

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refused",
}

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What an error in the middle of a stream would have had for a status at its beginning."""


class _OutputDetails(Struct, frozen=True, gc=False):
    thinking_tokens: int | None = None


class _Usage(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(Struct, frozen=True, gc=False):
    usage: _Usage | None = None


class _Block(Struct, frozen=True, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()


class _Delta(Struct, frozen=True, gc=False):
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Event(Struct, frozen=True, gc=False):
    type: str = ""
    index: int = -1
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_event = msgspec.json.Decoder(_Event)


class _OpenBlock:
    """A block whose pieces are still arriving, and where in the answer it began."""

    __slots__ = ("calls", "chars", "head", "open", "pieces", "signature")

    def __init__(self, head: _Block, chars: int, calls: int) -> None:
        self.head = head
        self.pieces: list[str] = []
        self.signature = head.signature or ""
        self.chars = chars
        self.calls = calls
        self.open = True


class AnthropicAccumulator(SseAccumulator):
    """Makes one answer of the events of a stream."""

    stops = STOPS

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._blocks: dict[int, _OpenBlock] = {}
        self._calls = 0
        self._input = self._cached = self._written = self._output = self._reasoning = 0

    def take(self, data: bytes) -> None:
        """Kinds of events that nobody knows are passed over."""
        event = _event.decode(data)
        match event.type:
            case "content_block_delta":
                self._add(event)
            case "content_block_start":
                self._begin(event)
            case "content_block_stop":
                self._block(event).open = False
            case "ping":
                self.begun = True
            case "message_start":
                self.begun = True
                if event.message is not None:
                    self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    if any(b.open and b.head.type == "tool_use" for b in self._blocks.values()):
                        raise self.broken()
                    self.end(event.delta.stop_reason)
            case "error":
                kind = event.error.get("type") if isinstance(event.error, dict) else None
                raise self.refused(STATUSES.get(kind, 500) if isinstance(kind, str) else 500, data)

    def _count(self, said: _Usage | None) -> None:
        """Every count is of the whole answer so far; the parts of the input exclude each other."""
        if said is None:
            return
        self._input = _newer(said.input_tokens, self._input)
        self._cached = _newer(said.cache_read_input_tokens, self._cached)
        self._written = _newer(said.cache_creation_input_tokens, self._written)
        self._output = _newer(said.output_tokens, self._output)
        if said.output_tokens_details is not None:
            self._reasoning = _newer(said.output_tokens_details.thinking_tokens, self._reasoning)

    def _begin(self, event: _Event) -> None:
        head = event.content_block
        if head is None or event.index in self._blocks:
            raise self._garbage("a block that is none or begins twice")
        block = self._blocks[event.index] = _OpenBlock(head, self.chars, self._calls)
        if head.type == "tool_use":
            self._calls += 1
            self.called(self._calls)
        if head.text and head.type == "text":
            self.say(head.text)
        self._thinks(block, head.thinking)

    def _add(self, event: _Event) -> None:
        block, delta = self._block(event), event.delta
        if delta is None:
            raise self._garbage("a piece of nothing")
        if delta.text and block.head.type == "text":
            self.say(delta.text)
            return
        if delta.partial_json and block.head.type == "tool_use":
            block.pieces.append(delta.partial_json)
        if delta.signature:
            block.signature = delta.signature
        self._thinks(block, delta.thinking)

    def _thinks(self, block: _OpenBlock, text: str | None) -> None:
        if text and block.head.type == "thinking":
            block.pieces.append(text)
            self.think(text)

    def _block(self, event: _Event) -> _OpenBlock:
        block = self._blocks.get(event.index)
        if block is None or not block.open:
            raise self._garbage("a piece of a block that is not open")
        return block

    def _garbage(self, what: str) -> ModelError:
        return ModelError("garbage", f"{self.name} sent {what}")

    # the answer

    def made(self) -> Iterator[tuple[str, str, str]]:
        for block in self._blocks.values():
            if block.head.type == "tool_use":
                arguments = "".join(block.pieces) or _whole_input(block.head)
                yield block.head.id or "", block.head.name or "", arguments

    def thoughts(self) -> tuple[ReasoningBlock, ...]:
        thoughts = []
        for block in self._blocks.values():
            if block.head.type == "thinking":
                kept = AnthropicProviderState(signature=block.signature)
            elif block.head.type == "redacted_thinking":
                kept = AnthropicProviderState(data=block.head.data or "")
            else:
                continue
            body = msgspec.json.encode(kept).decode() if kept != AnthropicProviderState() else ""
            text = "".join(block.pieces)
            thoughts.append(ReasoningBlock(self.name, text, body, block.chars, block.calls))
        return tuple(thoughts)

    def spent(self) -> Usage:
        """As counted; as estimated where the service did not count."""
        input = self._input + self._cached + self._written
        if input and self._output and self.finished:
            return Usage(input, self._output, self._cached, self._written, self._reasoning)
        estimate = super().spent()
        return Usage(
            input or estimate.input,
            # What is counted at the beginning of a stream is only its beginning.
            max(self._output, estimate.output),
            self._cached,
            self._written,
            self._reasoning,
        )

    def refused(
        self, status: int, body: bytes, answer: HttpResponse | None = None, **more: Any
    ) -> ModelError:
        # By this status the service says that the answer itself took too long.
        kind: ModelTrouble | None = "timeout" if status == 504 else None
        return super().refused(status, body, answer, kind=kind, **more)


def _newer(said: int | None, known: int) -> int:
    return known if said is None else max(0, said)


def _whole_input(head: _Block) -> str:
    """Arguments that came at once, as from services that do not cut them; empty for none."""
    said = bytes(head.input).decode().strip()
    return said if said not in ("", "{}", "null") else ""


def open_client(endpoint: Endpoint) -> HttpWireClient:
    standing = {name.lower(): value for name, value in standing_headers(endpoint).items()}
    betas = standing.pop("anthropic-beta", "")

    def asked(request: Request, credential: Credential) -> tuple[bytes, dict[str, str]]:
        body, budgeted = request_body(endpoint, request)
        return body, headers_of(credential, betas, budgeted=budgeted)

    path, headers = path_of(endpoint, "/v1/messages"), {"anthropic-version": VERSION} | standing
    return HttpWireClient(endpoint, path, headers, asked, AnthropicAccumulator)


def headers_of(credential: Credential, betas: str, *, budgeted: bool) -> dict[str, str]:
    """Those of one request, beside the `betas` that every request asks for."""
    wanted = [betas] if betas else []
    headers = {}
    if credential.secret.startswith(SIGNED_IN):
        headers = bearer(credential)
        wanted.append(SIGNED_IN_BETA)
    elif credential.secret:
        headers["x-api-key"] = credential.secret
    if budgeted:
        wanted.append(INTERLEAVED_BETA)
    return headers | {"anthropic-beta": ",".join(wanted)} if wanted else headers
