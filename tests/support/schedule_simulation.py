"""A year of schedules, lived by the store and the planner: the clock jumps, nobody is there for
weeks, jobs are changed, paused and resumed, and the process is killed. What ought to have a row is
noted beside the store, and compared with what has one.

`python -m tests.support.schedule_simulation HOME COMMITS` resumes where the last was killed, and
kills itself at that commit; 0 means that it runs to the end."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.jobs import CatchUp, JobSpec, Schedule
from hermes_agent.jobs.planner import change_job, plan_due
from hermes_agent.jobs.schedules.slots import next_slot
from hermes_agent.store.store import Store

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
STEPS = (MINUTE, 7 * MINUTE, HOUR, 5 * HOUR, DAY, 3 * DAY, 17 * DAY)
"""How long nobody looks: to a minute, mostly, and at times to weeks."""
BACK = (30.0, 5 * MINUTE, HOUR, 26 * HOUR, 9 * DAY)
CATCH_UP: tuple[CatchUp, ...] = ("latest", "all", "none")


class Held(Struct):
    """A schedule, and when it held."""

    expression: str
    begin: float
    end: float | None = None


class Known(Struct):
    id: str
    zone: str
    active: bool
    held: list[Held]


class Life(Struct):
    """All that must be known to go on after a kill."""

    seed: int
    now: float
    begin: float
    end: float
    expressions: list[str]
    zones: list[str]
    step: int = 0
    before: float | None = None
    """What the clock showed before the step that is not done yet."""
    jobs: list[Known] = msgspec.field(default_factory=list)

    def save(self, home: Path) -> None:
        draft = home / "life.new"
        draft.write_bytes(msgspec.json.encode(self))
        draft.replace(home / "life.json")


def schedule_of(expression: str, zone: str) -> Schedule:
    if expression.startswith("every "):
        seconds, start = map(float, expression.removeprefix("every ").split("@"))
        return Schedule("every", expression, seconds=seconds, start=start, zone=zone)
    return Schedule("cron", expression, expression, zone=zone)


async def _begin(life: Life, store: Store) -> None:
    """Each schedule in each zone. The key makes sure that a kill adds none twice."""
    places = ((zone, one) for zone in life.zones for one in life.expressions)
    for number, (zone, expression) in enumerate(places):
        spec = JobSpec("look", catch_up=CATCH_UP[number % 3])
        schedule = schedule_of(expression, zone)
        key = f"job {number}"
        first = next_slot(schedule, life.now)
        job = await store.jobs.add(spec, schedule, "test", "", first, key)
        life.jobs.append(Known(job.id, zone, True, [Held(expression, life.now)]))


async def _change(life: Life, store: Store, chance: random.Random) -> None:
    """Another schedule, a pause, or its end; a second time it changes nothing."""
    known = chance.choice(life.jobs)
    other = chance.choice(life.expressions)
    what = chance.choice(("edit", "edit", "turn", "turn", "edit and turn"))
    states: dict[bool, Literal["active", "paused"]] = {True: "active", False: "paused"}
    active = not known.active if "turn" in what else known.active
    expression = other if "edit" in what else known.held[-1].expression
    await change_job(
        store.jobs, known.id, lambda: life.now, state=states[active],
        schedule=schedule_of(expression, known.zone),
    )  # fmt: skip
    same = active == known.active and expression == known.held[-1].expression
    if same:
        return
    if known.active:
        known.held[-1].end = life.now
    if active:
        known.held.append(Held(expression, life.now))
    else:  # what it will be when it is resumed
        known.held.append(Held(expression, life.now, life.now))
    known.active = active


async def _work(store: Store, now: float, chance: random.Random) -> None:
    """A few runs begin, end, or go on until the next time."""
    open_runs = await store.jobs.open(50)
    for run in chance.sample(open_runs, min(3, len(open_runs))):
        if run.state == "due" and await store.jobs.claim(run.id, now) is not None:
            state = chance.choice(("done", "failed", "running"))
            await store.jobs.change_run(run.id, frozenset({"claimed"}), state=state)
        elif run.state == "running":
            await store.jobs.change_run(run.id, frozenset({"running"}), state="done")


def _move(life: Life) -> None:
    """The clock goes on, or is set back."""
    chance = random.Random(f"{life.seed} {life.step} clock")
    life.before = life.now
    if chance.random() < 0.1:
        life.now = max(life.begin, life.now - chance.choice(BACK) - chance.random())
        for known in life.jobs:
            last = known.held[-1]
            if last.end is None and last.begin > life.now + 60:
                last.begin = life.now
    else:
        away = chance.choices(STEPS, (10, 10, 15, 15, 25, 15, 5))[0] * chance.uniform(0.3, 1.7)
        life.now = min(life.now + away, life.end)


async def _step(life: Life, store: Store, home: Path) -> None:
    if life.before is None:
        _move(life)
        life.save(home)
    chance = random.Random(f"{life.seed} {life.step}")
    await store.jobs.rewind(life.now, 60.0)
    if chance.random() < 0.5:
        await plan_due(store.jobs, life.now, life.before)
    for _ in range(chance.choice((0, 0, 1, 3))):
        await _change(life, store, chance)
    await plan_due(store.jobs, life.now)
    await _work(store, life.now, chance)
    life.step, life.before = life.step + 1, None
    life.save(home)


async def live(home: Path, kill_at: int = 0) -> Life:
    """Go on to the end of the year, or until the commit at which it dies."""
    life = msgspec.json.decode((home / "life.json").read_bytes(), type=Life)
    commits = 0

    def count(when: Literal["before", "after"], names: tuple[str, ...]) -> None:
        nonlocal commits
        commits += 1
        if commits == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    store = await Store.open(home, clock=lambda: life.now, hook=count)
    try:
        await store.claim_unfinished()
        await store.jobs.claim_unfinished()
        if not life.jobs:
            await _begin(life, store)
            life.save(home)
        while life.now < life.end or life.before is not None:
            await _step(life, store, home)
    finally:
        await store.close()
    return life


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), int(sys.argv[2])))
