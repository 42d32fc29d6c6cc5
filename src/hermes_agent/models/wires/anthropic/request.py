"""A request in the Messages format of Anthropic: what it says, and the marks of the prompt cache.

The service is strict about the shape of a conversation. What it would reject is mended here, and
always in the same way, so that a longer conversation still begins as the shorter one did."""

import re
from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

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
    ToolSpec,
    UserMessage,
)
from hermes_agent.models.shared import BUDGETS, LEAST_BUDGET, lowered, own_thoughts
from hermes_agent.models.wires.base import Endpoint
from hermes_agent.models.wires.history_repair import (
    IMAGES,
    fitting_schema,
    in_place_of,
    object_arguments,
    takes,
)

Block = dict[str, Any]

_MARK = {"type": "ephemeral"}
_PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class AnthropicProviderState(Struct, frozen=True, omit_defaults=True):
    """What must go back with a thought: the signature of its text, or all of it in cipher."""

    signature: str = ""
    data: str = ""


def request_body(endpoint: Endpoint, request: Request) -> tuple[bytes, bool]:
    """The request as it is sent, and whether it says how many tokens to think with. What is fixed
    comes first and the messages last."""
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
    """Tools and system text, each with a mark: sessions may share the one and not the other."""
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
    """`facts.thinking` is `adaptive` for models that decide how much to think and are told an
    effort, `budget` for those that are told a number of tokens, and empty for those that know the
    effort alone."""
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
        # Newer models keep their thoughts to themselves unless asked.
        return {"thinking": {"type": "adaptive", "display": "summarized"}, **told}
    return told


def _thought_through(turns: Sequence[Block]) -> bool:
    """Whether the answer that the results at the end belong to began with a thought. A model that
    is to think within a budget refuses to go on with one that did not."""
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
    """The conversation as turns of the user and of the assistant, the user's first and last."""
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
    """Text and calls with the thoughts in their places; empty when there is nothing to say."""
    own = own_thoughts(message, name)
    thoughts = deque((thought, block) for thought in own if (block := _thought(thought)))
    if len(thoughts) < len(own):
        thoughts.clear()  # a row of thoughts goes back whole or not at all
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
    """Calls of other services have ids that this one does not take."""
    return id if _PLAIN_ID.fullmatch(id) else f"call_{sha256(id.encode()).hexdigest()[:32]}"


class _UserTurn:
    """All that comes between two answers: the results of the calls first, then the rest."""

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
            # A failure is words, and not none; what else there is comes after.
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
    """A block of text; none for blank text, which the service refuses."""
    return [_text(text)] if text.strip() else []
