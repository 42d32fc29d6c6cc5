"""The Responses wire format of OpenAI, streaming, with nothing stored there; ChatGPT's Codex
speaks it too."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Media,
    Message,
    Request,
    Thought,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.listening import listen
from hermes_agent.models.mending import in_place_of, paired, takes
from hermes_agent.models.openai_failed import pause_said
from hermes_agent.models.openai_responses_stream import BETWEEN, Assembly, Seal
from hermes_agent.models.openai_shared import (
    EMPTY,
    IMAGES,
    data_url,
    fitting_arguments,
    fitting_id,
    headers_of,
    path_of,
    standing_headers,
)
from hermes_agent.models.refusals import refusal
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.speaking import Credential, Endpoint
from hermes_agent.models.wire import Wire

LONGEST_ID = 64
CLAIM = "https://api.openai.com/auth"
"""Where a token of ChatGPT's tells about its account."""

_seal = msgspec.json.Decoder(Seal)


def request_body(endpoint: Endpoint, request: Request) -> bytes:
    """The request as it is sent. A longer conversation's body begins with a shorter one's bytes,
    less its closing brackets: what is fixed comes first, the input last, nothing after it."""
    codex, facts = endpoint.has("codex"), endpoint.facts
    body: dict[str, Any] = {"model": endpoint.model, "stream": True, "store": False}
    if facts.efforts or codex:
        # Models that do not reason refuse to be asked for it.
        body["include"] = ["reasoning.encrypted_content"]
        body["reasoning"] = {"summary": "auto"}
        if effort := lowered(request.effort, facts):
            body["reasoning"] = {"effort": effort, "summary": "auto"}
    if request.max_output is not None and not codex:
        body["max_output_tokens"] = request.max_output
    if request.session:
        body["prompt_cache_key"] = request.session
    if request.prompt.tools:
        if endpoint.has("one_call"):
            body["parallel_tool_calls"] = False
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.prompt.tools
        ]
    if codex:
        body["instructions"] = request.prompt.system or EMPTY
    body["input"] = input_items(endpoint, request)
    return msgspec.json.encode(body)


def input_items(endpoint: Endpoint, request: Request) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if request.prompt.system and not endpoint.has("codex"):
        # Not as `instructions`: other services that speak this format refuse those.
        items.append({"type": "message", "role": "system", "content": request.prompt.system})
    for message in paired(request.messages):
        items += _items(message, endpoint)
    return items


def _items(message: Message, endpoint: Endpoint) -> list[dict[str, Any]]:
    match message:
        case UserMessage(text=text, files=files):
            parts = [_text(text)] if text or not files else []
            parts += [_part(file, endpoint) for file in files]
            return [{"type": "message", "role": "user", "content": parts}]
        case ToolMessage(call_id=id, text=text, files=files):
            parts = [_text(text)] if text else []
            parts += [_part(file, endpoint) for file in files]
            return [
                {
                    "type": "function_call_output",
                    "call_id": fitting_id(id, LONGEST_ID),
                    "output": parts if files else text or EMPTY,
                }
            ]
        case AssistantMessage():
            return _assistant_items(message, endpoint)


def _assistant_items(message: AssistantMessage, endpoint: Endpoint) -> list[dict[str, Any]]:
    """What the model said, thought and called, in the order in which it did."""
    items: list[dict[str, Any]] = []
    chars, calls, phase = 0, 0, ""

    def go_on(to_char: int, to_call: int) -> None:
        nonlocal chars, calls
        if said := message.text[chars:to_char]:
            named = {"phase": phase} if phase else {}
            items.append({"type": "message", "role": "assistant", "content": said, **named})
        items.extend(map(_call, message.calls[calls:to_call]))
        chars, calls = max(chars, to_char), max(calls, to_call)

    for thought in own_thoughts(message, endpoint.name):
        seal = _seal_of(thought)
        if seal is None:
            continue
        go_on(thought.chars, thought.calls)
        if seal.phase:
            phase = seal.phase
        else:
            items.append(_reasoning(thought, seal))
    go_on(len(message.text), len(message.calls))
    while items and items[-1]["type"] == "reasoning":
        items.pop()  # refused where nothing follows it
    return items


def _seal_of(thought: Thought) -> Seal | None:
    try:
        return _seal.decode(thought.body) if thought.body else None
    except msgspec.MsgspecError:
        return None  # another format's


def _reasoning(thought: Thought, seal: Seal) -> dict[str, Any]:
    summary, content, at = list[Any](), list[Any](), 0
    for part, length in seal.parts:
        text = thought.text[at : at + length]
        at += length + len(BETWEEN)
        if part == "summary":
            summary.append({"type": "summary_text", "text": text})
        else:
            content.append({"type": "reasoning_text", "text": text})
    item: dict[str, Any] = {"type": "reasoning", "id": seal.id, "summary": summary}
    if content:
        item["content"] = content
    if seal.encrypted:
        item["encrypted_content"] = seal.encrypted
    return item


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": fitting_id(call.id, LONGEST_ID),
        "name": call.name,
        "arguments": fitting_arguments(call),
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text or EMPTY}


def _part(file: Media, endpoint: Endpoint) -> dict[str, Any]:
    if not takes(file, endpoint.facts, IMAGES):
        return _text(in_place_of(file))
    if file.is_image:
        return {"type": "input_image", "image_url": data_url(file), "detail": "auto"}
    name = file.name or "file.pdf"
    return {"type": "input_file", "filename": name, "file_data": data_url(file)}


def codex_headers(credential: Credential, request: Request) -> dict[str, str]:
    """ChatGPT wants to know which account pays; the token says so itself."""
    headers = {"openai-beta": "responses=experimental", "originator": "hermes"}
    if account := credential.id or _account(credential.secret):
        headers["chatgpt-account-id"] = account
    if request.session:
        headers["session_id"] = request.session
    return headers


def _account(token: str) -> str:
    """As the token names it; "" where it is none of ChatGPT's."""
    from hermes_agent.models.login import claims

    inner = claims(token).get(CLAIM)
    account = inner.get("chatgpt_account_id") if isinstance(inner, dict) else None
    return account if isinstance(account, str) else ""


class OpenAIResponses:
    """One model of a service that speaks this format."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._path = path_of(endpoint, "/responses")
        self._wire = Wire(endpoint.url, standing_headers(endpoint), endpoint.silence)

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        endpoint = self._endpoint
        body = request_body(endpoint, request)
        headers = headers_of(endpoint, request, credential)
        if endpoint.has("codex"):
            headers |= codex_headers(credential, request)
        assembly = Assembly(endpoint, request, credential)
        async with self._wire.post(self._path, body, headers, (credential.secret,)) as answer:
            if answer.status != 200:
                said = await answer.read()
                pause = answer.retry_after()
                pause = pause_said(said) if pause is None else pause
                raise refusal(endpoint, credential, answer.status, said, retry_after=pause)
            pieces = listen(answer, assembly, endpoint.name)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        yield assembly.reply()

    async def close(self) -> None:
        await self._wire.close()


def open_speaker(endpoint: Endpoint) -> OpenAIResponses:
    return OpenAIResponses(endpoint)
