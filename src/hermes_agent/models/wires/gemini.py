"""The wire format of the Gemini API, streaming."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.errors import ModelError
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
    Usage,
    UserMessage,
)
from hermes_agent.models.shared import lowered, own_thoughts, sensible_pause
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.gemini_schema import parameters
from hermes_agent.models.wires.history_repair import in_place_of, object_arguments, paired, takes
from hermes_agent.models.wires.http import HttpResponse
from hermes_agent.models.wires.streaming import (
    HttpWireClient,
    SseAccumulator,
    path_of,
    standing_headers,
)

Part = dict[str, Any]

IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_IN_RESULTS = frozenset({"image/png", "image/jpeg", "image/webp"})
LEVELS: dict[Effort, str] = {
    "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH",
}  # fmt: skip
BUDGETS: dict[Effort, int] = {
    "low": 1_024, "medium": 8_192, "high": 24_576, "xhigh": 32_768, "max": 32_768,
}  # fmt: skip
LEAST_BUDGET = 512
"""The smallest thinking budget that all models accept."""

NO_SIGNATURE = "skip_thought_signature_validator"
"""The signature to send for a call that the model did not make itself."""


Place = Literal["text", "call", "thought"]


class GeminiProviderState(Struct, frozen=True, omit_defaults=True):
    """What must be sent back with a part: its signature, and which part it was."""

    on: Place
    signature: str
    length: int = 0
    """Characters of the signed text."""


def request_body(endpoint: Endpoint, request: Request) -> bytes:
    """The request as it is sent. What is fixed comes first, the conversation last, so that a
    longer one begins with the bytes of a shorter one."""
    body: dict[str, Any] = {}
    if request.prompt.system:
        body["systemInstruction"] = {"parts": [{"text": request.prompt.system}]}
    if request.prompt.tools and endpoint.facts.tools:
        body["tools"] = [{"functionDeclarations": _declarations(request.prompt)}]
    if settings := _settings(request, endpoint.facts):
        body["generationConfig"] = settings
    body["contents"] = contents(endpoint, request.messages)
    return msgspec.json.encode(body)


def _declarations(prompt: Prompt) -> list[dict[str, Any]]:
    made = []
    for tool in prompt.tools:
        declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
        if taken := parameters(tool.parameters):
            declared["parametersJsonSchema"] = taken
        made.append(declared)
    return made


def _settings(request: Request, facts: ModelFacts) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if request.max_output is not None:
        settings["maxOutputTokens"] = request.max_output
    if facts.thinking:
        thinking: dict[str, Any] = {"includeThoughts": True}
        effort = lowered(request.effort, facts)
        if effort is not None and facts.thinking == "level":
            thinking["thinkingLevel"] = LEVELS[effort]
        elif effort is not None:
            # Thinking counts as output: half of it is left for the answer.
            most = request.max_output or facts.max_output
            thinking["thinkingBudget"] = max(LEAST_BUDGET, min(BUDGETS[effort], most // 2))
        settings["thinkingConfig"] = thinking
    return settings


def contents(endpoint: Endpoint, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation. Roles alternate, and the results of a reply form one turn right after
    it."""
    made: list[dict[str, Any]] = []
    for kind, group in groupby(paired(messages), type):
        if kind is AssistantMessage:
            parts = [part for message in group for part in _reply_parts(message, endpoint)]
        elif kind is ToolMessage:
            parts = _result_parts(group, endpoint.facts)
        else:
            parts = [part for message in group for part in _user_parts(message, endpoint.facts)]
        made.append({"role": "model" if kind is AssistantMessage else "user", "parts": parts})
    if not made or made[0]["role"] == "model":
        # The user must begin.
        made.insert(0, {"role": "user", "parts": [{"text": "Go on."}]})
    return made


def _user_parts(message: Message, facts: ModelFacts) -> list[Part]:
    assert isinstance(message, UserMessage)
    parts = [_media_part(media, facts) for media in message.files]
    if message.text.strip():
        return [*parts, {"text": message.text}]
    return parts or [{"text": "(an empty message)"}]  # an empty text is refused


def _media_part(media: Media, facts: ModelFacts) -> Part:
    if takes(media, facts, IMAGES):
        return {"inlineData": _inline(media)}
    return {"text": in_place_of(media)}


def _inline(media: Media) -> dict[str, str]:
    return {"mimeType": media.type, "data": b64encode(media.data).decode()}


