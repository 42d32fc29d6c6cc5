"""Many jobs: `python -m bench.jobs --count 100000`. What it costs to add them, to have them, to
plan a minute in which many are due, and to come back after a year."""

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import apsw

from bench.table import Figure, scaled, show
from hermes_agent.core.jobs import JobSpec, Schedule
from hermes_agent.jobs.consistency import check
from hermes_agent.jobs.planner import plan_due
from hermes_agent.jobs.schedules.slots import next_slot
from hermes_agent.store.store import Store

COUNT = scaled(100_000, 500)
DUE = scaled(1_000, 50)
TOGETHER = scaled(250, 25)
LOOKS = scaled(200, 5)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")
START = 1_767_222_000.0  # 2025-12-31 23:00 UTC
YEAR = scaled(365, 5) * 86_400
IDLE_LIMIT_MS, MINUTE_LIMIT_S, YEAR_LIMIT_S, MEMORY_LIMIT_MB = 5.0, 5.0, 60.0, 100.0
SQLITE = "bare SQLite"


def schedules(count: int, chance: random.Random) -> Iterator[Schedule]:
    """The first thousand are due at noon UTC; the others at some minute of some day."""
    for number in range(count):
        if number < DUE:
            yield Schedule("cron", "", "0 12 * * *", zone="UTC")
            continue
        days = chance.choice(("* * *", "* * mon-fri", "1 * *", "* * sun#1"))
        hour = chance.choice((*range(11), *range(13, 24)))
        cron = f"{chance.randrange(60)} {hour} {days}"
        yield Schedule("cron", cron, cron, zone=chance.choice(ZONES))


def floor_of_rows(folder: Path, rows: int, commits: int) -> float:
    """Seconds to write so many small rows, in so many commits that wait for the disk."""
    db = apsw.Connection(str(folder / "floor.db"))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("create table t (id integer primary key, job integer, slot real, state text);"
               "create unique index i on t (job, slot)")  # fmt: skip
    started = time.perf_counter()
    for part in range(commits):
        db.execute("begin immediate")
        db.executemany(
            "insert into t (job, slot, state) values (?, ?, 'due')",
            ((part, float(n)) for n in range(rows // commits)),
        )
        db.execute("commit")
    spent = time.perf_counter() - started
    db.close()
    (folder / "floor.db").unlink()
    return spent


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(folder: Path, count: int) -> list[Figure]:
    clock = [START]
    store = await Store.open(folder / "home", clock=lambda: clock[0])
    chance = random.Random(1)
    before = memory_mb()
    started = time.perf_counter()
    spec = JobSpec("Check the disks and say what is amiss")
    left = schedules(count, chance)
    while some := list(islice(left, TOGETHER)):
        await asyncio.gather(
            *(
                store.jobs.add(spec, schedule, "cli", "", next_slot(schedule, START))
                for schedule in some
            )
        )
    added = time.perf_counter() - started
    grown = memory_mb() - before

    started = time.process_time()
    for _ in range(LOOKS):
        await store.jobs.first()
    look = (time.process_time() - started) / LOOKS * 1000

    clock[0] = noon = START + 13 * 3_600
    await plan_due(store.jobs, noon - 1)
    started = time.perf_counter()
    planned = await plan_due(store.jobs, noon)
    minute = time.perf_counter() - started
    assert planned.due >= min(DUE, count), planned

    started = time.perf_counter()
    assert await check(store.jobs, noon + 61) == []
    checked = time.perf_counter() - started
    await store.close()
    name = f"{count:,} jobs"
    commits = max(1, count // TOGETHER)
    return [
        Figure(f"{name}: add one, {TOGETHER} at a time", added / count * 1e3, "ms",
               floor_of_rows(folder, count, commits) / count * 1e3, SQLITE),
        Figure(f"{name}: a look of the idle scheduler, processor", look, "ms", None, "",
               IDLE_LIMIT_MS, "ms"),
        Figure(f"{name}: a minute in which {DUE:,} are due", minute, "s",
               floor_of_rows(folder, DUE, DUE // TOGETHER), SQLITE, MINUTE_LIMIT_S, "s"),
        Figure(f"{name}: compare all schedules with their rows", checked, "s"),
        Figure(f"{name}: memory they take", grown, "MB", None, "", MEMORY_LIMIT_MB, "MB"),
    ]  # fmt: skip


async def measure_year(folder: Path) -> list[Figure]:
    """One job for every minute, and a year in which nobody was there."""
    clock = [START]
    store = await Store.open(folder / "year", clock=lambda: clock[0])
    every = Schedule("cron", "* * * * *", "* * * * *", zone="Europe/Berlin")
    await store.jobs.add(JobSpec("look"), every, "cli", "", next_slot(every, START))
    clock[0] += YEAR
    started = time.perf_counter()
    planned = await plan_due(store.jobs, clock[0])
    spent = time.perf_counter() - started
    assert (planned.due, planned.missed) == (1, YEAR // 60 - 1), planned
    await store.close()
    size = (folder / "year/state.db").stat().st_size / 1e6
    floor = floor_of_rows(folder, YEAR // 60, max(1, YEAR // 60 // 5_000))
    return [
        Figure(f"a year of minutes, missed: {YEAR // 60:,} rows", spent, "s", floor, SQLITE,
               YEAR_LIMIT_S, "s"),
        Figure("a year of minutes: on the disk", size, "MB"),
    ]  # fmt: skip


def next_slot_cost() -> Iterator[Figure]:
    chance = random.Random(2)
    for cron in ("0 8 * * mon-fri", "*/15 * * * *", "0 6 29 2 *"):
        schedule = Schedule("cron", cron, cron, zone="Europe/Berlin")
        moments = [START + chance.uniform(0, YEAR) for _ in range(1_000)]
        next_slot(schedule, START)
        started = time.process_time()
        for moment in moments:
            next_slot(schedule, moment)
        spent = (time.process_time() - started) / len(moments) * 1e6
        yield Figure(f"the next slot of `{cron}`", spent, "us", None, "", 1_000.0, "us")


def figures(count: int = COUNT) -> Iterator[Figure]:
    yield from next_slot_cost()
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(measure(Path(folder), count))
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(measure_year(Path(folder)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    sys.exit(1 if show(figures(parser.parse_args().count)) else 0)
