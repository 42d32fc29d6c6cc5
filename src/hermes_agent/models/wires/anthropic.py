"""The Messages wire format of Anthropic, streaming, with the marks of its prompt cache.

The service is strict about the shape of a conversation. What it would reject is repaired here,
always in the same way, so that a longer conversation still begins as the shorter one did."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import (
    AssistantMessage,
    Effort,
    Media,
    Message,
    ModelFacts,
    Prompt,
    ReasoningBlock,
    Request,
    Stop,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from hermes_agent.models.shared import BUDGETS, LEAST_BUDGET, lowered, own_thoughts
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.history_repair import (
    IMAGES,
    fitting_schema,
    in_place_of,
    object_arguments,
    takes,
)
from hermes_agent.models.wires.http import HttpResponse
from hermes_agent.models.wires.streaming import (
    HttpWireClient,
    SseAccumulator,
    bearer,
    path_of,
    standing_headers,
)

Block = dict[str, Any]

_MARK = {"type": "ephemeral"}
_PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class AnthropicProviderState(Struct, frozen=True, omit_defaults=True):
    """What must be sent back with a thought: the signature of its text, or the encrypted whole."""

    signature: str = ""
    data: str = ""


def request_body(endpoint: Endpoint, request: Request) -> tuple[bytes, bool]:
    """The request body, and whether it has a thinking budget. What is fixed comes first, the
    messages last."""
    facts = endpoint.facts
    limit = request.max_output if request.max_output is not None else facts.max_output
    turns = wire_turns(request.messages, endpoint.name, facts)
    thinking = _thinking(lowered(request.effort, facts), facts, limit, turns)
    body: dict[str, Any] = {
        "model": endpoint.model,
        "max_tokens": limit,
        "stream": True,
        **thinking,
        **_fixed(request.prompt, facts),
    }
    for turn in [turn for turn in turns if turn["role"] == "user"][-2:]:
        turn["content"][-1]["cache_control"] = _MARK
    body["messages"] = turns
    return msgspec.json.encode(body), "budget_tokens" in thinking.get("thinking", ())


def _fixed(prompt: Prompt, facts: ModelFacts) -> dict[str, Any]:
    """Tools and system text, each with a cache mark: sessions may share only the first."""
    fixed: dict[str, Any] = {}
    if prompt.tools and facts.tools:
        fixed["tools"] = [_tool(tool) for tool in prompt.tools]
        fixed["tools"][-1]["cache_control"] = _MARK
    if system := _texts(prompt.system):
        system[-1]["cache_control"] = _MARK
        fixed["system"] = system
    return fixed


def _tool(tool: ToolSpec) -> Block:
    schema = fitting_schema(tool.parameters)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


# thinking


def _thinking(
    effort: Effort | None, facts: ModelFacts, limit: int, turns: Sequence[Block]
) -> dict[str, Any]:
    """`facts.thinking` is `adaptive` for models that think as much as an effort level suggests,
    `budget` for those that take a number of tokens, and empty for those that take only the effort
    level."""
    if effort is None:
        return {}
    if facts.thinking == "budget":
        # At least a quarter of the answer is left for what is said.
        budget = min(BUDGETS[effort], limit - limit // 4)
        if budget < LEAST_BUDGET or not _thought_through(turns):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    told = {"output_config": {"effort": effort}}
    if facts.thinking == "adaptive":
        # Newer models return no thoughts unless asked.
        return {"thinking": {"type": "adaptive", "display": "summarized"}, **told}
    return told


def _thought_through(turns: Sequence[Block]) -> bool:
    """Whether the answer that the last results belong to began with a thought. With a thinking
    budget, a model refuses to continue one that did not."""
    for number in range(len(turns) - 1, 1, -2):
        kinds = [block["type"] for block in turns[number]["content"]]
        if "tool_result" not in kinds:
            return True
        before = [block["type"] for block in turns[number - 2]["content"]]
        begins = any(kind != "tool_result" for kind in before)
        first = turns[number - 1]["content"][0]["type"]
        if begins and first not in ("thinking", "redacted_thinking"):
            return False
    return True


def _thought(thought: ReasoningBlock) -> Block | None:
    try:
        kept = msgspec.json.decode(thought.body, type=AnthropicProviderState)
    except msgspec.MsgspecError:
        return None
    if kept.data:
        return {"type": "redacted_thinking", "data": kept.data}
    if kept.signature:
        return {"type": "thinking", "thinking": thought.text, "signature": kept.signature}
    return None


# messages


def wire_turns(messages: Sequence[Message], name: str, facts: ModelFacts) -> list[Block]:
    """The conversation as alternating turns, the user's first and last."""
    turns: list[Block] = []
    heard = _UserTurn((), facts)
    for message in messages:
        if not isinstance(message, AssistantMessage):
            heard.take(message)
        elif said := _said(message, name):
            content = heard.content()
            if not turns and not content:
                content = [_text("(the conversation began earlier)")]
            if content:
                turns.append({"role": "user", "content": content})
                turns.append({"role": "assistant", "content": said})
            else:
                turns[-1]["content"] += said
            heard = _UserTurn(message.calls, facts)
    turns.append({"role": "user", "content": heard.content() or [_text("(go on)")]})
    return turns


