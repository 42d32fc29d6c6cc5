"""`builtin/responder`: what answers where no language model is configured. It follows skills and
says so. Each reply is a pure function of the request's messages, so a turn that is resumed goes on
where it was."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    ModelFacts,
    Rates,
    Reply,
    Request,
    UserMessage,
)
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.responder.brief import Aftermath, Brief, Task, task_of
from hermes_agent.models.responder.follower import follow, incident
from hermes_agent.models.responder.learner import learn
from hermes_agent.models.responder.moves import ResponderMove, Work, next_move, tool_calls
from hermes_agent.models.shared import estimated_usage, known_facts

NAME = "builtin/responder"
FACTS = ModelFacts(context=10_000_000, rates=(Rates(0.0, 0.0),))
WHAT_IT_IS = (
    "I am the responder that ships with Hermes: I follow skills for incidents on machines. I am "
    "not a language model and cannot talk about anything else. `hermes model NAME` chooses a "
    "language "
    "model, and `hermes model list` shows which there are."
)
MAX_REPLIES = 60
"""The most replies to one message, so that it always ends."""


class ResponderModel:
    def __init__(self, facts: ModelFacts = FACTS) -> None:
        self.name = NAME
        self.facts = facts

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return {self.name: self.facts}

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        await asyncio.sleep(0)  # so that the stream can be interrupted
        move = _next(request.messages)
        calls = tool_calls(move, request.messages)
        if move.text:
            yield Delta(move.text)
        usage = estimated_usage(request, move.text, calls)
        yield Reply(
            move.text,
            calls,
            usage,
            "calls" if calls else "end",
            self.name,
            self.facts.cost(usage),
        )

    async def close(self) -> None:
        """Nothing to close."""


def _next(messages: Sequence[Message]) -> ResponderMove:
    at, task = _task(messages)
    since = messages[at + 1 :]
    if task is None:
        return ResponderMove(WHAT_IT_IS)
    if sum(not isinstance(message, UserMessage) for message in since) > 20 * MAX_REPLIES:
        return _stopped(task, since)
    return next_move(_work(task, messages[:at]), since)


def _stopped(task: Task, since: Sequence[Message]) -> ResponderMove:
    """It did not finish: escalate the incident, once."""
    text = "I found no solution and am stopping here: a person must continue."
    last = next((one for one in reversed(since) if isinstance(one, AssistantMessage)), None)
    if not isinstance(task, Brief) or (last is not None and last.text == text):
        return ResponderMove(text)
    given = {"component": task.service, "category": "unknown", "needed": "someone who knows it",
             "summary": "No skill resolved it."}  # fmt: skip
    return ResponderMove(text, (incident("escalate", **given),))


def _task(messages: Sequence[Message]) -> tuple[int, Task | None]:
    """The last message with a task, and where it is."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, UserMessage) and (task := task_of(message.text)) is not None:
            return at, task
    return len(messages) - 1, None


def _work(task: Task, before: Sequence[Message]) -> Work:
    match task:
        case Brief():
            return follow(task)
        case Aftermath():
            return learn(task, before)


def open_named(name: str, settings: ModelSettings) -> ResponderModel:
    if name != NAME:
        raise UsageError(f"Hermes has no built-in model called {name!r}", f"available: {NAME}")
    return ResponderModel(known_facts(name, settings, FACTS))
