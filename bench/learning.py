"""A family of tasks that are alike, with learning and without: steps, time and tokens of the n-th
task. The model is a script (tests/support/learning_curve.py says what that can show)."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.table import Figure, scaled
from tests.support.learning_curve import Family, Task

TASKS = scaled(8, 2)


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        learning = asyncio.run(_tasks(Path(folder) / "learning", learns=True))
        amnesic = asyncio.run(_tasks(Path(folder) / "amnesic", learns=False))
    for number in (1, 2, TASKS):
        ours, others = learning[number - 1], amnesic[number - 1]
        first = number == 1  # nothing can be known yet
        yield Figure(
            f"steps of task {number} of a family, times those without learning",
            ours.steps / others.steps, "x", others.steps, "steps", 1.0 if first else 0.5, "x",
        )  # fmt: skip
    later = slice(1, None)
    for what, unit in (("seconds", "s"), ("tokens", "tokens")):
        mine, theirs = (
            sum(getattr(task, what) for task in tasks[later]) for tasks in (learning, amnesic)
        )
        yield Figure(
            f"{what} of tasks 2 to {TASKS}, times those without learning",
            mine / theirs, "x", theirs / (TASKS - 1), f"{unit} each", 0.7, "x",
        )  # fmt: skip


async def _tasks(folder: Path, *, learns: bool) -> list[Task]:
    async with Family(folder, learns=learns) as family:
        return [await family.do(number) for number in range(1, TASKS + 1)]
