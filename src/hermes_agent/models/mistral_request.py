"""A request in the words of Mistral's chat completions."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ModelFacts,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.mending import in_place_of, paired, takes
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.speaking import Endpoint

IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
BRIDGE = "Understood."
"""What the model is taken to have said where a user spoke straight after a tool: the service
refuses such a conversation otherwise."""

_ID_LENGTH = 9
_ID = re.compile(rf"[a-zA-Z0-9]{{{_ID_LENGTH}}}")
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Mark(Struct, frozen=True, omit_defaults=True):
    """What must go back with a thought."""

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
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.prompt.tools
        ]
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
                    {"role": "tool", "tool_call_id": wire_id(id), "name": name, "content": content}
                )
            case AssistantMessage():
                made.append(_reply(message, endpoint.name))
    if made and made[-1]["role"] == "assistant":
        made[-1]["prefix"] = True  # the service goes on from it, and refuses it otherwise
    return made


def wire_id(id: str) -> str:
    """The id of a call as the service takes it; its own ids are such."""
    if _ID.fullmatch(id):
        return id
    number = int.from_bytes(sha256(id.encode()).digest())
    letters = []
    for _ in range(_ID_LENGTH):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


def _content(text: str, files: Sequence[Media], facts: ModelFacts) -> str | list[dict[str, Any]]:
    if not files:
        return text
    said = [{"type": "text", "text": text}] if text.strip() else []
    return said + [_media_chunk(media, facts) for media in files]


def _media_chunk(media: Media, facts: ModelFacts) -> dict[str, Any]:
    if not takes(media, facts, IMAGES):
        return {"type": "text", "text": in_place_of(media)}
    url = f"data:{media.type};base64,{b64encode(media.data).decode()}"
    if media.is_image:
        return {"type": "image_url", "image_url": url}
    chunk = {"type": "document_url", "document_url": url}
    return {**chunk, "document_name": media.name} if media.name else chunk


def _reply(message: AssistantMessage, name: str) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant", "content": _said(message, name)}
    if message.calls:
        reply["tool_calls"] = [
            {
                "id": wire_id(call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for call in message.calls
        ]
    return reply


def _said(message: AssistantMessage, name: str) -> str | list[dict[str, Any]]:
    """The text, with the model's own thoughts where it had them."""
    chunks: list[dict[str, Any]] = []
    said = 0
    for thought in own_thoughts(message, name):
        if not thought.body:
            continue  # changed since: its signature would not fit
        if text := message.text[said : thought.chars]:
            chunks.append({"type": "text", "text": text})
            said = thought.chars
        thinking: dict[str, Any] = {
            "type": "thinking",
            "thinking": [{"type": "text", "text": thought.text}],
        }
        if signature := msgspec.json.decode(thought.body, type=Mark).signature:
            thinking["signature"] = signature
        chunks.append(thinking)
    if not chunks:
        return message.text
    if text := message.text[said:]:
        chunks.append({"type": "text", "text": text})
    return chunks


def _arguments(call: ToolCall) -> str:
    try:
        call.input()
    except ToolError:
        return "{}"  # the result says what was wrong with them
    return call.arguments or "{}"
