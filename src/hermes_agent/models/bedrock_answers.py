"""The answer of Bedrock's Converse, put together from the events of its stream."""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from hermes_agent.core.messages import (
    Delta,
    Request,
    Stop,
    Thinking,
    Thought,
    ToolCall,
    Usage,
)
from hermes_agent.models.bedrock_requests import ThoughtBody
from hermes_agent.models.shared import estimated_usage, known_call_ids, new_call_id
from hermes_agent.models.wire import shown

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
}
MALFORMED = ("malformed_model_output", "malformed_tool_use")
"""The model wrote what Bedrock itself could not read."""

Count = Annotated[int, Meta(ge=0)]


class _ToolStart(Struct, frozen=True, rename="camel"):
    tool_use_id: str | None = None
    name: str | None = None


class _Start(Struct, frozen=True, rename="camel"):
    tool_use: _ToolStart | None = None


class _BlockStart(Struct, frozen=True, rename="camel"):
    content_block_index: int = 0
    start: _Start | None = None


class _ToolPiece(Struct, frozen=True):
    input: str = ""


class _ThoughtPiece(Struct, frozen=True, rename="camel"):
    text: str = ""
    signature: str = ""
    redacted_content: str = ""


class _Piece(Struct, frozen=True, rename="camel"):
    text: str | None = None
    tool_use: _ToolPiece | None = None
    reasoning_content: _ThoughtPiece | None = None


class _BlockPiece(Struct, frozen=True, rename="camel"):
    content_block_index: int = 0
    delta: _Piece | None = None


class _BlockStop(Struct, frozen=True, rename="camel"):
    content_block_index: int = 0


class _MessageStop(Struct, frozen=True, rename="camel"):
    stop_reason: str


class _Tokens(Struct, frozen=True, rename="camel"):
    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None


class _Metadata(Struct, frozen=True):
    usage: _Tokens | None = None


_block_piece = msgspec.json.Decoder(_BlockPiece)
_T = TypeVar("_T")


class _OpenCall:
    """A call whose pieces are still arriving."""

    def __init__(self, start: _ToolStart) -> None:
        self.id = start.tool_use_id or ""
        self.name = start.name or ""
        self.arguments: list[str] = []
        self.whole = False


class _OpenThought:
    def __init__(self, chars: int, calls: int) -> None:
        self.chars, self.calls = chars, calls
        self.texts: list[str] = []
        self.signature = ""
        self.redacted = ""


class Unreadable(ValueError):
    """An event that cannot be part of an answer."""


class Assembly:
    """Makes one answer of the events of a stream."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.stop_reason = ""
        self._texts: list[str] = []
        self._chars = 0
        self._calls: dict[int, _OpenCall] = {}
        self._thoughts: dict[int, _OpenThought] = {}

    def take(self, kind: str, payload: bytes) -> Delta | Thinking | None:
        """Add an event; gives what people may read of it."""
        try:
            if kind == "contentBlockDelta":
                return self._take_piece(_block_piece.decode(payload))
            self._take_other(kind, payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(f"{error}: {shown(payload)}") from None
        return None

    def _take_other(self, kind: str, payload: bytes) -> None:
        match kind:
            case "contentBlockStart":
                self._open_block(_decoded(payload, _BlockStart))
            case "contentBlockStop":
                index = _decoded(payload, _BlockStop).content_block_index
                if index in self._calls:
                    self._calls[index].whole = True
            case "messageStop":
                self.stop_reason = _decoded(payload, _MessageStop).stop_reason or "end_turn"
                if not all(call.whole for call in self._calls.values()):
                    raise Unreadable("a call has no end")
            case "metadata":
                tokens = _decoded(payload, _Metadata).usage
                self.usage = _usage(tokens) if tokens is not None else self.usage

    def _take_piece(self, event: _BlockPiece) -> Delta | Thinking | None:
        index, piece = event.content_block_index, event.delta
        if piece is None:
            return None
        if piece.text is not None:
            self._texts.append(piece.text)
            self._chars += len(piece.text)
            return Delta(piece.text) if piece.text else None
        if piece.tool_use is not None:
            call = self._calls.get(index)
            if call is None or call.whole:
                raise Unreadable("arguments for a call that is not open")
            call.arguments.append(piece.tool_use.input)
        elif (said := piece.reasoning_content) is not None:
            thought = self._thoughts.get(index)
            if thought is None:
                thought = _OpenThought(self._chars, len(self._calls))
                self._thoughts[index] = thought
            thought.texts.append(said.text)
            thought.signature += said.signature
            thought.redacted += said.redacted_content
            return Thinking(said.text) if said.text else None
        return None

    def _open_block(self, event: _BlockStart) -> None:
        if event.start is None or event.start.tool_use is None:
            return
        if event.content_block_index in self._calls:
            raise Unreadable("two calls in one place")
        if not event.start.tool_use.name:
            raise Unreadable("a call without a name")
        self._calls[event.content_block_index] = _OpenCall(event.start.tool_use)

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def begun(self) -> bool:
        return bool(self._texts or self._calls or self._thoughts)

    @property
    def stop(self) -> Stop:
        stop = STOPS.get(self.stop_reason, "end")
        # Whether there are calls is what counts, whatever it is called.
        return ("calls" if self._calls else "end") if stop in ("end", "calls") else stop

    def calls(self, request: Request) -> tuple[ToolCall, ...]:
        """The calls, each under an id of its own. One that the limit cut before its arguments
        came is left out: without them it would be another call."""
        taken = known_call_ids(request)
        calls = []
        for call in self._calls.values():
            if self.stop == "length" and not any(call.arguments):
                continue
            usable = call.id and call.id not in taken
            own = call.id if usable else new_call_id(request, taken)
            taken.add(own)
            calls.append(ToolCall(own, call.name, "".join(call.arguments) or "{}"))
        return tuple(calls)

    def thoughts(self, by: str) -> tuple[Thought, ...]:
        return tuple(
            Thought(by, "".join(thought.texts), _body(thought), thought.chars, thought.calls)
            for thought in self._thoughts.values()
        )

    def used(self, request: Request) -> Usage:
        """The tokens as Bedrock counted them, or an estimate."""
        thoughts = "".join(text for each in self._thoughts.values() for text in each.texts)
        return self.usage or estimated_usage(request, self.text + thoughts, self.calls(request))


def _decoded(payload: bytes, type: type[_T]) -> _T:
    return msgspec.json.decode(payload, type=type)


def _usage(said: _Tokens) -> Usage:
    """Bedrock counts what was read from the cache and put into it beside the rest."""
    cached, written = said.cache_read_input_tokens or 0, said.cache_write_input_tokens or 0
    return Usage(said.input_tokens + cached + written, said.output_tokens, cached, written)


def _body(thought: _OpenThought) -> str:
    if not thought.signature and not thought.redacted:
        return ""
    body = ThoughtBody(thought.signature, thought.redacted)
    return msgspec.json.encode(body).decode()
