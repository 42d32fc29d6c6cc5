"""The chat-completions wire format of OpenAI, streaming, which many other services use too."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    Request,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.history_repair import (
    BRIDGE,
    IMAGES,
    function_tools,
    in_place_of,
    paired,
    short_id,
    takes,
)
from hermes_agent.models.wires.openai.chat_stream import ChatAccumulator
from hermes_agent.models.wires.openai.reasoning import details_of
from hermes_agent.models.wires.openai.shared import (
    EMPTY,
    data_url,
    fitting_arguments,
    fitting_id,
    headers_of,
)
from hermes_agent.models.wires.streaming import HttpWireClient, path_of, standing_headers

MAX_ID = 40
_OF_MISTRAL = ("mistral", "ministral", "devstral", "magistral", "codestral", "pixtral", "mixtral")
MARK = {"type": "ephemeral"}


def request_body(endpoint: Endpoint, request: Request) -> bytes:
    """The request body. A longer conversation begins with the bytes of a shorter one: what is
    fixed comes first, the messages last, nothing after them."""
    body: dict[str, Any] = {"model": endpoint.model, "stream": True}
    if not endpoint.has("no_stream_options"):
        body["stream_options"] = {"include_usage": True}
    if request.max_output is not None:
        # OpenAI's newer models refuse the old name of the limit, other services the new one.
        new = endpoint.has("max_completion_tokens")
        body["max_completion_tokens" if new else "max_tokens"] = request.max_output
    if effort := lowered(request.effort, endpoint.facts):
        if endpoint.has("reasoning_object"):
            body["reasoning"] = {"effort": effort}
        elif endpoint.has("reasoning_effort"):
            body["reasoning_effort"] = effort
    if request.session and endpoint.has("prompt_cache_key"):
        body["prompt_cache_key"] = request.session
    if request.prompt.tools and endpoint.facts.tools:
        if endpoint.has("one_call"):
            body["parallel_tool_calls"] = False
        if endpoint.has("tool_stream"):
            body["tool_stream"] = True  # otherwise a long argument means minutes of silence
        body["tools"] = function_tools(request.prompt.tools)
    body["messages"] = wire_messages(endpoint, request)
    return msgspec.json.encode(body)


def wire_messages(endpoint: Endpoint, request: Request) -> list[dict[str, Any]]:
    # Cache marks need content in parts; once in parts, content stays so.
    marked = endpoint.has("cache_control") and "claude" in endpoint.model
    messages: list[dict[str, Any]] = []
    if request.prompt.system:
        system = request.prompt.system
        messages.append({"role": "system", "content": [_text(system)] if marked else system})
    shown: list[Media] = []
    for message in paired(request.messages):
        if shown and not isinstance(message, ToolMessage):
            messages.append(_images_of_results(shown))
            shown = []
        messages.append(_wire_message(message, endpoint, request, marked))
        if isinstance(message, ToolMessage):
            shown += [file for file in message.files if takes(file, endpoint.facts, IMAGES)]
    if shown:
        messages.append(_images_of_results(shown))
    messages = list(_bridged(messages, endpoint))
    if marked:
        _mark(messages)
    return messages


def _bridged(messages: Sequence[dict[str, Any]], endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    """The messages, with an assistant message before a user message that would be refused: after a
    result by Mistral's models, after another user message by some services."""
    refused = {"tool"} if _is_mistral(endpoint) else set[str]()
    if endpoint.has("alternating"):
        refused = {"tool", "user"}
    last = ""
    for message in messages:
        if message["role"] == "user" and last in refused:
            yield {"role": "assistant", "content": BRIDGE}
        yield message
        last = message["role"]


def _is_mistral(endpoint: Endpoint) -> bool:
    model = endpoint.model.lower()
    return any(name in model for name in _OF_MISTRAL)


def _id(id: str, endpoint: Endpoint) -> str:
    return short_id(id) if _is_mistral(endpoint) else fitting_id(id, MAX_ID)


def _wire_message(
    message: Message, endpoint: Endpoint, request: Request, marked: bool
) -> dict[str, Any]:
    match message:
        case UserMessage(text=text, files=files):
            parts = [_text(text)] if text or not files else []
            parts += [_part(file, endpoint) for file in files]
            return {"role": "user", "content": parts if marked or files else text or EMPTY}
        case ToolMessage(call_id=id, text=text, files=files):
            unseen = [in_place_of(f) for f in files if not takes(f, endpoint.facts, IMAGES)]
            text = "\n".join([text, *unseen] if text else unseen) or EMPTY
            return {
                "role": "tool",
                "tool_call_id": _id(id, endpoint),
                "content": [_text(text)] if marked else text,
            }
        case AssistantMessage():
            return _assistant_message(message, endpoint, request)


def _assistant_message(
    message: AssistantMessage, endpoint: Endpoint, request: Request
) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    own = own_thoughts(message, endpoint.name)
    if endpoint.has("reasoning_details"):
        if details := [detail for thought in own for detail in details_of(thought)]:
            sent["reasoning_details"] = details
    elif endpoint.has("reasoning_content") and request.prompt.tools:
        # Once there are calls, services refuse any reply without it, even another model's.
        # Otherwise they ignore it.
        sent["reasoning_content"] = "".join(thought.text for thought in own)
    if message.calls:
        sent["tool_calls"] = [
            {
                "id": _id(call.id, endpoint),
                "type": "function",
                "function": {"name": call.name, "arguments": fitting_arguments(call)},
            }
            for call in message.calls
        ]
    return sent


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text or EMPTY}


def _part(file: Media, endpoint: Endpoint) -> dict[str, Any]:
    if not takes(file, endpoint.facts, IMAGES):
        return _text(in_place_of(file))
    if file.is_image:
        return {"type": "image_url", "image_url": {"url": data_url(file)}}
    named = {"filename": file.name or "file.pdf", "file_data": data_url(file)}
    return {"type": "file", "file": named}


def _images_of_results(files: Sequence[Media]) -> dict[str, Any]:
    """Results are text only in this format: their images come after them."""
    images = [{"type": "image_url", "image_url": {"url": data_url(file)}} for file in files]
    return {"role": "user", "content": [_text("[images among the results above]"), *images]}


def _mark(messages: list[dict[str, Any]]) -> None:
    """Set the cache marks of Anthropic's models: after the system text, and after the last two
    turns of the user, so that each request finds the mark of the one before. A mark needs a
    text."""
    ends = [
        message
        for message, after in zip(messages, [*messages[1:], None], strict=True)
        if message["role"] != "assistant" and (after is None or after["role"] == "assistant")
    ]
    first = [message for message in messages[:1] if message["role"] == "system"]
    marked = [*first, *(message for message in ends[-2:] if message not in first)]
    for message in marked:
        texts = [part for part in message["content"] if part["type"] == "text"]
        if texts:
            texts[-1]["cache_control"] = MARK


def open_client(endpoint: Endpoint) -> HttpWireClient:
    def asked(request: Request, credential: Credential) -> tuple[bytes, dict[str, str]]:
        return request_body(endpoint, request), headers_of(endpoint, request, credential)

    path, headers = path_of(endpoint, "/chat/completions"), standing_headers(endpoint)
    return HttpWireClient(endpoint, path, headers, asked, ChatAccumulator)
