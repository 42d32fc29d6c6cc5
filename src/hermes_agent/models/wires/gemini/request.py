"""A request in the words of the Gemini API."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.messages import (
    AssistantMessage,
    Effort,
    Media,
    Message,
    ModelFacts,
    Prompt,
    ReasoningBlock,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.wires.base import Endpoint
from hermes_agent.models.wires.gemini.schema import parameters
from hermes_agent.models.wires.history_repair import in_place_of, object_arguments, paired, takes

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
"""Some models refuse to think less, unless they do not think at all."""

NO_SIGNATURE = "skip_thought_signature_validator"
"""What the service wants on a call that it did not make itself."""


Place = Literal["text", "call", "thought"]


class GeminiProviderState(Struct, frozen=True, omit_defaults=True):
    """What must go back with a part: its signature, and which part it was."""

    on: Place
    signature: str
    length: int = 0
    """Characters of the text that it stood on."""


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
            # What is thought counts as output: half of it is left for the answer.
            most = request.max_output or facts.max_output
            thinking["thinkingBudget"] = max(LEAST_BUDGET, min(BUDGETS[effort], most // 2))
        settings["thinkingConfig"] = thinking
    return settings


def contents(endpoint: Endpoint, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation. Roles take turns, and all results of one reply stand together, alone,
    straight after it."""
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
        # The service wants a user to begin.
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
    """The results, then the images that cannot stand within them."""
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
    """A reply as it came: each signature on the part that it came with."""
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
    """Only what is signed goes back; the rest is for people, or damaged."""
    marks = []
    for thought in thoughts:
        with suppress(msgspec.MsgspecError, RecursionError):
            marks.append((thought, msgspec.json.decode(thought.body, type=GeminiProviderState)))
    return marks


def _all_signed(parts: list[Part]) -> list[Part]:
    """The service refuses a first call without a signature, as other models leave it."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", NO_SIGNATURE)
    return parts


def _call_part(call: ToolCall) -> Part:
    arguments = Raw(object_arguments(call).encode())
    return {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
