"""The hourly audit and the daily briefing, made of figures."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_agent.core.incidents import CheckHourStats, CheckState, Diagnosis, Incident, Signal
from hermes_agent.core.text.format import hour_of
from hermes_agent.incidents.monitoring.scheduler import CheckStatus
from hermes_agent.incidents.reports.daily import (
    Briefing,
    BriefingFacts,
    audit_text,
    briefing_text,
    risks,
)
from tests.store.helpers import Clock
from tests.support.incident_store import Post, post

NOON = time.mktime((2026, 11, 15, 12, 0, 0, 0, 0, -1))
HOUR, DAY = 3_600.0, 86_400.0
WEB = CheckStatus(
    "web", "shop", "curl x", 300.0, False, "P1", "check", "", "", "a.yaml",
    CheckState("web", False, NOON - 600, NOON - 60, 3, "exit code 7, not 0\nmore"), NOON, 2,
)  # fmt: skip
FULL = Incident(
    "inc-1", "the disk | is full", "P1", "resolved", "check", "f", "shop", "ann", NOON - HOUR,
    NOON, NOON - HOUR + 90, diagnosis=Diagnosis("shop", "disk-full"),
)  # fmt: skip


@pytest.mark.parametrize(("zone", "began"), [("UTC", "06:00"), ("Asia/Kolkata", "11:00")])
def test_an_hour_begins_when_the_clocks_here_say_so(
    zone: str, began: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        start = hour_of(1_794_982_800.0)  # 06:20 UTC
        assert time.strftime("%H:%M", time.localtime(start)) == began
    finally:
        monkeypatch.undo()
        time.tzset()


def facts(**more: object) -> BriefingFacts:
    hours = [
        CheckHourStats("web", NOON - HOUR, 12, 3, 24.0),
        *(CheckHourStats("web", NOON - day * DAY, 10, 0, 5.0) for day in range(2, 7)),
    ]
    given = {"now": NOON, "checks": [WEB], "hours": hours, "incidents": [FULL], **more}
    return BriefingFacts(**given)  # type: ignore[arg-type]  # as the test says


def test_an_audit_says_what_was_checked_in_the_hour() -> None:
    text = audit_text(facts(), NOON - HOUR)
    assert text.splitlines()[0].startswith("## 11:00 ")
    assert "| web | shop | **fails** | 12 | 3 | 2.00 |" in text
    assert "inc-1 P1 the disk \\| is full: resolved after 1 min 30 s: disk-full in shop" in text
    assert "- risk: web has been failing since 2026-11-15 11:50: exit code 7, not 0" in text
    assert "No incidents." in audit_text(facts(), NOON - 5 * HOUR)


def test_a_briefing_has_trends_and_risks() -> None:
    again = [replace(FULL, id=f"inc-{n}", opened=NOON - n * HOUR) for n in (2, 3)]
    open = replace(FULL, id="inc-9", state="escalated", ended=None, service="db")
    text = briefing_text(facts(incidents=[FULL, *again, open], troubles=["a log is gone"]))
    assert "Incidents since yesterday: 4, resolved: 3" in text
    assert "web fails more often: 25.0% of its runs, 0.0% before" in text
    assert "web is slower: 2.00 s, 0.50 s before" in text
    assert "- shop had 3 incidents in a week" in text
    assert "- inc-9 was escalated and is still open" in text
    assert "- a log is gone" in text


def test_practice_is_no_risk_and_nothing_is_made_up() -> None:
    drills = [replace(FULL, id=f"inc-{n}", source="drill") for n in range(5)]
    well = replace(WEB, state=CheckState("web", True, NOON, NOON))
    assert risks(facts(incidents=drills, checks=[well])) == []
    text = briefing_text(facts(incidents=[], checks=[], hours=[]))
    assert "None visible in the figures." in text
    assert "No checks" in text


def writer(here: Post, folder: Path) -> Briefing:
    async def statuses() -> Sequence[CheckStatus]:
        return [WEB]

    return Briefing(folder, here.store, statuses=statuses, troubles=lambda: (), clock=here.clock)


async def test_an_hour_that_the_clocks_repeat_has_two_audits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        clock = Clock(1_792_886_400.0)  # 2026-10-25 00:00 UTC: 02:00 in summer time
        async with post(tmp_path, clock) as here:
            files, told = writer(here, tmp_path), []
            for _ in range(2):
                await here.store.save_check(CheckState("web", True, NOON, clock.now))
                clock.now += HOUR
                told.append((await files.write_audit()).splitlines()[0])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert told == ["## 02:00 CEST", "## 02:00 CET"]


async def test_each_is_written_once_for_a_time_in_which_something_was_watched(
    tmp_path: Path,
) -> None:
    clock = Clock(NOON + 10)
    audit = tmp_path / "audits" / "2026-11-15.md"
    briefing = tmp_path / "briefings" / "2026-11-16.md"
    async with post(tmp_path, clock) as here:
        files = writer(here, tmp_path)
        assert await files.write_audit() == await files.write_briefing() == ""
        await here.store.save_check(CheckState("web", True, NOON, clock.now))
        assert await files.write_audit() == ""
        told = []
        for later in (HOUR, HOUR + 60, 2 * HOUR + 60, 3 * HOUR):
            clock.now = NOON + later
            told.append(await files.write_audit())
        assert told == [told[0], "", "", ""]
        assert told[0].startswith("## 12:00 ")
        heads = [line for line in audit.read_text().splitlines() if line.startswith("#")]
        assert heads == ["# Audits of 2026-11-15", told[0].splitlines()[0]]
    async with post(tmp_path, clock) as here:
        clock.now = NOON + 20 * HOUR
        files = writer(here, tmp_path)
        first = await files.write_briefing()
        await here.raise_signal(Signal("person", "x", "new"))
        assert await files.write_briefing() == ""
        assert briefing.read_text() == first
        assert first.startswith("# Briefing of Monday, 2026-11-16")
        assert list(tmp_path.glob("*/*.new")) == []
