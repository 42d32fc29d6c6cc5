"""A store in a folder, a session in it, a turn in that."""

import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes_agent.core.events import Recorded
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, Session, SessionMessage, Turn
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
    assert await store.receive(session.id, SessionMessage(f"auto-{next(_numbers)}", text))
    turn = await store.start_turn(session.id)
    assert turn is not None
    return turn


async def slots_of(store: Store, job: str, since: float, until: float) -> Sequence[float]:
    """The slots of a job that have a row."""
    return [run.slot for run in (await store.jobs.all_slots(job, job, since, until)).get(job, [])]


def told(recorded: Sequence[Recorded]) -> list[object]:
    return [one.event for one in recorded]


def run_child(code: str, home: Path) -> int:
    """Run a program on the home in a process of its own; its exit status."""
    return subprocess.run([sys.executable, "-c", code, str(home)], check=False).returncode


def kill_after_lines(code: str, home: Path, lines: int) -> list[str]:
    """Kill a program once it has printed so many lines; everything it printed."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        said = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        return said + child.stdout.readlines()


class Clock:
    """Time that moves when it is told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
