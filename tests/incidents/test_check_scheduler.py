"""Checks run when they are due, signal when they are certain, and remember over restarts."""

import asyncio
import time
from pathlib import Path

import pytest

from hermes_agent.core.errors import Degraded, NotFound
from hermes_agent.core.incidents import CheckState, IngestResult, Signal, WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.monitoring.config import CheckFiles, Watched
from hermes_agent.incidents.monitoring.scheduler import (
    CheckOutcome,
    CheckScheduler,
    morning_after,
    next_due,
)
from tests.store.helpers import Clock
from tests.support.incident_store import Post, post

TEXT = "{name: web, service: shop, run: 'curl x', every: 60, severity: P1, labels: {a: b}}"


class Bench:
    """Watching, with commands whose outcome is said by the test."""

    def __init__(self, here: Post, folder: Path) -> None:
        self.here = here
        self.ran: list[tuple[str, str]] = []
        self.next = CheckOutcome(True)
        self.checks = folder / "checks"
        self.checks.mkdir(exist_ok=True)
        self.watching = CheckScheduler(
            CheckFiles(self.checks),
            here.store,
            run=self._run,
            raise_signal=self._raise,
            redact=lambda text: text.replace(here.secret, "[secret]"),
            clock=here.clock,
        )
        self.refuses = False
        """Whether signals cannot be kept now."""

    async def _raise(self, signal: Signal) -> IngestResult:
        if self.refuses:
            raise Degraded("the disk is full")
        return await self.here.raise_signal(signal)

    async def _run(self, check: WatchedCheck, policy: str) -> CheckOutcome:
        self.ran.append((check.name, policy))
        return self.next

    async def round(self, seconds: float = 0.0, outcome: CheckOutcome | None = None) -> int:
        """So much later: how many checks were run."""
        self.here.clock.now += seconds
        self.next = outcome or self.next
        before = len(self.ran)
        await self.watching.start_due()
        await asyncio.gather(*self.watching._running.values())
        await asyncio.sleep(0)
        return len(self.ran) - before


BAD = CheckOutcome(False, "exit code 7, not 0", 7)


