"""A store in a folder, a session in it, a turn in that."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes_agent.core.events import Recorded
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import Inbound, NewSession, Session, Turn
from hermes_agent.store.store import Store

PROMPT = Prompt("You are Hermes.")
_numbers = itertools.count(1)


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[Store]:
    store = await Store.open(folder, **options)
    try:
        yield store
    finally:
        await store.close()


async def a_session(store: Store, **facts: str) -> Session:
    given = {"workspace": "/work", "policy": "careful", "model": "openai/m", **facts}
    return await store.open_session(NewSession(**given), PROMPT)


async def a_turn(store: Store, session: Session, text: str = "hello") -> Turn:
    assert await store.receive(session.id, Inbound(f"auto-{next(_numbers)}", text))
    turn = await store.start_turn(session.id)
    assert turn is not None
    return turn


def told(recorded: Sequence[Recorded]) -> list[object]:
    return [one.event for one in recorded]


class Clock:
    """Time that moves when it is told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