def _result_parts(messages: Iterable[Message], facts: ModelFacts) -> list[Part]:
    """The results, then the images that they cannot contain."""
    results: list[Part] = []
    beside: list[Part] = []
    for message in messages:
        assert isinstance(message, ToolMessage)
        text, inside = message.text, []
        for media in message.files:
            if not takes(media, facts, IMAGES):
                text += f"\n{in_place_of(media)}"
            elif facts.thinking == "level" and media.type in _IN_RESULTS:
                inside.append({"inlineData": _inline(media)})
            else:
                beside += [{"text": f"[image from {message.name}]"}, {"inlineData": _inline(media)}]
        result: dict[str, Any] = {
            "id": message.call_id,
            "name": message.name,
            "response": {"output" if message.ok else "error": text},
        }
        if inside:
            result["parts"] = inside
        results.append({"functionResponse": result})
    return results + beside


def _reply_parts(message: Message, endpoint: Endpoint) -> list[Part]:
    """A reply with each signature on its original part."""
    assert isinstance(message, AssistantMessage)
    text, calls = message.text, list(message.calls)
    parts: list[Part] = []
    said = called = 0
    for thought, mark in _marks(own_thoughts(message, endpoint.name)):
        if text[said : thought.chars]:
            parts.append({"text": text[said : thought.chars]})
            said = thought.chars
        parts += [_call_part(call) for call in calls[called : thought.calls]]
        called = max(called, thought.calls)
        signed: Part = {"thoughtSignature": mark.signature}
        if mark.on == "text":
            end = max(said, thought.chars + mark.length)
            parts.append({"text": text[said:end], **signed})
            said = end
        elif mark.on == "thought":
            parts.append({"text": thought.text, "thought": True, **signed})
        elif called < len(calls):
            parts.append({**_call_part(calls[called]), **signed})
            called += 1
    if text[said:]:
        parts.append({"text": text[said:]})
    parts += [_call_part(call) for call in calls[called:]]
    return _all_signed(parts) if endpoint.facts.thinking == "level" else parts


def _marks(thoughts: Sequence[ReasoningBlock]) -> list[tuple[ReasoningBlock, GeminiProviderState]]:
    """The signed thoughts; others are not sent back."""
    marks = []
    for thought in thoughts:
        with suppress(msgspec.MsgspecError, RecursionError):
            marks.append((thought, msgspec.json.decode(thought.body, type=GeminiProviderState)))
    return marks


