"""A simulated year: no slot without a row, each exactly once, whatever happens to the clock, the
jobs and the process."""

import random
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import pytest

from hermes_agent.jobs.consistency import faults_of
from hermes_agent.jobs.schedules.slots import slots
from tests.store.helpers import opened
from tests.support.cron_oracle import Oracle
from tests.support.schedule_simulation import Life, live, schedule_of

ROOT = Path(__file__).parents[2]
ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns",
    "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca", "UTC",
)  # fmt: skip
EXPRESSIONS = (
    "*/15 * * * *", "30 * * * *", "30 2 * * *", "15 1,2,3 * * mon-fri", "*/20 0-3 * * *",
    "0 */2 * * *", "0 0 * * *", "0 6 29 2 *", "0 8 l * *", "45 23 * * fri#l,mon#1", "1 0 13 * fri",
)  # fmt: skip
LEAP_YEAR = (
    datetime(2024, 1, 1, tzinfo=UTC).timestamp(),
    datetime(2025, 1, 1, tzinfo=UTC).timestamp(),
)
ODD_YEAR = (
    datetime(2011, 3, 1, tzinfo=UTC).timestamp(),
    datetime(2012, 3, 2, tzinfo=UTC).timestamp(),
)
"""Samoa had no 30 December, Newfoundland changed its clocks a minute after midnight, and there was
a leap day."""


@lru_cache
def oracle(zone: str, begin: float, end: float) -> Oracle:
    return Oracle(zone, begin, end)


@lru_cache
def truth(expression: str, zone: str, begin: float, end: float) -> list[float]:
    if not expression.startswith("every "):
        return oracle(zone, begin, end).slots(expression)
    seconds, start = map(float, expression.removeprefix("every ").split("@"))
    found, count = [], 0
    while (slot := start + count * seconds) <= end:
        found.append(slot)
        count += 1
    return [slot for slot in found if slot > begin]


@pytest.mark.parametrize(
    ("year", "zone"),
    [(LEAP_YEAR, zone) for zone in ZONES]
    + [(ODD_YEAR, zone) for zone in ("Pacific/Apia", "America/St_Johns", "Africa/Cairo")],
)
@pytest.mark.sample(3)
def test_slots_are_those_found_by_looking_at_the_clock_each_minute(
    year: tuple[float, float], zone: str
) -> None:
    chance = random.Random(zone)
    for expression in EXPRESSIONS:
        schedule = schedule_of(expression, zone)
        wanted = truth(expression, zone, *year)
        assert slots(schedule, *year) == wanted, expression
        for _ in range(20):  # and from any moment on
            begin = chance.uniform(*year)
            end = min(begin + chance.uniform(0, 5e6), year[1])
            some = [slot for slot in wanted if begin < slot <= end]
            assert slots(schedule, begin, end) == some, (expression, begin, end)
            assert slots(schedule, begin, end, 3) == some[:3]


async def compare(home: Path, life: Life, year: tuple[float, float]) -> int:
    """Each slot of what held has one row, and there are no others; the checker says the same."""
    rows = 0
    async with opened(home, clock=lambda: life.now) as store:
        for job in life.jobs:
            wanted: set[float] = set()
            for held in job.held:
                end = year[1] if held.end is None else held.end
                wanted.update(
                    slot
                    for slot in truth(held.expression, job.zone, *year)
                    if held.begin < slot <= end
                )
            found = (await store.jobs.all_slots(job.id, job.id, 0.0, year[1])).get(job.id, [])
            there = [run.slot for run in found]
            assert len(there) == len(set(there))
            shared = [(run.since, run.slot) for run in found if run.since is not None]
            lost = [
                slot
                for slot in wanted - set(there)
                if not any(since < slot < last for since, last in shared)
            ]
            assert (lost, set(there) - wanted) == ([], set()), (job.id, job.zone, job.held)
            rows += sum(run.slots for run in found)
            assert rows >= len(wanted)
        assert await faults_of(store.jobs, year[1] + 61) == []
        open_runs = await store.jobs.open(100_000)
        assert all(run.state in ("due", "claimed", "running") for run in open_runs)
    return rows


def started(home: Path, seed: int, year: tuple[float, float], zones: tuple[str, ...]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    expressions = [*EXPRESSIONS, f"every 25980@{year[0]}", f"every 5000.5@{year[0] + 12.25}"]
    Life(seed, year[0], *year, expressions, list(zones)).save(home)


def killed(home: Path, commits: int) -> int:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.schedule_simulation", str(home), str(commits)],
        cwd=ROOT,
    ).returncode


async def lived(
    home: Path, seed: int, year: tuple[float, float], zones: tuple[str, ...], kills: int
) -> int:
    """Live through the year and compare; the number of rows."""
    started(home, seed, year, zones)
    chance = random.Random(seed)
    for _ in range(kills):
        assert killed(home, chance.randint(1, 300)) == -9
    life = await live(home)
    assert life.now == year[1]
    return await compare(home, life, year)


@pytest.mark.slow
async def test_a_year_with_kills_jumps_of_the_clock_downtime_and_changes(tmp_path: Path) -> None:
    zones = ("Europe/Berlin", "Australia/Lord_Howe")
    assert await lived(tmp_path, 7, LEAP_YEAR, zones, 4) > 10_000


@pytest.mark.slow
async def test_a_year_in_which_a_day_is_missing(tmp_path: Path) -> None:
    zones = ("Pacific/Apia", "America/St_Johns")
    assert await lived(tmp_path, 11, ODD_YEAR, zones, 1) > 10_000


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(4))
async def test_many_years_in_all_zones(tmp_path: Path, seed: int) -> None:
    year = (LEAP_YEAR, ODD_YEAR)[seed % 2]
    assert await lived(tmp_path, seed, year, ZONES, 25) > 100_000