def _said(message: AssistantMessage, name: str) -> list[Block]:
    """Text and calls with the thoughts in their places; may be empty."""
    own = own_thoughts(message, name)
    thoughts = deque((thought, block) for thought in own if (block := _thought(thought)))
    if len(thoughts) < len(own):
        thoughts.clear()  # thoughts are sent back all or none
    blocks: list[Block] = []
    at = 0
    while thoughts and not thoughts[0][0].calls:
        thought, block = thoughts.popleft()
        blocks += [*_texts(message.text[at : thought.chars]), block]
        at = max(at, thought.chars)
    blocks += _texts(message.text[at:])
    for number, call in enumerate(message.calls):
        while thoughts and thoughts[0][0].calls <= number:
            blocks.append(thoughts.popleft()[1])
        blocks.append(_call(call))
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()  # no answer may end with a thought
    return blocks


def _call(call: ToolCall) -> Block:
    arguments = msgspec.Raw(object_arguments(call).encode())
    return {"type": "tool_use", "id": _wire_id(call.id), "name": call.name, "input": arguments}


def _wire_id(id: str) -> str:
    """A valid id: calls of other services may have ids that this one refuses."""
    return id if _PLAIN_ID.fullmatch(id) else f"call_{sha256(id.encode()).hexdigest()[:32]}"


class _UserTurn:
    """Everything between two answers: the results of the calls first, then the rest."""

    def __init__(self, calls: Sequence[ToolCall], facts: ModelFacts) -> None:
        self._waiting = dict.fromkeys(call.id for call in calls)
        self._facts = facts
        self._results: list[Block] = []
        self._rest: list[Block] = []

    def take(self, message: UserMessage | ToolMessage) -> None:
        files = [_file(media, self._facts) for media in message.files]
        if isinstance(message, UserMessage):
            blocks = [*files, *_texts(message.text)]
            self._rest += blocks or [_text("(an empty message)")]
        elif message.call_id in self._waiting:
            del self._waiting[message.call_id]
            self._result(message, files)
        else:
            # Its call is gone from the conversation, or has a result already.
            self._rest += [_text(f"[result of {message.name}] {message.text}"), *files]

    def _result(self, message: ToolMessage, files: list[Block]) -> None:
        result: Block = {"type": "tool_result", "tool_use_id": _wire_id(message.call_id)}
        if not message.ok:
            # An error result must be text, and not empty; files come after.
            result |= {"content": _texts(message.text) or [_text("(no output)")], "is_error": True}
            self._rest += files
        elif content := [*_texts(message.text), *files]:
            result["content"] = content
        self._results.append(result)

    def content(self) -> list[Block]:
        missing = [
            {
                "type": "tool_result",
                "tool_use_id": _wire_id(id),
                "content": [_text("(interrupted; there is no result)")],
                "is_error": True,
            }
            for id in self._waiting
        ]
        return [*self._results, *missing, *self._rest]


def _file(media: Media, facts: ModelFacts) -> Block:
    if not takes(media, facts, IMAGES):
        return _text(in_place_of(media))
    source = {"type": "base64", "media_type": media.type, "data": media.data}
    if media.is_image:
        return {"type": "image", "source": source}
    title = {"title": media.name} if media.name else {}
    return {"type": "document", "source": source, **title}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _texts(text: str) -> list[Block]:
    """A text block; none for blank text, which the service refuses."""
    return [_text(text)] if text.strip() else []


VERSION = "2023-06-01"
SIGNED_IN = "sk-ant-oat"
"""The prefix of a login token; everything else is a key."""
SIGNED_IN_BETA = "oauth-2025-04-20"
INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
"""Lets models with a budget think between calls; the others always do."""

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
"""The HTTP status of each error type that can come in the middle of a stream."""


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
    """An unfinished block, and where in the answer it began."""

    __slots__ = ("calls", "chars", "head", "open", "pieces", "signature")

    def __init__(self, head: _Block, chars: int, calls: int) -> None:
        self.head = head
        self.pieces: list[str] = []
        self.signature = head.signature or ""
        self.chars = chars
        self.calls = calls
        self.open = True


class AnthropicAccumulator(SseAccumulator):
    """Assembles one answer from the events of a stream."""

    stops = STOPS

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._blocks: dict[int, _OpenBlock] = {}
        self._calls = 0
        self._input = self._cached = self._written = self._output = self._reasoning = 0

    def take(self, data: bytes) -> None:
        """Process an event; unknown types are skipped."""
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
        """Counts are totals so far; the parts of the input do not overlap."""
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
            raise self._garbage("an invalid or repeated block")
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
            raise self._garbage("an empty delta")
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
            raise self._garbage("a delta for a block that is not open")
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
        """Counted by the service, or estimated."""
        input = self._input + self._cached + self._written
        if input and self._output and self.finished:
            return Usage(input, self._output, self._cached, self._written, self._reasoning)
        estimate = super().spent()
        return Usage(
            input or estimate.input,
            # The count at the start of a stream is incomplete.
            max(self._output, estimate.output),
            self._cached,
            self._written,
            self._reasoning,
        )

    def refused(
        self, status: int, body: bytes, answer: HttpResponse | None = None, **more: Any
    ) -> ModelError:
        # This status means that the answer itself took too long.
        kind: ModelTrouble | None = "timeout" if status == 504 else None
        return super().refused(status, body, answer, kind=kind, **more)


def _newer(said: int | None, known: int) -> int:
    return known if said is None else max(0, said)


def _whole_input(head: _Block) -> str:
    """Arguments that came in one piece, as some services send them; empty for none."""
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
    """The headers of one request; `betas` are those of every request."""
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
