"""Requests for Bedrock's Converse, repaired where it would reject them."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import (
    AssistantMessage,
    Effort,
    Media,
    Message,
    ReasoningBlock,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.models.shared import BUDGETS, LEAST_BUDGET, lowered, own_thoughts
from hermes_agent.models.wires.base import Endpoint
from hermes_agent.models.wires.history_repair import (
    fitting_schema,
    in_place_of,
    object_arguments,
    paired,
)

GO_ON = "Go on."
"""Inserted where Bedrock requires a user turn that the conversation does not have."""
NO_OUTPUT = "(no output)"

IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}

_FIT_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UNFIT_IN_NAMES = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_MARK = {"cachePoint": {"type": "default"}}

Block = dict[str, Any]


class ThoughtBody(Struct, frozen=True, omit_defaults=True):
    """What must be sent back with the text of a thought."""

    signature: str = ""
    redacted: str = ""
    """A redacted thought, in base64."""


def request_body(endpoint: Endpoint, request: Request) -> bytes:
    """What is fixed comes first and the messages last, so that a longer conversation begins with
    the bytes of a shorter one, apart from cache marks."""
    tools = request.prompt.tools if endpoint.facts.tools else ()
    messages = Turns(endpoint, bool(tools)).of(request.messages)
    body: dict[str, Any] = {}
    if request.prompt.system.strip():
        body["system"] = [{"text": request.prompt.system}]
    if tools:
        body["toolConfig"] = {"tools": [{"toolSpec": _tool(tool)} for tool in tools]}
    limit, fields = request.max_output, None
    if effort := lowered(request.effort, endpoint.facts):
        limit, fields = _thinking(endpoint, effort, limit, messages)
    if limit is not None:
        body["inferenceConfig"] = {"maxTokens": limit}
    if fields:
        body["additionalModelRequestFields"] = fields
    body["messages"] = messages
    _mark(endpoint, body)
    return msgspec.json.encode(body)


def _tool(tool: ToolSpec) -> Block:
    described = {"description": tool.description} if tool.description else {}
    return {
        "name": tool.name,
        **described,
        "inputSchema": {"json": fitting_schema(tool.parameters)},
    }


def _thinking(
    endpoint: Endpoint, effort: Effort, limit: int | None, messages: Sequence[Block]
) -> tuple[int | None, Block | None]:
    """The output limit, and the fields that set how hard this vendor's model thinks."""
    match endpoint.facts.thinking:
        case "adaptive":
            # Newer models return no thoughts unless asked.
            thinking = {"type": "adaptive", "display": "summarized"}
            return limit, {"thinking": thinking, "output_config": {"effort": effort}}
        case "budget":
            most = limit or endpoint.facts.max_output
            # Half is left for the answer: the budget is part of the limit.
            budget = min(BUDGETS[effort], most // 2)
            if budget < LEAST_BUDGET or _thoughtless_calls(messages):
                return limit, None
            return most, {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if "openai.gpt-oss" in endpoint.model:
        return limit, {"reasoning_effort": effort}
    if "openai." in endpoint.model:
        return limit, {"reasoning": {"effort": effort}}
    return limit, None


def _thoughtless_calls(messages: Sequence[Block]) -> bool:
    """Whether the last results follow calls without a thought, as of another model: thinking must
    not begin between a call and its result."""
    if "toolResult" not in messages[-1]["content"][0]:
        return False
    return "reasoningContent" not in messages[-2]["content"][0]


def _mark(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """Set cache points after what is fixed and after the last two user turns. Claude reads tools
    before the system text, so one point covers both. Nova accepts none among tools or results;
    other vendors cache by themselves and refuse them."""
    if all(rates.cached is None for rates in endpoint.facts.rates):
        return
    claude = "anthropic." in endpoint.model or endpoint.facts.thinking in ("adaptive", "budget")
    if not claude and "amazon.nova" not in endpoint.model:
        return
    if "system" in body:
        body["system"].append(_MARK)
    elif "toolConfig" in body and claude:
        body["toolConfig"]["tools"].append(_MARK)
    if claude:
        for message in [each for each in body["messages"] if each["role"] == "user"][-2:]:
            message["content"].append(_MARK)


class Turns:
    """Turns messages into alternating turns: the user begins and ends, each call has its result in
    the next turn, and no text is blank."""

    def __init__(self, endpoint: Endpoint, with_tools: bool) -> None:
        self._name = endpoint.name
        self._facts = endpoint.facts
        # Without tools, Bedrock accepts neither calls nor results: they become text.
        self._with_tools = with_tools
        self._turns: list[Block] = []
        self._document_names: set[str] = set()

    def of(self, messages: Sequence[Message]) -> list[Block]:
        for message in paired(messages):
            match message:
                case UserMessage():
                    self._add("user", self._said_by_user(message))
                case ToolMessage():
                    self._add("user", self._result(message))
                case AssistantMessage():
                    self._add("assistant", self._said_by_model(message))
        if not self._turns or self._turns[-1]["role"] == "assistant":
            self._add("user", [{"text": GO_ON}])
        return self._turns

    def _add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if not self._turns and role == "assistant":
            self._add("user", [{"text": GO_ON}])
        if not self._turns or self._turns[-1]["role"] != role:
            self._turns.append({"role": role, "content": []})
        self._turns[-1]["content"].extend(blocks)

    def _result(self, message: ToolMessage) -> list[Block]:
        files = [self._media(file) for file in message.files]
        if not self._with_tools:
            return [{"text": f"[result of {message.name}]\n{message.text}"}, *files]
        blank = not message.text.strip()
        text = [] if blank and files else [{"text": NO_OUTPUT if blank else message.text}]
        result: Block = {"toolUseId": fit_id(message.call_id), "content": [*text, *files]}
        return [{"toolResult": {**result, "status": "success" if message.ok else "error"}}]

    def _said_by_user(self, message: UserMessage) -> list[Block]:
        blocks = [self._media(file) for file in message.files]
        if message.text.strip():
            blocks.append({"text": message.text})
        elif any("document" in block for block in blocks):
            blocks.append({"text": GO_ON})  # a document must have text beside it
        return blocks

    def _said_by_model(self, message: AssistantMessage) -> list[Block]:
        """Text and calls, with the thoughts in their places."""
        blocks: list[Block] = []
        chars = calls = 0

        def up_to(next_chars: int, next_calls: int) -> None:
            nonlocal chars, calls
            if (text := message.text[chars:next_chars]).strip():
                blocks.append({"text": text})
            blocks.extend(map(self._call, message.calls[calls:next_calls]))
            chars, calls = max(chars, next_chars), max(calls, next_calls)

        for thought in own_thoughts(message, self._name):
            if block := _thought(thought):
                up_to(thought.chars, thought.calls)
                blocks.append(block)
        up_to(len(message.text), len(message.calls))
        # A turn cannot consist of thoughts only.
        return blocks if any("reasoningContent" not in block for block in blocks) else []

    def _call(self, call: ToolCall) -> Block:
        if not self._with_tools:
            return {"text": f"[called {call.name} with {call.arguments}]"}
        given = msgspec.Raw(object_arguments(call).encode())
        return {"toolUse": {"toolUseId": fit_id(call.id), "name": call.name, "input": given}}

    def _media(self, file: Media) -> Block:
        source = {"bytes": file.data}
        if self._facts.sees and file.data and file.type in IMAGES:
            return {"image": {"format": IMAGES[file.type], "source": source}}
        if self._facts.reads and file.data and file.type in DOCUMENTS:
            name = self._document(file.name)
            document = {"format": DOCUMENTS[file.type], "name": name, "source": source}
            return {"document": document}
        return {"text": in_place_of(file)}

    def _document(self, name: str) -> str:
        """A valid and unique document name."""
        plain = _UNFIT_IN_NAMES.sub(" ", name).strip()[:150] or "document"
        fit, number = plain, 1
        while fit in self._document_names:
            number += 1
            fit = f"{plain} ({number})"
        self._document_names.add(fit)
        return fit


def fit_id(id: str) -> str:
    """A valid call id; always the same for the same id."""
    return id if _FIT_ID.fullmatch(id) else hashlib.sha256(id.encode()).hexdigest()[:40]


def _thought(thought: ReasoningBlock) -> Block | None:
    """The thought as Bedrock sent it; None without a signature, since Bedrock would refuse it."""
    try:
        body = msgspec.json.decode(thought.body or "{}", type=ThoughtBody)
    except msgspec.MsgspecError:
        return None
    if body.redacted:
        return {"reasoningContent": {"redactedContent": body.redacted}}
    if body.signature:
        text = {"text": thought.text, "signature": body.signature}
        return {"reasoningContent": {"reasoningText": text}}
    return None
