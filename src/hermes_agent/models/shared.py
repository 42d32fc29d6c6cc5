"""What every kind of model needs: its facts, an estimate of tokens, names for nameless calls."""

import math
from typing import Any

import msgspec

from hermes_agent.core.messages import (
    EFFORTS,
    AssistantMessage,
    Effort,
    ModelFacts,
    Rates,
    ReasoningBlock,
    Request,
    ToolCall,
    Usage,
)
from hermes_agent.core.settings.root import ModelSettings

BUDGETS: dict[Effort, int] = {
    "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 65_536,
}  # fmt: skip
"""Tokens to think with, for Claude models that are told a number."""
LEAST_BUDGET = 1_024

CHARS_PER_TOKEN = 4
MAX_TOKENS = 10_000_000_000
"""No call has more."""
MAX_PAUSE = 86_400.0
"""Seconds: whoever asks for more is not waited for anyway."""


def known_facts(
    name: str, settings: ModelSettings, otherwise: ModelFacts | None = None
) -> ModelFacts:
    """The facts of the model called `service/name`: what the settings say, over `otherwise`."""
    said: dict[str, Any] = {}
    if name in settings.context_tokens:
        said["context"] = settings.context_tokens[name]
    if price := settings.prices.get(name):
        said["rates"] = (Rates(price.input, price.output, price.cached, price.written),)
    return msgspec.structs.replace(otherwise or ModelFacts(), **said)


def estimated_usage(request: Request, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    """Tokens by counting characters, where the service counts none."""
    sent = len(request.prompt.system) + len(msgspec.json.encode(request.prompt.tools))
    for message in request.messages:
        sent += len(message.text)
        if isinstance(message, AssistantMessage):
            sent += _chars(message.calls)
    return Usage(_tokens(sent), _tokens(len(text) + _chars(calls)))


def possible_usage(said: Usage) -> Usage:
    """What a service counted, less what cannot be."""
    input, output, cached, written, reasoning = (
        max(0, min(MAX_TOKENS, count))
        for count in (said.input, said.output, said.cached, said.written, said.reasoning)
    )
    cached = min(cached, input)
    return Usage(input, output, cached, min(written, input - cached), min(reasoning, output))


def sensible_pause(seconds: float | None) -> float | None:
    """How long a service asks to be left alone, less what is no time at all."""
    if seconds is None or not 0 <= seconds < math.inf:
        return None
    return min(MAX_PAUSE, seconds)


def lowered(effort: Effort | None, facts: ModelFacts) -> Effort | None:
    """The step of effort that a model has: the one wanted, or the highest below it, or its
    lowest. None where nothing is wanted or the model has no such switch."""
    if effort is None or not facts.efforts:
        return None
    wanted = EFFORTS.index(effort)
    steps = sorted(facts.efforts, key=EFFORTS.index)
    below = [step for step in steps if EFFORTS.index(step) <= wanted]
    return below[-1] if below else steps[0]


def own_thoughts(message: AssistantMessage, name: str) -> tuple[ReasoningBlock, ...]:
    """The thoughts that this model had itself: nobody else's may be sent to it."""
    return tuple(thought for thought in message.thoughts if thought.by == name)


def replies_so_far(request: Request) -> int:
    return sum(isinstance(message, AssistantMessage) for message in request.messages)


def known_call_ids(request: Request) -> set[str]:
    return {
        call.id
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }


def new_call_id(request: Request, taken: set[str]) -> str:
    """An id that no call of the conversation has; the same request always gets the same one."""
    step, number = replies_so_far(request), 0
    while (made := f"call-{step}-{number}") in taken:
        number += 1
    return made


def _chars(calls: tuple[ToolCall, ...]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)
