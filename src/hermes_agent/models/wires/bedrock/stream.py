"""Assembles an answer of Bedrock's Converse from the events of its stream."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import ReasoningBlock, Reply, Request, Stop, Usage
from hermes_agent.models.wires import streaming
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.bedrock.event_stream import FrameReader
from hermes_agent.models.wires.bedrock.request import ThoughtBody
from hermes_agent.models.wires.http import HttpResponse

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
"""The model wrote something that Bedrock could not parse."""

TROUBLES: dict[str, tuple[int, ModelTrouble | None]] = {
    "accessdenied": (403, "auth"),
    "expiredtoken": (403, "auth"),
    "incompletesignature": (400, "auth"),
    "invalidclienttokenid": (403, "auth"),
    "invalidsignature": (403, "auth"),
    "missingauthenticationtoken": (403, "auth"),
    "notauthorized": (400, "auth"),
    "unrecognizedclient": (403, "auth"),
    "throttling": (429, "rate_limit"),
    "servicequotaexceeded": (400, "quota"),
    "modelnotready": (429, "overload"),
    "modelerror": (424, "overload"),
    "modelstreamerror": (424, "overload"),
    "internalserver": (500, "overload"),
    "serviceunavailable": (503, "overload"),
    "modeltimeout": (408, "timeout"),
    "resourcenotfound": (404, "bad_request"),
    "validation": (400, None),
}
"""AWS's error names without `Exception`: their status, which a stream does not tell, and their
kind; None means that the message decides."""

Count = Annotated[int, Meta(ge=0)]


class _ToolStart(Struct, frozen=True, gc=False, rename="camel"):
    tool_use_id: str | None = None
    name: str | None = None


class _Start(Struct, frozen=True, gc=False, rename="camel"):
    tool_use: _ToolStart | None = None


class _BlockStart(Struct, frozen=True, gc=False, rename="camel"):
    content_block_index: int = 0
    start: _Start | None = None


class _ToolPiece(Struct, frozen=True, gc=False):
    input: str = ""


class _ThoughtPiece(Struct, frozen=True, gc=False, rename="camel"):
    text: str = ""
    signature: str = ""
    redacted_content: str = ""


class _Piece(Struct, frozen=True, gc=False, rename="camel"):
    text: str | None = None
    tool_use: _ToolPiece | None = None
    reasoning_content: _ThoughtPiece | None = None


class _BlockPiece(Struct, frozen=True, gc=False, rename="camel"):
    content_block_index: int = 0
    delta: _Piece | None = None


class _BlockStop(Struct, frozen=True, gc=False, rename="camel"):
    content_block_index: int = 0


class _MessageStop(Struct, frozen=True, gc=False, rename="camel"):
    stop_reason: str


class _Tokens(Struct, frozen=True, gc=False, rename="camel"):
    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None


class _Metadata(Struct, frozen=True, gc=False):
    usage: _Tokens | None = None


_block_piece = msgspec.json.Decoder(_BlockPiece)
_T = TypeVar("_T")


class _Error(Struct, frozen=True, gc=False):
    type: Any = msgspec.field(name="__type", default="")


class UnreadableEvent(ValueError):
    """An invalid event."""


class _OpenThought:
    def __init__(self, chars: int, calls: int) -> None:
        self.chars, self.calls = chars, calls
        self.texts: list[str] = []
        self.signature = ""
        self.redacted = ""


class BedrockAccumulator(streaming.ResponseAccumulator):
    """Assembles one answer from the frames of a stream."""

    stops = STOPS

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._reader = FrameReader()
        self._calls: dict[int, streaming.OpenCall] = {}
        self._whole: set[int] = set()
        """Which of the calls are whole."""
        self._thoughts: dict[int, _OpenThought] = {}

    def feed(self, piece: bytes) -> None:
        data = piece
        try:
            for headers, data in self._reader.feed(piece):
                self._take(headers, data)
        except (ValueError, RecursionError) as error:  # a damaged frame, or one with no event
            if not self.finished:
                raise self.no_answer(error, data) from None
        except ModelError:
            if not self.finished:
                raise

    def finish(self) -> None:
        """An incomplete frame is ignored."""

    def _take(self, headers: Mapping[str, str], payload: bytes) -> None:
        kind = headers.get(":event-type")
        if kind == "contentBlockDelta":
            self._take_piece(_block_piece.decode(payload))
        elif kind is None:
            raise self._failed(headers, payload)
        else:
            self._take_other(kind, payload)

    def _take_other(self, kind: str, payload: bytes) -> None:
        match kind:
            case "contentBlockStart":
                self._open_block(_decoded(payload, _BlockStart))
            case "contentBlockStop":
                self._whole.add(_decoded(payload, _BlockStop).content_block_index)
            case "messageStop":
                if self._calls.keys() - self._whole:
                    raise UnreadableEvent("a call is incomplete")
                self.end(_decoded(payload, _MessageStop).stop_reason or "end_turn")
            case "metadata":
                tokens = _decoded(payload, _Metadata).usage
                self.counted = _usage(tokens) if tokens is not None else self.counted

    def _take_piece(self, event: _BlockPiece) -> None:
        index, piece = event.content_block_index, event.delta
        if piece is None:
            return
        self.begun = True
        if piece.text is not None:
            self.say(piece.text)
        elif piece.tool_use is not None:
            call = self._calls.get(index)
            if call is None or index in self._whole:
                raise UnreadableEvent("arguments for a call that is not open")
            call.arguments.append(piece.tool_use.input)
        elif (said := piece.reasoning_content) is not None:
            thought = self._thoughts.get(index)
            if thought is None:
                thought = _OpenThought(self.chars, len(self._calls))
                self._thoughts[index] = thought
            thought.texts.append(said.text)
            thought.signature += said.signature
            thought.redacted += said.redacted_content
            self.think(said.text)

    def _open_block(self, event: _BlockStart) -> None:
        tool = event.start.tool_use if event.start is not None else None
        if tool is None:
            return
        if event.content_block_index in self._calls:
            raise UnreadableEvent("two calls with the same index")
        self.begun = True
        call = self.open_call(tool.tool_use_id or "", tool.name or "")
        self._calls[event.content_block_index] = call
        self._whole.discard(event.content_block_index)

    def _failed(self, headers: Mapping[str, str], payload: bytes) -> ModelError:
        """An error in the middle of a stream."""
        name = headers.get(":exception-type") or headers.get(":error-code", "")
        status, kind = TROUBLES.get(_plain(name), (500, None))
        said = payload or headers.get(":error-message", "").encode()
        return super().refused(status, said, codes=name, kind=kind)

    def refused(
        self, status: int, body: bytes, answer: HttpResponse | None = None, **_more: Any
    ) -> ModelError:
        name = (answer.header("x-amzn-errortype") if answer is not None else "") or _named_in(body)
        _, kind = TROUBLES.get(_plain(name), (0, None))
        return super().refused(status, body, answer, codes=name, kind=kind)

    def thoughts(self) -> tuple[ReasoningBlock, ...]:
        return tuple(
            ReasoningBlock(
                self.name, "".join(thought.texts), _body(thought), thought.chars, thought.calls
            )
            for thought in self._thoughts.values()
        )

    def reply(self) -> Reply:
        if self.finish_reason in MALFORMED:
            raise ModelError(
                "garbage", f"{self.name} wrote what Bedrock could not read ({self.finish_reason})"
            )
        return super().reply()


def _decoded(payload: bytes, type: type[_T]) -> _T:
    return msgspec.json.decode(payload, type=type)


def _usage(said: _Tokens) -> Usage:
    """Bedrock counts cached tokens apart from the other input."""
    cached, written = said.cache_read_input_tokens or 0, said.cache_write_input_tokens or 0
    return Usage(said.input_tokens + cached + written, said.output_tokens, cached, written)


def _body(thought: _OpenThought) -> str:
    if not thought.signature and not thought.redacted:
        return ""
    body = ThoughtBody(thought.signature, thought.redacted)
    return msgspec.json.encode(body).decode()


def _plain(name: str) -> str:
    """The bare error name, as from `com.amazon#ThrottlingException:http://…`."""
    return name.partition(":")[0].rpartition("#")[2].removesuffix("Exception").lower()


def _named_in(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body, type=_Error).type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
