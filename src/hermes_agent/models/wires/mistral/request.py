"""A request in the words of Mistral's chat completions."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ModelFacts,
    Request,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.wires.base import Endpoint
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
from hermes_agent.models.wires.openai.shared import data_url


class MistralProviderState(Struct, frozen=True, omit_defaults=True):
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
        made[-1]["prefix"] = True  # the service goes on from it, and refuses it otherwise
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
    """The text, with the model's own thoughts where it had them."""
    chunks: list[dict[str, Any]] = []
    said = 0
    for thought in own_thoughts(message, name):
        try:
            mark = msgspec.json.decode(thought.body, type=MistralProviderState)
        except (msgspec.MsgspecError, RecursionError):
            continue  # changed since: its signature would not fit
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
