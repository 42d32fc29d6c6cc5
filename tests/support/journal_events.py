"""Turns as events, made by hand: what was said and done in a session."""

from collections.abc import Sequence
from typing import Any

from hermes_agent.core import events as ev
from hermes_agent.core.messages import ToolCall


def recorded(*events: ev.Event, session: str = "s1", first: int = 1) -> list[ev.Recorded]:
    """The events in order, numbered from `first`, a second apart."""
    return [
        ev.Recorded(session, number, 1_000.0 + number, event)
        for number, event in enumerate(events, first)
    ]


def call(
    tool: str, text: str, *, ok: bool = True, data: dict[str, Any] | None = None, **given: Any
) -> list[ev.Event]:
    """A reply that makes one call, and its outcome."""
    made = ToolCall.of("c", tool, **given)
    return [
        ev.Replied(1, "", (made,), stop="calls"),
        ev.CallFinished("e", "c", tool, text, ok, data=data or {}),
    ]


def turn(
    said: str,
    *events: ev.Event | Sequence[ev.Event],
    answer: str = "done",
    reason: ev.TurnEnd = "done",
    session: str = "s1",
    first: int = 1,
    error: str = "",
) -> list[ev.Recorded]:
    """A whole turn: a message, what was done, and its end."""
    middle: list[ev.Event] = []
    for one in events:
        middle.extend([one] if isinstance(one, ev.Event) else one)
    return recorded(
        ev.TurnStarted(1),
        ev.MessageTaken("m1", said),
        *middle,
        ev.Replied(2, answer),
        ev.TurnFinished(1, reason, answer, error),
        session=session,
        first=first,
    )
