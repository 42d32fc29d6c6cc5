"""What a call used, held against what can be: services miscount, and the price goes by that."""

import math

import msgspec
from msgspec.structs import replace

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import FailedAttemptUsage, ModelFacts, Reply, Request, Usage
from hermes_agent.models.shared import estimated_usage, possible_usage

UNKNOWN = ("broken_stream", "timeout", "garbage")
"""Trouble after which nobody can tell what the service had done, and charges."""


def believable(reply: Reply, request: Request, facts: ModelFacts) -> Reply:
    """The reply with a usage and a cost that can be."""
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
    """What a try that failed has used: as the service says, or by counting characters; and the
    most that it can have been, where the service may have worked on unseen."""
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
    """The most that a request can come to, whoever counts: a token for each byte, and as long an
    answer as was allowed."""
    sent = len(msgspec.json.encode(request))
    for message in request.messages:
        for file in getattr(message, "files", ()):
            sent += file.most_tokens - len(file.data) * 4 // 3
    return Usage(sent, request.max_output or facts.max_output)