async def test_a_check_runs_at_once_and_then_in_its_time(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        assert await bench.round() == 0
        (bench.checks / "a.yaml").write_text(TEXT)
        assert [await bench.round(seconds) for seconds in (0, 59, 1, 59, 1)] == [1, 0, 1, 0, 1]
        (state,) = await here.store.check_states()
        assert (state.ok, state.failures, state.since) == (True, 0, 1_000_000.0)
        assert await here.titles() == []


async def test_it_signals_when_it_is_certain_and_says_when_it_is_over(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        await bench.round(0, BAD)
        assert await here.titles() == []
        assert await bench.round(14) == 0
        assert await bench.round(1) == 1
        (incident,) = await here.store.incidents()
        assert (incident.title, incident.severity) == ("shop: the check web fails", "P1")
        assert incident.checks == (
            WatchedCheck("web", Check("curl x", timeout=30.0), "shop", severity="P1"),
        )
        (signal,) = await here.store.firing("inc-1")
        assert signal.labels == {"a": "b"}
        assert signal.detail == "$ curl x\nexit code 7, not 0"
        for _ in range(8):
            await bench.round(15)
        assert (await here.store.incident("inc-1")).signals == 3
        await bench.round(15, CheckOutcome(True))
        assert await here.store.firing("inc-1") == []
        assert len(await here.store.incidents()) == 1


async def test_what_could_not_be_said_is_said_by_the_next_run(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        await bench.round(0, BAD)
        await bench.round(15)
        bench.refuses = True
        with pytest.raises(Degraded):
            await bench.round(15, CheckOutcome(True))
        assert await here.store.firing("inc-1") != []
        assert await bench.round(14) == 0, "nor is it run all the time meanwhile"
        bench.refuses = False
        assert await bench.round(1) == 1
        assert await here.store.firing("inc-1") == []


async def test_one_failure_that_passes_signals_nothing(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        for outcome in (BAD, CheckOutcome(True), BAD, CheckOutcome(True)):
            await bench.round(60, outcome)
        assert await here.store.signals() == []
        assert await here.store.check_hours(0.0) != []


async def test_what_cannot_be_run_is_said_and_counts_as_failing(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text("{name: web, run: 'rm x', after: 1, policy: observe}")
        why = f"the gate refuses: {here.secret}"
        await bench.round(0, CheckOutcome(False, why, refused=True))
        assert await here.titles() == ["web: the check web cannot be run"]
        assert bench.ran == [("web", "observe")]
        (state,) = await here.store.check_states()
        assert state.detail == "the gate refuses: [secret]"


async def test_failures_are_counted_on_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    async with post(tmp_path, clock) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        await bench.round(0, BAD)
    async with post(tmp_path, clock) as here:
        bench = Bench(here, tmp_path)
        assert await bench.round(14, BAD) == 0
        await bench.round(1)
        assert await here.titles() == ["shop: the check web fails"]
    async with post(tmp_path, clock) as here:
        bench = Bench(here, tmp_path)
        await bench.round(15, BAD)
        assert (await here.store.incident("inc-1")).signals == 2
    async with post(tmp_path, clock) as here:
        bench = Bench(here, tmp_path)
        await bench.round(15, CheckOutcome(True))
        assert await here.store.firing("inc-1") == []
        assert len([one for one in await here.store.notices() if one.kind == "declared"]) == 2


async def test_a_check_that_is_taken_away_is_forgotten(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        await bench.round()
        (bench.checks / "a.yaml").unlink()
        await bench.round()
        assert await here.store.check_states() == []
        with pytest.raises(NotFound):
            await bench.watching.run_check("web")


async def test_a_check_is_run_when_somebody_wants_it(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        bench.next = BAD
        assert await bench.watching.run_check("web") == BAD
        (standing,) = await bench.watching.statuses()
        assert (standing.state.ok, standing.due) == (False, here.clock())


async def test_failures_by_hand_are_shown_and_do_not_count(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        await bench.round(0, CheckOutcome(True))
        bench.next = BAD
        for _ in range(3):
            await bench.watching.run_check("web")
        (standing,) = await bench.watching.statuses()
        assert (standing.state.ok, standing.state.failures) == (False, 0)
        assert await bench.round(0, BAD) == 0  # the schedule is what it was
        await bench.round(standing.every, BAD)
        assert await here.titles() == []
        await bench.round(15, BAD)
        assert await here.titles() == ["shop: the check web fails"]
        bench.next = CheckOutcome(True)
        await bench.watching.run_check("web")
        assert await here.store.firing("inc-1") == []


def test_daily_checks_run_at_eight_in_the_morning() -> None:
    daily = Watched(WatchedCheck("x", Check("true")), 86_400.0, daily=True)
    evening = time.mktime((2026, 3, 28, 20, 0, 0, 0, 0, -1))
    due = next_due(daily, CheckState("x", True, evening, evening), evening)
    assert time.localtime(due)[:5] == (2026, 3, 29, 8, 0)
    assert time.localtime(morning_after(due))[:5] == (2026, 3, 30, 8, 0)
    assert time.localtime(morning_after(due - 1))[:5] == (2026, 3, 29, 8, 0)
    failed = CheckState("x", False, evening, evening, 1)
    assert next_due(daily, failed, evening) == evening + 15.0


def test_a_clock_that_was_set_back_does_not_stop_the_watching() -> None:
    hourly = Watched(WatchedCheck("x", Check("true")), 3_600.0)
    assert next_due(hourly, CheckState("x", True, 9e9, 9e9), 1_000.0) == 1_000.0
    assert next_due(hourly, CheckState("x", False, 9e9, 9e9, 1), 1_000.0) == 1_000.0


async def test_a_clock_that_was_set_back_hides_no_failure(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        bench = Bench(here, tmp_path)
        (bench.checks / "a.yaml").write_text(TEXT)
        await bench.round(0, BAD)
        await bench.round(15)
        assert (await here.store.incident("inc-1")).signals == 1
        here.clock.now -= 86_400.0
        await bench.round(15)
        await bench.round(15)
        assert (await here.store.incident("inc-1")).signals == 2, "it goes on to say so"
