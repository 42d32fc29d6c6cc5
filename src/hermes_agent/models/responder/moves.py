"""A conversation as a generator: it yields messages and calls, and is sent their results. Earlier
messages are replayed, so that the next answer follows from the messages alone."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

PREFIX = "follow-"
"""Prefix of its call ids."""


class PlannedCall(Struct, frozen=True):
    tool: str
    arguments: Mapping[str, Any]


class ResponderMove(Struct, frozen=True):
    """A message, with calls or as the end of a turn."""

    text: str
    calls: tuple[PlannedCall, ...] = ()


class MoveResult(Struct, frozen=True):
    """The outcome of a move."""

    results: tuple[ToolMessage, ...] = ()
    """One for each call."""
    said: tuple[str, ...] = ()
    """What users said afterwards."""


Work = Generator[ResponderMove, MoveResult, str]
"""Its return value is the final message."""


class _Step(Struct):
    reply: AssistantMessage
    results: dict[str, ToolMessage]
    said: list[str]


def next_move(work: Work, messages: Sequence[Message]) -> ResponderMove:
    """The next move after these messages. Replies of other models are skipped."""
    try:
        move = next(work)
        for step in _steps(messages):
            if _fits(move, step):
                move = work.send(_answer(step))
    except StopIteration as end:
        return ResponderMove(end.value)
    return move


def tool_calls(move: ResponderMove, messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a move, with unused ids."""
    replies = sum(isinstance(message, AssistantMessage) for message in messages)
    return tuple(
        ToolCall(f"{PREFIX}{replies}-{at}", call.tool, msgspec.json.encode(call.arguments).decode())
        for at, call in enumerate(move.calls)
    )


def _steps(messages: Sequence[Message]) -> list[_Step]:
    steps: list[_Step] = []
    for message in messages:
        match message:
            case AssistantMessage():
                steps.append(_Step(message, {}, []))
            case ToolMessage() if steps:
                steps[-1].results[message.call_id] = message
            case UserMessage() if steps:
                steps[-1].said.append(message.text)
    return steps


def _fits(move: ResponderMove, step: _Step) -> bool:
    given = step.reply.calls
    if not move.calls:
        return not given and bool(step.said)
    named = [(call.id.startswith(PREFIX), call.name) for call in given]
    return named == [(True, call.tool) for call in move.calls]


def _answer(step: _Step) -> MoveResult:
    lost = ToolMessage("", "", "nothing came back", ok=False)
    results = (step.results.get(call.id, lost) for call in step.reply.calls)
    return MoveResult(tuple(results), tuple(step.said))
