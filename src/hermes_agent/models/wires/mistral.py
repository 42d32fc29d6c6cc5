"""The wire format of Mistral's chat completions, streaming: like OpenAI's, with content in
chunks, thoughts among them, and rules of its own for ids and the order of messages."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ModelFacts,
    ReasoningBlock,
    Request,
    Stop,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.history_repair import (
    BRIDGE,
    IMAGES,
    function_tools,
    in_place_of,
    object_arguments,
    paired,
    short_id,
    takes,
)
from hermes_agent.models.wires.openai.shared import InputDetails, counted, data_url
from hermes_agent.models.wires.streaming import (
    HttpWireClient,
    OpenCall,
    SseAccumulator,
    bearer,
    path_of,
    standing_headers,
)


class MistralProviderState(Struct, frozen=True, omit_defaults=True):
    """What must be sent back with a thought."""

    signature: str = ""


def request_body(endpoint: Endpoint, request: Request) -> bytes:
    """The request as it is sent. What is fixed comes first, the conversation last, so that a
    longer one begins with the bytes of a shorter one."""
    body: dict[str, Any] = {"model": endpoint.model, "stream": True}
    if request.max_output is not None:
        body["max_tokens"] = request.max_output
    if effort := lowered(request.effort, endpoint.facts):
        body["reasoning_effort"] = effort
    if request.session and endpoint.has("prompt_cache_key"):
        body["prompt_cache_key"] = request.session
    if request.prompt.tools and endpoint.facts.tools:
        body["tools"] = function_tools(request.prompt.tools)
    body["messages"] = wire_messages(endpoint, request.prompt.system, request.messages)
    return msgspec.json.encode(body)


def wire_messages(
    endpoint: Endpoint, system: str, messages: Sequence[Message]
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in paired(messages):
        match message:
            case UserMessage(text=text, files=files):
                if made and made[-1]["role"] == "tool":
                    made.append({"role": "assistant", "content": BRIDGE})
                made.append({"role": "user", "content": _content(text, files, endpoint.facts)})
            case ToolMessage(call_id=id, name=name, text=text, files=files):
                content = _content(text, files, endpoint.facts)
                made.append(
                    {"role": "tool", "tool_call_id": short_id(id), "name": name, "content": content}
                )
            case AssistantMessage():
                made.append(_reply(message, endpoint.name))
    if made and made[-1]["role"] == "assistant":
        made[-1]["prefix"] = True  # the service continues it, and refuses it otherwise
    return made


def _content(text: str, files: Sequence[Media], facts: ModelFacts) -> str | list[dict[str, Any]]:
    if not files:
        return text
    said = [{"type": "text", "text": text}] if text.strip() else []
    return said + [_media_chunk(media, facts) for media in files]


def _media_chunk(media: Media, facts: ModelFacts) -> dict[str, Any]:
    if not takes(media, facts, IMAGES):
        return {"type": "text", "text": in_place_of(media)}
    url = data_url(media)
    if media.is_image:
        return {"type": "image_url", "image_url": url}
    chunk = {"type": "document_url", "document_url": url}
    return {**chunk, "document_name": media.name} if media.name else chunk


def _reply(message: AssistantMessage, name: str) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant", "content": _said(message, name)}
    if message.calls:
        reply["tool_calls"] = [
            {
                "id": short_id(call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": object_arguments(call)},
            }
            for call in message.calls
        ]
    return reply


def _said(message: AssistantMessage, name: str) -> str | list[dict[str, Any]]:
    """The text, with the model's own thoughts in their places."""
    chunks: list[dict[str, Any]] = []
    said = 0
    for thought in own_thoughts(message, name):
        try:
            mark = msgspec.json.decode(thought.body, type=MistralProviderState)
        except (msgspec.MsgspecError, RecursionError):
            continue  # changed since: the signature would not match
        if text := message.text[said : thought.chars]:
            chunks.append({"type": "text", "text": text})
            said = thought.chars
        thinking: dict[str, Any] = {
            "type": "thinking",
            "thinking": [{"type": "text", "text": thought.text}],
        }
        if mark.signature:
            thinking["signature"] = mark.signature
        chunks.append(thinking)
    if not chunks:
        return message.text
    if text := message.text[said:]:
        chunks.append({"type": "text", "text": text})
    return chunks


STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "model_length": "length",
    "content_filter": "refused",
}


