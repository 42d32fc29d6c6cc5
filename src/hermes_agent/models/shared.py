"""What every kind of model needs: its facts, names for nameless calls, and tokens: estimated where
a service counts none, and held against what can be, since services miscount and prices go by it."""

import math
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    EFFORTS,
    AssistantMessage,
    Effort,
    FailedAttemptUsage,
    ModelFacts,
    Rates,
    ReasoningBlock,
    Reply,
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
"""No call uses more."""
MAX_PAUSE = 86_400.0
"""Seconds. Nobody waits longer anyway."""


def known_facts(
    name: str, settings: ModelSettings, otherwise: ModelFacts | None = None
) -> ModelFacts:
    """The facts of the model `service/name`: `otherwise`, overridden by the settings."""
    said: dict[str, Any] = {}
    if name in settings.context_tokens:
        said["context"] = settings.context_tokens[name]
    if price := settings.prices.get(name):
        said["rates"] = (Rates(price.input, price.output, price.cached, price.written),)
    return msgspec.structs.replace(otherwise or ModelFacts(), **said)


def estimated_usage(request: Request, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    """Tokens estimated from characters, for services that report none."""
    sent = len(request.prompt.system) + len(msgspec.json.encode(request.prompt.tools))
    for message in request.messages:
        sent += len(message.text)
        if isinstance(message, AssistantMessage):
            sent += _chars(message.calls)
    return Usage(_tokens(sent), _tokens(len(text) + _chars(calls)))


def possible_usage(said: Usage) -> Usage:
    """The reported usage, with impossible values corrected."""
    input, output, cached, written, reasoning = (
        max(0, min(MAX_TOKENS, count))
        for count in (said.input, said.output, said.cached, said.written, said.reasoning)
    )
    cached = min(cached, input)
    return Usage(input, output, cached, min(written, input - cached), min(reasoning, output))


def sensible_pause(seconds: float | None) -> float | None:
    """A service's `retry-after`, or None if it is not a sensible time."""
    if seconds is None or not 0 <= seconds < math.inf:
        return None
    return min(MAX_PAUSE, seconds)


def lowered(effort: Effort | None, facts: ModelFacts) -> Effort | None:
    """The effort level to send: the wanted one, or the highest below it that the model has, or its
    lowest. None if nothing is wanted or the model has no effort levels."""
    if effort is None or not facts.efforts:
        return None
    wanted = EFFORTS.index(effort)
    steps = sorted(facts.efforts, key=EFFORTS.index)
    below = [step for step in steps if EFFORTS.index(step) <= wanted]
    return below[-1] if below else steps[0]


def own_thoughts(message: AssistantMessage, name: str) -> tuple[ReasoningBlock, ...]:
    """The thoughts of this model itself: another model's may not be sent to it."""
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
    """An unused call id; the same request always gets the same one."""
    step, number = replies_so_far(request), 0
    while (made := f"call-{step}-{number}") in taken:
        number += 1
    return made


def _chars(calls: tuple[ToolCall, ...]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


UNKNOWN = ("broken_stream", "timeout", "garbage")
"""Errors after which it is unknown what the service charges."""


def believable(reply: Reply, request: Request, facts: ModelFacts) -> Reply:
    """The reply with plausible usage and cost."""
    usage = possible_usage(reply.usage)
    said = reply.text + "".join(thought.text for thought in reply.thoughts)
    if not usage.input or (not usage.output and (said or reply.calls)):
        guess = estimated_usage(request, said, reply.calls)
        usage = replace(
            usage, input=usage.input or guess.input, output=usage.output or guess.output
        )
    told = reply.cost
    is_absurd = told is not None and not (math.isfinite(told) and told >= 0)
    if is_absurd or (usage != reply.usage and facts.priced):
        told = facts.cost(usage)
    return replace(reply, usage=usage, cost=told)


def wasted(
    name: str, request: Request, facts: ModelFacts, error: ModelError, received: str
) -> FailedAttemptUsage | None:
    """The usage of a failed try, reported or estimated, and its upper bound if the service may
    have done more than we saw."""
    usage = possible_usage(Usage(error.input, error.output))
    if received and not (usage.input and usage.output):
        guess = estimated_usage(request, received, ())
        usage = Usage(usage.input or guess.input, usage.output or guess.output)
    most = None
    if error.kind in UNKNOWN and not error.turned_away:
        bound = most_usage(request, facts)
        most = Usage(max(usage.input, bound.input), max(usage.output, bound.output))
    if most is None and not usage.total:
        return None
    return FailedAttemptUsage(name, usage, facts.cost(usage), most)


def most_usage(request: Request, facts: ModelFacts) -> Usage:
    """The upper bound of a request's usage: one token per byte, and the longest allowed answer."""
    sent = len(msgspec.json.encode(request))
    for message in request.messages:
        for file in getattr(message, "files", ()):
            sent += file.most_tokens - len(file.data) * 4 // 3
    return Usage(sent, request.max_output or facts.max_output)
