"""The Messages wire format of Anthropic, streaming."""

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    Reply,
    Request,
    Stop,
    Thinking,
    Thought,
    ToolCall,
    Usage,
)
from hermes_agent.models.anthropic_request import KeptThought, request_body
from hermes_agent.models.refusals import refusal
from hermes_agent.models.shared import estimated_usage, known_call_ids, new_call_id
from hermes_agent.models.speaking import Credential, Endpoint
from hermes_agent.models.wire import Wire, shown, within

VERSION = "2023-06-01"
TAIL_SECONDS = 1.0
"""How long to wait for the end of the stream once the answer itself is whole."""

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


class _OutputDetails(Struct, frozen=True):
    thinking_tokens: int | None = None


class _Usage(Struct, frozen=True):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(Struct, frozen=True):
    usage: _Usage | None = None


class _Block(Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()


class _Delta(Struct, frozen=True):
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Event(Struct, frozen=True):
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


class Assembly:
    """Makes one answer of the events of a stream."""

    def __init__(self, name: str) -> None:
        self.finish = ""
        self.started = False
        self._name = name
        self._blocks: dict[int, _OpenBlock] = {}
        self._chars = 0
        self._calls = 0
        self._input = self._cached = self._written = self._output = self._reasoning = 0

    def take(self, event: _Event) -> Delta | Thinking | None:
        """Add an event; returns what it has to say. Kinds that nobody knows are passed over."""
        match event.type:
            case "content_block_delta":
                return self._add(event)
            case "content_block_start":
                return self._begin(event)
            case "content_block_stop":
                self._block(event).open = False
            case "message_start":
                self.started = True
                if event.message is not None:
                    self.count(event.message.usage)
            case "message_delta":
                self.count(event.usage)
                if event.delta is not None:
                    self.finish = event.delta.stop_reason or self.finish
        return None

    def count(self, said: _Usage | None) -> None:
        """Every count is of the whole answer so far; the parts of the input exclude each other."""
        if said is None:
            return
        self._input = _newer(said.input_tokens, self._input)
        self._cached = _newer(said.cache_read_input_tokens, self._cached)
        self._written = _newer(said.cache_creation_input_tokens, self._written)
        self._output = _newer(said.output_tokens, self._output)
        if said.output_tokens_details is not None:
            self._reasoning = _newer(said.output_tokens_details.thinking_tokens, self._reasoning)

    def _begin(self, event: _Event) -> Delta | Thinking | None:
        head = event.content_block
        if head is None or event.index in self._blocks:
            raise self._garbage("a block that is none or begins twice")
        block = self._blocks[event.index] = _OpenBlock(head, self._chars, self._calls)
        if head.type == "tool_use":
            if not head.name:
                raise self._garbage("a tool call without a name")
            self._calls += 1
        return self._said(block, head.text, head.thinking)

    def _add(self, event: _Event) -> Delta | Thinking | None:
        block, delta = self._block(event), event.delta
        if delta is None:
            raise self._garbage("a piece of nothing")
        if delta.partial_json and block.head.type == "tool_use":
            block.pieces.append(delta.partial_json)
        if delta.signature:
            block.signature = delta.signature
        return self._said(block, delta.text, delta.thinking)

    def _said(
        self, block: _OpenBlock, text: str | None, thinking: str | None
    ) -> Delta | Thinking | None:
        kind = block.head.type
        if text and kind == "text":
            block.pieces.append(text)
            self._chars += len(text)
            return Delta(text)
        if thinking and kind == "thinking":
            block.pieces.append(thinking)
            return Thinking(thinking)
        return None

    def _block(self, event: _Event) -> _OpenBlock:
        block = self._blocks.get(event.index)
        if block is None or not block.open:
            raise self._garbage("a piece of a block that is not open")
        return block

    def _garbage(self, what: str) -> ModelError:
        return ModelError("garbage", f"{self._name} sent {what}")

    # the answer

    def ended(self) -> None:
        """Raises unless the answer is whole."""
        cut = any(b.open and b.head.type == "tool_use" for b in self._blocks.values())
        if not self.finish or cut:
            raise ModelError("broken_stream", f"{self._name} stopped in the middle of its answer")

    @property
    def text(self) -> str:
        return "".join("".join(b.pieces) for b in self._blocks.values() if b.head.type == "text")

    def stop(self, calls: tuple[ToolCall, ...]) -> Stop:
        stop = STOPS.get(self.finish, "end")
        return ("calls" if calls else "end") if stop in ("end", "calls") else stop

    def calls(self, request: Request) -> tuple[ToolCall, ...]:
        """The calls, each under an id of its own. One that was cut before its arguments came is
        left out: without them it would be another call."""
        taken = known_call_ids(request)
        calls = []
        for block in self._blocks.values():
            if block.head.type != "tool_use":
                continue
            arguments = "".join(block.pieces) or _whole_input(block.head)
            if not arguments and STOPS.get(self.finish) == "length":
                continue
            id = block.head.id
            own = id if id and id not in taken else new_call_id(request, taken)
            taken.add(own)
            calls.append(ToolCall(own, block.head.name or "", arguments or "{}"))
        return tuple(calls)

    def thoughts(self) -> tuple[Thought, ...]:
        thoughts = []
        for block in self._blocks.values():
            if block.head.type == "thinking":
                kept = KeptThought(signature=block.signature)
            elif block.head.type == "redacted_thinking":
                kept = KeptThought(data=block.head.data or "")
            else:
                continue
            body = msgspec.json.encode(kept).decode() if kept != KeptThought() else ""
            text = "".join(block.pieces)
            thoughts.append(Thought(self._name, text, body, block.chars, block.calls))
        return tuple(thoughts)

    def usage(self, request: Request) -> Usage:
        """As counted; as estimated where the service did not count."""
        input = self._input + self._cached + self._written
        if input and self._output and self.finish:
            return Usage(input, self._output, self._cached, self._written, self._reasoning)
        written = "".join("".join(block.pieces) for block in self._blocks.values())
        estimate = estimated_usage(request, written, ())
        return Usage(
            input or estimate.input,
            # What is counted at the beginning of a stream is only its beginning.
            max(self._output, estimate.output),
            self._cached,
            self._written,
            self._reasoning,
        )

    def spent(self, error: ModelError, request: Request) -> ModelError:
        """The error with what the call has used. A refusal before the answer begins is free."""
        lost = ("broken_stream", "garbage", "timeout", "unreachable")
        if self.started or error.kind in lost:
            usage = self.usage(request)
            error.input, error.output = usage.input, usage.output
        return error


class Anthropic:
    """One model of a service that speaks this format."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        own = {name.lower(): value for name, value in endpoint.service.headers.items()}
        self._betas = own.pop("anthropic-beta", "")
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        self._wire = Wire(
            endpoint.url, headers | {"anthropic-version": VERSION} | own, endpoint.silence
        )

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        endpoint = self._endpoint
        body, budgeted = request_body(endpoint, request)
        headers = self._headers(credential, budgeted=budgeted)
        assembly = Assembly(endpoint.name)
        async with self._wire.post("/v1/messages", body, headers, (credential.secret,)) as answer:
            if answer.status != 200:
                said = await answer.read()
                raise self._refused(credential, answer.status, said, answer.retry_after())
            try:
                async with aclosing(answer.events()) as events:
                    async for data in events:
                        chunk = assembly.take(self._decoded(data, credential))
                        if chunk is not None:
                            yield chunk
                        if assembly.finish:
                            break
                    assembly.ended()
                    # The answer is whole. Reading on to the very end leaves the connection fit
                    # for the next call.
                    for data in await within(TAIL_SECONDS, events):
                        with suppress(ModelError):
                            assembly.count(self._decoded(data, credential).usage)
            except ModelError as error:
                raise assembly.spent(error, request) from None
        yield self._reply(request, assembly)

    async def close(self) -> None:
        await self._wire.close()

    def _headers(self, credential: Credential, *, budgeted: bool) -> dict[str, str]:
        betas = [self._betas] if self._betas else []
        headers = {}
        if credential.secret.startswith(SIGNED_IN):
            headers["authorization"] = f"Bearer {credential.secret}"
            betas.append(SIGNED_IN_BETA)
        elif credential.secret:
            headers["x-api-key"] = credential.secret
        if budgeted:
            betas.append(INTERLEAVED_BETA)
        return headers | {"anthropic-beta": ",".join(betas)} if betas else headers

    def _decoded(self, data: bytes, credential: Credential) -> _Event:
        try:
            event = _event.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ModelError(
                "garbage",
                f"{self._endpoint.name} sent something that is no answer ({error}): {shown(data)}",
            ) from None
        if event.type == "error":
            kind = event.error.get("type") if isinstance(event.error, dict) else None
            status = STATUSES.get(kind, 500) if isinstance(kind, str) else 500
            raise self._refused(credential, status, data)
        return event

    def _refused(
        self, credential: Credential, status: int, said: bytes, retry_after: float | None = None
    ) -> ModelError:
        # By this status the service says that the answer itself took too long.
        kind: ModelTrouble | None = "timeout" if status == 504 else None
        return refusal(self._endpoint, credential, status, said, kind=kind, retry_after=retry_after)

    def _reply(self, request: Request, assembly: Assembly) -> Reply:
        calls, usage = assembly.calls(request), assembly.usage(request)
        return Reply(
            text=assembly.text,
            calls=calls,
            usage=usage,
            stop=assembly.stop(calls),
            model=self._endpoint.name,
            cost=self._endpoint.facts.cost(usage),
            thoughts=assembly.thoughts(),
        )


def _newer(said: int | None, known: int) -> int:
    return known if said is None else max(0, said)


def _whole_input(head: _Block) -> str:
    """Arguments that came at once, as from services that do not cut them; empty for none."""
    said = bytes(head.input).decode().strip()
    return said if said not in ("", "{}", "null") else ""


def open_speaker(endpoint: Endpoint) -> Anthropic:
    return Anthropic(endpoint)
