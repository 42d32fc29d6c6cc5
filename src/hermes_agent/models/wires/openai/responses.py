"""The Responses wire format of OpenAI, streaming and without server-side storage; ChatGPT's Codex
uses it too."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ReasoningBlock,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.shared import lowered, own_thoughts
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.history_repair import (
    IMAGES,
    fitting_schema,
    in_place_of,
    paired,
    takes,
)
from hermes_agent.models.wires.openai.responses_stream import BETWEEN, ResponsesAccumulator, Seal
from hermes_agent.models.wires.openai.shared import (
    EMPTY,
    data_url,
    fitting_arguments,
    fitting_id,
    headers_of,
)
from hermes_agent.models.wires.streaming import HttpWireClient, path_of, standing_headers

MAX_ID = 64

_NO_CIPHERTEXT = re.compile(rb"encrypted[_ ]content[^\"]{0,40}not supported", re.IGNORECASE)
_FOREIGN = re.compile(rb"invalid_encrypted_content|encrypted content.{0,80}could not be verified")
_seal = msgspec.json.Decoder(Seal)


class RefusedParameters:
    """What a service has refused, so that it is not sent again."""

    def __init__(self) -> None:
        self.summaries = True
        self.ciphertext = True
        self._foreign: set[int] = set()

    def from_refusal(self, request: Request, said: bytes) -> bool:
        """Learn from a refusal; returns whether a changed request may succeed. OpenAI gives thought
        summaries only to verified accounts, encrypts thoughts of some models only, and decrypts
        those of one account alone: after a change of key, earlier thoughts are left out."""
        before = self.summaries, self.ciphertext, len(self._foreign)
        self.summaries = self.summaries and b"reasoning.summary" not in said
        self.ciphertext = self.ciphertext and not _NO_CIPHERTEXT.search(said)
        if _FOREIGN.search(said):
            replies = [m for m in request.messages if isinstance(m, AssistantMessage)]
            self._foreign |= {hash(t.body) for reply in replies for t in reply.thoughts}
        return (self.summaries, self.ciphertext, len(self._foreign)) != before

    def replays(self, thought: ReasoningBlock) -> bool:
        return hash(thought.body) not in self._foreign


NOTHING_LEARNED = RefusedParameters()


def request_body(
    endpoint: Endpoint, request: Request, learned: RefusedParameters = NOTHING_LEARNED
) -> bytes:
    """The request body. A longer conversation begins with the bytes of a shorter one: what is
    fixed comes first, the input last, nothing after it."""
    codex, facts = endpoint.has("codex"), endpoint.facts
    body: dict[str, Any] = {"model": endpoint.model, "stream": True, "store": False}
    if facts.efforts or codex or _always_reasons(endpoint):
        # Models without reasoning refuse these fields.
        effort = lowered(request.effort, facts)
        reasoning: dict[str, str] = {"effort": effort} if effort else {}
        if learned.summaries:
            reasoning["summary"] = "auto"
        if learned.ciphertext:
            body["include"] = ["reasoning.encrypted_content"]
        if reasoning:
            body["reasoning"] = reasoning
    if request.max_output is not None and not codex:
        body["max_output_tokens"] = request.max_output
    if request.session:
        body["prompt_cache_key"] = request.session
    if request.prompt.tools and facts.tools:
        if endpoint.has("one_call"):
            body["parallel_tool_calls"] = False
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": fitting_schema(tool.parameters),
                "strict": False,
            }
            for tool in request.prompt.tools
        ]
    if codex:
        body["instructions"] = request.prompt.system or EMPTY
    body["input"] = input_items(endpoint, request, learned)
    return msgspec.json.encode(body)


def _always_reasons(endpoint: Endpoint) -> bool:
    """Grok reasons, though some of its models have no effort levels."""
    return "grok" in endpoint.model and "non-reasoning" not in endpoint.model


def input_items(
    endpoint: Endpoint, request: Request, learned: RefusedParameters
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if request.prompt.system and not endpoint.has("codex"):
        # Not as `instructions`, which other services refuse.
        items.append({"type": "message", "role": "system", "content": request.prompt.system})
    for message in paired(request.messages):
        items += _items(message, endpoint, learned)
    return items


def _items(
    message: Message, endpoint: Endpoint, learned: RefusedParameters
) -> list[dict[str, Any]]:
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
                    "call_id": fitting_id(id, MAX_ID),
                    "output": parts if files else text or EMPTY,
                }
            ]
        case AssistantMessage():
            own = [t for t in own_thoughts(message, endpoint.name) if learned.replays(t)]
            return _assistant_items(message, own)


def _assistant_items(
    message: AssistantMessage, thoughts: Sequence[ReasoningBlock]
) -> list[dict[str, Any]]:
    """Text, thoughts and calls of a reply, in their original order."""
    items: list[dict[str, Any]] = []
    chars, calls, phase = 0, 0, ""

    def go_on(to_char: int, to_call: int) -> None:
        nonlocal chars, calls
        if said := message.text[chars:to_char]:
            named = {"phase": phase} if phase else {}
            items.append({"type": "message", "role": "assistant", "content": said, **named})
        items.extend(map(_call, message.calls[calls:to_call]))
        chars, calls = max(chars, to_char), max(calls, to_call)

    for thought in thoughts:
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
        items.pop()  # refused if nothing follows
    return items


def _seal_of(thought: ReasoningBlock) -> Seal | None:
    try:
        return _seal.decode(thought.body) if thought.body else None
    except msgspec.MsgspecError:
        return None  # another format's


def _reasoning(thought: ReasoningBlock, seal: Seal) -> dict[str, Any]:
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
        "call_id": fitting_id(call.id, MAX_ID),
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
    """ChatGPT needs the account that pays; the token contains it."""
    from hermes_agent.models.keys.login import chatgpt_account

    headers = {"openai-beta": "responses=experimental", "originator": "hermes"}
    if account := credential.id or chatgpt_account(credential.secret):
        headers["chatgpt-account-id"] = account
    if request.session:
        headers["session_id"] = request.session
    return headers


def open_client(endpoint: Endpoint) -> HttpWireClient:
    def asked(request: Request, credential: Credential) -> tuple[bytes, dict[str, str]]:
        headers = headers_of(endpoint, request, credential)
        if endpoint.has("codex"):
            headers |= codex_headers(credential, request)
        return request_body(endpoint, request, learned), headers

    learned, path = RefusedParameters(), path_of(endpoint, "/responses")
    headers = standing_headers(endpoint)
    return HttpWireClient(
        endpoint, path, headers, asked, ResponsesAccumulator, learned.from_refusal
    )