def _all_signed(parts: list[Part]) -> list[Part]:
    """The parts with a signature on the first call: the service requires one."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", NO_SIGNATURE)
    return parts


def _call_part(call: ToolCall) -> Part:
    arguments = Raw(object_arguments(call).encode())
    return {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}


_REFUSED = (
    "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE",
)  # fmt: skip
STOPS: dict[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_REFUSED, "refused"),
}
BROKEN = frozenset(
    {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
)
"""The model wrote something unusable; another try may succeed."""


class _Call(Struct, frozen=True, gc=False):
    name: str | None = None
    args: Raw = Raw(b"{}")
    id: str | None = None


class _Part(Struct, frozen=True, gc=False, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(Struct, frozen=True, gc=False):
    parts: tuple[_Part, ...] | None = None


class _Candidate(Struct, frozen=True, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Usage(Struct, frozen=True, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _Feedback(Struct, frozen=True, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Chunk(Struct, frozen=True, gc=False, rename="camel"):
    candidates: tuple[_Candidate, ...] | None = None
    usage_metadata: _Usage | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


class _Violation(Struct, frozen=True, gc=False, rename="camel"):
    quota_id: str = ""


class _Detail(Struct, frozen=True, gc=False, rename="camel"):
    reason: str = ""
    retry_delay: str = ""
    violations: tuple[_Violation, ...] = ()


class _Error(Struct, frozen=True, gc=False):
    code: int = 500
    details: tuple[_Detail, ...] = ()


class _Refusal(Struct, frozen=True, gc=False):
    error: _Error = _Error()


_chunk = msgspec.json.Decoder(_Chunk)
_list = msgspec.json.Decoder(tuple[Raw, ...])
_refusals = msgspec.json.Decoder(_Refusal | tuple[_Refusal, ...])


class GeminiAccumulator(SseAccumulator):
    """Assembles one answer from the chunks of a stream."""

    stops = STOPS

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._thinking: list[str] = []
        self._thoughts: list[ReasoningBlock] = []

    def take(self, data: bytes) -> None:
        chunk = _chunk.decode(data)
        if chunk.error:
            raise self.refused(0, data)
        counted = chunk.usage_metadata
        if counted is not None and counted.prompt_token_count is not None:
            self.counted, self.begun = _usage(counted), True
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            raise self._blocked(chunk.prompt_feedback)
        if not chunk.candidates:
            return
        candidate = chunk.candidates[0]
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._take_part(part, data)
        if candidate.finish_reason:
            self._end_by(candidate.finish_reason, candidate.finish_message or "")

    def _take_part(self, part: _Part, data: bytes) -> None:
        self.begun = True
        signature, text = part.thought_signature, part.text or ""
        if part.thought:
            if text:
                self._thinking.append(text)
                self.think(text)
            if signature:
                self._close_thought(signature)
            return
        if self._thinking:
            self._close_thought()
        if part.function_call is not None:
            self._sign("call", signature or "")
            self._take_call(part.function_call, data)
            return
        if signature:
            self._sign("text", signature, len(text))
        if text:
            self.say(text)

    def _take_call(self, call: _Call, data: bytes) -> None:
        arguments = bytes(call.args).decode()
        if arguments == "null":
            arguments = "{}"
        if not arguments.startswith("{"):
            raise self.no_answer("arguments that are not an object", data)
        self.open_call(call.id or "", call.name or "").arguments.append(arguments)

    def _sign(self, on: Place, signature: str, length: int = 0, text: str = "") -> None:
        if signature or text:
            body = (
                msgspec.json.encode(GeminiProviderState(on, signature, length)).decode()
                if signature
                else ""
            )
            self._thoughts.append(
                ReasoningBlock(self.name, text, body, self.chars, len(self.open_calls))
            )

    def feed_all(self, body: bytes) -> None:
        # Not streamed, as behind some proxies, all chunks come as one list.
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.take_all(map(bytes, _list.decode(body)))
        if not self.finished:
            super().feed_all(body)

    def finish(self) -> None:
        super().finish()
        self._close_thought()

    def _close_thought(self, signature: str = "") -> None:
        """End the open thought, if any."""
        self._sign("thought", signature, text="".join(self._thinking))
        self._thinking.clear()

    def _end_by(self, reason: str, message: str) -> None:
        said = f": {message}" if message else ""
        if reason in BROKEN:
            raise ModelError("garbage", f"{self.name} stopped early ({reason}){said}")
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ModelError(
                "bad_request", f"{self.name} reports a missing thought signature{said}"
            )
        self.end(reason)

    def _blocked(self, feedback: _Feedback) -> ModelError:
        why = feedback.block_reason_message or feedback.block_reason
        return ModelError(
            "refused", f"{self.name} refused to answer: {why}", "rephrase the request"
        )

    def refused(
        self, status: int, body: bytes, answer: HttpResponse | None = None, **_more: Any
    ) -> ModelError:
        """Reason, quota and retry delay are in the details. In the middle of a stream, so is the
        status."""
        try:
            decoded = _refusals.decode(body)
            first = decoded[0].error if isinstance(decoded, tuple) else decoded.error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError):
            first = _Error()
        words = [word for each in first.details for word in (each.reason, *_quotas(each)) if word]
        if answer is None:
            status = first.code if 400 <= first.code < 600 else 500
        error = super().refused(status, body, answer, codes=" ".join(words))
        if error.retry_after is None:
            waits = (_seconds(each.retry_delay) for each in first.details if each.retry_delay)
            error.retry_after = next((wait for wait in waits if wait is not None), None)
        return error

    def thoughts(self) -> tuple[ReasoningBlock, ...]:
        return tuple(self._thoughts)


def _quotas(detail: _Detail) -> list[str]:
    return [violation.quota_id for violation in detail.violations]


def _seconds(said: str) -> float | None:
    try:
        return sensible_pause(float(said.removesuffix("s")))
    except ValueError:
        return None


def _usage(said: _Usage) -> Usage:
    thought = max(0, said.thoughts_token_count or 0)
    sent = max(0, said.prompt_token_count or 0) + max(0, said.tool_use_prompt_token_count or 0)
    cached = min(sent, max(0, said.cached_content_token_count or 0))
    return Usage(sent, max(0, said.candidates_token_count or 0) + thought, cached, 0, thought)


def open_client(endpoint: Endpoint) -> HttpWireClient:
    def asked(request: Request, credential: Credential) -> tuple[bytes, dict[str, str]]:
        keyed = {"x-goog-api-key": credential.secret} if credential.secret else {}
        return request_body(endpoint, request), keyed

    model = endpoint.model if "/" in endpoint.model else f"models/{endpoint.model}"
    path = path_of(endpoint, f"/{quote(model)}:streamGenerateContent", alt="sse")
    return HttpWireClient(endpoint, path, standing_headers(endpoint), asked, GeminiAccumulator)
