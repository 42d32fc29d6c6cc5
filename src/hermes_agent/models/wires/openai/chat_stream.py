"""Assembles answers of the chat-completions format from their chunks."""

from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import ReasoningBlock, Request, Stop, Usage
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.openai.reasoning import Details, Tags
from hermes_agent.models.wires.openai.shared import InputDetails, OutputDetails, counted, text_of
from hermes_agent.models.wires.streaming import OpenCall, SseAccumulator

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
    "sensitive": "refused",
}
"""Unknown reasons are a normal end."""

FAILED: dict[str, ModelTrouble] = {
    "error": "broken_stream",
    "network_error": "broken_stream",
    "insufficient_system_resource": "overload",
}
"""Stop reasons that mean failure."""


class _Function(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: Any = None


class _CallPiece(Struct, frozen=True, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Piece(Struct, frozen=True, gc=False):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[_CallPiece, ...] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None


class _CostDetails(Struct, frozen=True, gc=False):
    upstream_inference_cost: Any = None


class _Usage(Struct, frozen=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    cost: Any = None
    cost_details: _CostDetails | None = None
    is_byok: Any = None


class _Choice(Struct, frozen=True, gc=False):
    delta: _Piece | None = None
    message: _Piece | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(Struct, frozen=True, gc=False):
    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    error: Any = None


_chunk = msgspec.json.Decoder(_Chunk)


class ChatAccumulator(SseAccumulator):
    """Assembles one answer from the chunks of a stream, however a service splits them."""

    stops = STOPS

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._cost: float | None = None
        self._latest: dict[int, OpenCall] = {}
        """The last call under each index."""
        self._tags: Tags | None = Tags()
        self._thought_at: tuple[int, int] | None = None
        self._details = Details() if endpoint.has("reasoning_details") else None

    def take(self, data: bytes) -> None:
        chunk = _chunk.decode(data)
        if chunk.error:
            raise self._refused_midway(chunk.error, data)
        if chunk.usage is not None:
            self._count(chunk.usage)
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        self.begun = True
        if choice.usage is not None:
            self._count(choice.usage)
        if choice.finish_reason:
            self._end_by(choice.finish_reason)
        piece = choice.delta or choice.message
        if piece is None:
            return
        text = piece.content or ""
        if piece.refusal:
            self.declined = True
            text += piece.refusal
        thinks = piece.reasoning_content or piece.reasoning or piece.reasoning_details
        if thinks or self._tags is not None:
            self._said(*self._untagged(self._reasoning(piece), text))
        elif text:
            self.say(text)
        if piece.tool_calls:
            for call in piece.tool_calls:
                self._take_call(call)

    def done(self) -> None:
        # Some services send no other end mark.
        if self.begun and not self.finished:
            self.end("stop")
        super().done()

    def finish(self) -> None:
        super().finish()
        # Text that was held back as the possible start of a tag.
        tags, self._tags = self._tags, None
        if tags is not None:
            self._said(*tags.end())

    def _untagged(self, thought: str, text: str) -> tuple[str, str]:
        """Reasoning and text, separated if the text contains both."""
        tags = self._tags
        if tags is None:
            return thought, text
        if thought:  # a service with separate reasoning uses no tags
            before, said = tags.end()
            thought, text, self._tags = before + thought, said + text, None
        else:
            thought, text = tags.take(text)
            if tags.are_over:
                self._tags = None
        return thought, text

    def _said(self, thought: str, text: str) -> None:
        """Reasoning first."""
        if thought:
            self._thinks()
            self.think(thought)
        if text:
            self.say(text)

    def _reasoning(self, piece: _Piece) -> str:
        """The readable reasoning in a chunk, under any of its names."""
        if self._details is not None and piece.reasoning_details:
            self._thinks()
            readable = self._details.take(piece.reasoning_details)
            if readable:
                return readable
        for said in (piece.reasoning_content, piece.reasoning):
            if said and isinstance(said, str):
                return said
        return ""

    def _thinks(self) -> None:
        if self._thought_at is None:
            self._thought_at = self.chars, len(self.open_calls)

    def thoughts(self) -> tuple[ReasoningBlock, ...]:
        """At most one: the format has one reasoning field per message."""
        text = self.thinking
        body = self._details.sealed(text) if self._details is not None else ""
        if not text and not body:
            return ()
        return (ReasoningBlock(self.name, text, body, *(self._thought_at or (0, 0))),)

    def _end_by(self, reason: str) -> None:
        if reason in FAILED:
            raise ModelError(FAILED[reason], f"{self.name} gave up: {reason}")
        self.end(reason)

    def cost(self, usage: Usage) -> float | None:
        return self._cost if self._cost is not None else super().cost(usage)

    def _count(self, said: _Usage) -> None:
        if said.prompt_tokens is None:
            return
        details, more = said.prompt_tokens_details, said.completion_tokens_details
        told = (
            details.cached_tokens if details is not None else None,
            said.prompt_cache_hit_tokens,
            said.cached_tokens,
        )
        reasoning = (more.reasoning_tokens or 0) if more is not None else 0
        output = said.completion_tokens or 0
        if said.total_tokens == said.prompt_tokens + output + reasoning:
            output += reasoning  # a service that counts reasoning separately
        self.counted = counted(
            said.prompt_tokens,
            output,
            next((count for count in told if count), 0),
            details.cache_write_tokens if details is not None else 0,
            reasoning,
        )
        self._cost = _dollars(said) if self.endpoint.has("reported_cost") else None

    def _take_call(self, piece: _CallPiece) -> None:
        call = self._call_of(piece)
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            # Some services repeat the name with every piece.
            call.name = call.name or piece.function.name or ""
            call.arguments.append(text_of(piece.function.arguments))

    def _call_of(self, piece: _CallPiece) -> OpenCall:
        """The call that a piece belongs to: by its index, or else the last. Another id with a name
        starts a new call even under a known index: some services always send index 0."""
        named = piece.function is not None and bool(piece.function.name)
        if piece.index is not None:
            call = self._latest.get(piece.index)
        else:
            call = self.open_calls[-1] if self.open_calls else None
        if call is not None and named:
            other_id = piece.id and call.id and piece.id != call.id
            next_whole = piece.index is None and not piece.id
            call = None if other_id or next_whole else call
        if call is None:
            call = self.open_call()
            if piece.index is not None:
                self._latest[piece.index] = call
        return call

    def _refused_midway(self, error: Any, data: bytes) -> ModelError:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        return self.refused(status, data)


def _dollars(said: _Usage) -> float | None:
    """The reported cost, including what the user's own upstream key was charged."""
    cost = _amount(said.cost)
    if cost is None or said.is_byok is not True or said.cost_details is None:
        return cost
    return cost + (_amount(said.cost_details.upstream_inference_cost) or 0.0)


def _amount(said: Any) -> float | None:
    known = isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said < 1e6
    return float(said) if known else None
