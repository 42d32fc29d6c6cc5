"""A conversation as a piece of work: it yields what it says and asks for, and is sent what came of
it. Whatever was said before is gone through again, so an answer follows from the messages alone."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

PREFIX = "follow-"
"""How the ids of its calls begin."""


class PlannedCall(Struct, frozen=True):
    tool: str
    arguments: Mapping[str, Any]


class ResponderMove(Struct, frozen=True):
    """Something that is said, with calls or as the end of a turn."""

    text: str
    calls: tuple[PlannedCall, ...] = ()


class MoveResult(Struct, frozen=True):
    """What came of a move."""

    results: tuple[ToolMessage, ...] = ()
    """One for each call."""
    said: tuple[str, ...] = ()
    """What somebody said afterwards."""


Work = Generator[ResponderMove, MoveResult, str]
"""Its value is the last thing that it says."""


class _Step(Struct):
    reply: AssistantMessage
    results: dict[str, ToolMessage]
    said: list[str]


def next_move(work: Work, messages: Sequence[Message]) -> ResponderMove:
    """What comes next, after these messages. Replies of somebody else are passed over."""
    try:
        move = next(work)
        for step in _steps(messages):
            if _fits(move, step):
                move = work.send(_answer(step))
    except StopIteration as end:
        return ResponderMove(end.value)
    return move


def tool_calls(move: ResponderMove, messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a move, with ids that no call of the conversation has."""
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