class _Function(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: Raw = Raw(b'""')


class _CallPiece(Struct, frozen=True, gc=False):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None


class _Said(Struct, frozen=True, gc=False):
    text: str | None = None


class _Content(Struct, frozen=True, gc=False):
    """A chunk of content: text, a thought, or something else that is ignored."""

    type: str = "text"
    text: str | None = None
    thinking: tuple[_Said, ...] | None = None
    signature: str | None = None


class _Delta(Struct, frozen=True, gc=False):
    content: str | tuple[_Content, ...] | None = None
    tool_calls: tuple[_CallPiece, ...] | None = None


class _Choice(Struct, frozen=True, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Usage(Struct, frozen=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    num_cached_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None


class _Chunk(Struct, frozen=True, gc=False):
    object: str | None = None
    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    error: Any = None
    raw_status_code: int | None = None


_chunk = msgspec.json.Decoder(_Chunk)


class MistralAccumulator(SseAccumulator):
    """Assembles one answer from the chunks of a stream."""

    stops = STOPS

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._by_id: dict[str, OpenCall] = {}
        self._by_index: dict[int | None, OpenCall] = {}
        self._thinking: list[str] = []
        self._signature = ""
        self._thoughts: list[ReasoningBlock] = []

    def take(self, data: bytes) -> None:
        chunk = _chunk.decode(data)
        if chunk.error or chunk.object == "error":
            code = chunk.raw_status_code or 500
            raise self.refused(code if 400 <= code < 600 else 500, data)
        if chunk.usage is not None and chunk.usage.prompt_tokens is not None:
            self.counted, self.begun = _usage(chunk.usage), True
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        self.begun = True
        delta = choice.delta or choice.message
        if delta is not None:
            if delta.tool_calls:
                for call in delta.tool_calls:
                    self._take_call(call)
            if isinstance(delta.content, str):
                self._say(delta.content)
            elif delta.content:
                self._take_parts(delta.content)
        if choice.finish_reason == "error":
            raise ModelError(
                "overload",
                f"{self.name} stopped: it reported an error",
                "the service has a problem; try again later",
            )
        if choice.finish_reason:
            self.end(choice.finish_reason)

    def _take_parts(self, parts: tuple[_Content, ...]) -> None:
        for content in parts:
            if content.type == "thinking":
                text = "".join([said.text or "" for said in content.thinking or ()])
                self._signature = content.signature or self._signature
                if text:
                    self._thinking.append(text)
                    self.think(text)
            elif content.type == "text" and content.text:
                self._say(content.text)

    def _say(self, text: str) -> None:
        if text:
            if self._thinking or self._signature:
                self._close_thought()
            self.say(text)

    def finish(self) -> None:
        super().finish()
        self._close_thought()

    def _close_thought(self) -> None:
        """End the open thought, if any."""
        if self._thinking or self._signature:
            body = msgspec.json.encode(MistralProviderState(self._signature)).decode()
            thought = ReasoningBlock(
                self.name, "".join(self._thinking), body, self.chars, len(self.open_calls)
            )
            self._thoughts.append(thought)
            self._thinking.clear()
            self._signature = ""

    def _take_call(self, piece: _CallPiece) -> None:
        """A piece belongs to the call with its id, or else to the last call with its index. A
        missing id may be sent as the text `null`."""
        id = "" if piece.id is None or piece.id == "null" else piece.id
        function = piece.function or _Function()
        call = self._by_id.get(id) if id else self._by_index.get(piece.index)
        if call is None:
            self._close_thought()
            call = self._by_id[id] = self._by_index[piece.index] = self.open_call(id)
        call.name = call.name or function.name or ""
        call.arguments.append(_text_of(function.arguments))

    def thoughts(self) -> tuple[ReasoningBlock, ...]:
        return tuple(self._thoughts)


def _text_of(arguments: Raw) -> str:
    """A piece of arguments: usually text, sometimes an object."""
    said = bytes(arguments)
    if said.startswith(b'"'):
        return msgspec.json.decode(said, type=str)
    return "" if said == b"null" else said.decode()


def _usage(said: _Usage) -> Usage:
    details = said.prompt_tokens_details
    cached = (details.cached_tokens if details is not None else None) or said.num_cached_tokens
    return counted(said.prompt_tokens, said.completion_tokens, cached)


def open_client(endpoint: Endpoint) -> HttpWireClient:
    def asked(request: Request, credential: Credential) -> tuple[bytes, dict[str, str]]:
        return request_body(endpoint, request), bearer(credential)

    path, headers = path_of(endpoint, "/chat/completions"), standing_headers(endpoint)
    return HttpWireClient(endpoint, path, headers, asked, MistralAccumulator)
