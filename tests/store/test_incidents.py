"""Signals become incidents: the same trouble once, near ones together, nothing lost or doubled."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.incidents import (
    NEVER,
    OPEN,
    CheckHourStats,
    CheckState,
    Diagnosis,
    Hypothesis,
    Incident,
    IngestResult,
    LogCursor,
    MonitoredService,
    NewNotice,
    Severity,
    Signal,
    WatchedCheck,
)
from hermes_agent.core.skills import Check
from hermes_agent.store.incidents.ingest import MAX_OPEN, SILENT_SECONDS, relation
from tests.store.helpers import Clock, opened

WEB = Signal("check", "check:web", "web does not answer", service="web", detail="exit 7")
TOPOLOGY = (
    MonitoredService("web", ("api",)),
    MonitoredService("api", ("db",)),
    MonitoredService("jobs", ("db",)),
    MonitoredService("mail"),
)


def tell(incident: Incident) -> Sequence[NewNotice]:
    return [("declared", 1, "log", incident.title), ("declared", 1, "terminal", incident.title)]


async def test_the_same_trouble_is_one_incident_told_once(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        first = await store.incidents.take(WEB, 300, (), tell)
        assert first == IngestResult(1, "inc-1", True)
        clock.now = 160.0
        again = await store.incidents.take(replace(WEB, detail="exit 28"), 300, (), tell)
        assert again == IngestResult(1, "inc-1", False, repeated=True)
        incident = await store.incidents.incident("inc-1")
        assert (incident.state, incident.opened, incident.signals) == ("declared", 100.0, 2)
        (entry,) = await store.incidents.timeline("inc-1")
        assert (entry.number, entry.kind, entry.time) == (1, "declared", 100.0)
        assert entry.data["detail"] == "exit 7"
        assert [one.channel for one in await store.incidents.notices()] == ["log", "terminal"]
        (signal,) = await store.incidents.signals(incident="inc-1")
        assert signal == replace(WEB, id=1, detail="exit 28", at=160.0)


async def test_near_signals_within_the_window_join_and_far_ones_do_not(tmp_path: Path) -> None:
    clock = Clock(100.0)
    check = WatchedCheck("db", Check("pg_isready"), "db", severity="P1")
    database = Signal("check", "check:db", "db is down", "db", "P1", check=check)
    async with opened(tmp_path, clock=clock) as store:
        incidents = store.incidents
        await incidents.take(WEB, 60, TOPOLOGY, tell)
        assert await incidents.take(database, 60, TOPOLOGY, tell) == IngestResult(2, "inc-1", False)
        incident = await incidents.incident("inc-1")
        assert (incident.related, incident.severity, incident.checks) == (("db",), "P1", (check,))
        texts = [entry.text for entry in await incidents.timeline("inc-1")]
        assert texts[1:] == ["also: db is down (web needs db)",
                             "severity P2 becomes P1: db is down"]  # fmt: skip
        mail = Signal("grafana", "m", "mail queue", "mail")
        assert (await incidents.take(mail, 60, TOPOLOGY, tell)).incident == "inc-2"
        clock.now = 161.0
        jobs = Signal("check", "check:jobs", "jobs wait", "jobs")
        assert (await incidents.take(jobs, 60, TOPOLOGY, tell)).incident == "inc-3"
        assert (await incidents.take(Signal("log", "x", "odd"), 60, TOPOLOGY)).incident == "inc-4"
        assert [one.id for one in await incidents.incidents(open=True, limit=2)] == [
            "inc-4",
            "inc-3",
        ]


def test_what_is_near_follows_needs_both_ways_and_around_a_shared_need() -> None:
    web = Incident("inc-1", "t", "P2", "declared", "check", "f", "web")

    def said(service: str, **facts: str) -> str:
        return relation(web, replace(WEB, service=service, **facts), TOPOLOGY)

    assert said("web") == "also about web"
    assert said("db") == "web needs db"
    assert said("mail") == said("") == ""
    assert relation(replace(web, service="db"), replace(WEB, service="web"), TOPOLOGY)
    assert "both need db" in relation(replace(web, service="api"), replace(WEB, service="jobs"),
                                      TOPOLOGY)  # fmt: skip
    assert relation(replace(web, service="a"), replace(WEB, service="b"),
                    (MonitoredService("a", ("b",)),
                     MonitoredService("b", ("a",)))) == "a needs b"  # fmt: skip


def test_drills_are_near_to_nothing_but_their_own_terminal() -> None:
    drill = Incident("inc-1", "t", "P2", "declared", "drill", "f", "web", terminal="drill-1")
    raised = replace(WEB, source="drill", terminal="drill-1")
    assert relation(drill, raised, ())
    assert not relation(drill, replace(raised, terminal="drill-2"), ())
    assert not relation(drill, replace(WEB, terminal="drill-1"), ())
    assert not relation(replace(drill, source="check"), raised, ())


async def test_what_is_over_is_no_longer_firing_and_opens_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        incidents = store.incidents
        over = replace(WEB, firing=False)
        assert await incidents.take(over, 60, ()) == IngestResult(0, "", False)
        await incidents.take(WEB, 60, ())
        assert [one.id for one in await incidents.firing("inc-1")] == [1]
        assert await incidents.take(over, 60, ()) == IngestResult(1, "inc-1", False, repeated=True)
        assert await incidents.firing("inc-1") == []
        assert await incidents.take(over, 60, ()) == IngestResult(0, "", False)
        assert (await incidents.take(WEB, 60, ())).incident == "inc-1"
        texts = [entry.text for entry in await incidents.timeline("inc-1")]
        assert texts[1:] == ["over: web does not answer", "again: web does not answer"]
        assert (await incidents.incident("inc-1")).state == "declared"


@pytest.mark.parametrize(
    ("state", "goes_on"), [("escalated", True), ("closed", True), ("resolved", False)]
)
async def test_what_goes_on_after_people_took_it_opens_no_second_incident(
    tmp_path: Path, state: str, goes_on: bool
) -> None:
    async with opened(tmp_path) as store:
        incidents = store.incidents
        await incidents.take(WEB, 60, (), tell)
        await incidents.change("inc-1", [], state=state)
        assert (await incidents.take(WEB, 60, (), tell)).new is not goes_on
        await incidents.take(replace(WEB, firing=False), 60, ())
        if goes_on:
            again = await incidents.take(WEB, 60, (), tell)
            assert (again.incident, again.new) == ("inc-2", True)


async def test_what_was_silent_for_days_is_new_though_nobody_said_that_it_was_over(
    tmp_path: Path,
) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        await store.incidents.take(WEB, 60, (), tell)
        await store.incidents.change("inc-1", [], state="escalated")
        clock.now += SILENT_SECONDS
        assert not (await store.incidents.take(WEB, 60, (), tell)).new
        clock.now += SILENT_SECONDS + 1
        assert (await store.incidents.take(WEB, 60, (), tell)).new


async def test_what_was_seen_before_the_end_opens_nothing_afterwards(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        await store.incidents.take(WEB, 60, (), tell)
        clock.now = 130.0
        await store.incidents.change("inc-1", [], state="resolved")
        clock.now = 131.0
        old = await store.incidents.take(replace(WEB, at=129.0), 60, (), tell)
        assert old == IngestResult(0, "inc-1", False, repeated=True)
        new = await store.incidents.take(replace(WEB, at=130.5), 60, (), tell)
        assert (new.incident, new.new) == ("inc-2", True)


async def test_a_change_is_all_or_nothing(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        incidents = store.incidents
        await incidents.take(WEB, 60, (), tell)
        clock.now = 130.0
        guess = Hypothesis("h1", "it leaks", "web", "memory-leak", 0.4)
        told = [("progress", 1, "log", "looking")] * 2
        changed = await incidents.change(
            "inc-1", [("hypothesis", guess.claim, {"id": "h1"})], told,  # type: ignore[arg-type]  # literals
            OPEN, state="investigating", session="s1", hypotheses=(guess,),
        )  # fmt: skip
        assert changed == await incidents.incident("inc-1")
        assert (changed.session, changed.hypotheses, changed.changed) == ("s1", (guess,), 130.0)
        with pytest.raises(HermesError, match="is investigating, not resolved"):
            await incidents.change("inc-1", [("note", "x", {})], (), frozenset({"resolved"}))
        with pytest.raises(msgspec.ValidationError):
            await incidents.change("inc-1", [("note", "x", {})], state="sleepy")
        with pytest.raises(NotFound):
            await incidents.change("inc-7", [])
        with pytest.raises(NotFound):
            await incidents.incident("'; drop table incidents; --")
        assert len(await incidents.timeline("inc-1", 1)) == 1
        assert len(await incidents.notices(incident="inc-1")) == 3
        cause = Diagnosis("web", "memory-leak", evidence=())
        ended = await incidents.change("inc-1", [], state="resolved", diagnosis=cause)
        assert (ended.ended, ended.seconds, ended.diagnosis) == (130.0, 30.0, cause)
        assert await incidents.incidents(open=True) == []
        assert await incidents.incidents(open=False, source="check") == [ended]
        assert await incidents.incidents(source="drill") == []


async def test_a_notice_is_due_until_it_is_sent_or_given_up(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        incidents = store.incidents
        await incidents.take(WEB, 60, (), tell)
        one, two = await incidents.notices(due=100.0)
        await incidents.notice_sent(one.id)
        await incidents.notice_failed(two.id, "refused", 105.0)
        assert await incidents.notices(due=104.0) == []
        (left,) = await incidents.notices(due=105.0)
        assert (left.attempts, left.error, left.sent) == (1, "refused", None)
        await incidents.notice_failed(two.id, "refused", NEVER)
        assert await incidents.notices(due=2 * NEVER) == []
        sent, dead = await incidents.notices()
        assert (sent.sent, sent.attempts, dead.due, dead.attempts) == (100.0, 1, NEVER, 2)


async def test_checks_logs_and_services_are_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        incidents = store.incidents
        well = CheckState("web", True, 7_200.0, 7_200.0, seconds=0.5)
        ill = CheckState("web", False, 7_300.0, 7_300.0, 1, "exit 7", 1.5)
        for state in (well, ill, CheckState("new")):
            await incidents.save_check(state)
        await incidents.save_log_cursor(LogCursor("/var/log/x", "1:2", 10))
        await incidents.save_log_cursor(LogCursor("/var/log/x", "1:3", 4))
        await incidents.learn_service(MonitoredService("web", ("db",), about="nginx"))
        await incidents.learn_service(MonitoredService("web", ("cache",), "ann"))
    async with opened(tmp_path) as store:
        incidents = store.incidents
        assert await incidents.check_states() == [CheckState("new"), ill]
        assert await incidents.check_hours(7_500.0) == [CheckHourStats("web", 7_200.0, 2, 1, 2.0)]
        assert await incidents.log_cursors() == [LogCursor("/var/log/x", "1:3", 4)]
        assert await incidents.services() == [
            MonitoredService("web", ("db", "cache"), "ann", "nginx", learned=True)
        ]
        await incidents.drop_check("web")
        assert await incidents.check_states() == [CheckState("new")]
        assert len(await incidents.check_hours(0.0)) == 2


async def test_many_raise_the_same_at_once_and_one_incident_is_declared(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        taken = await asyncio.gather(
            *(one.incidents.take(WEB, 60, (), tell) for one in [store, other] * 20)
        )
        assert sum(one.new for one in taken) == 1
        assert {one.incident for one in taken} == {"inc-1"}
        assert (await store.incidents.incident("inc-1")).signals == 40
        assert len(await store.incidents.notices()) == 2


async def test_a_storm_of_signals_ends_in_one_incident_that_collects_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number in range(MAX_OPEN + 20):
            severity: Severity = "P1" if number == MAX_OPEN + 9 else "P3"
            signal = Signal("grafana", f"g:{number}", "slow", f"s{number}", severity)
            await store.incidents.take(signal, 300, (), tell)
        found = await store.incidents.incidents(open=True, limit=1_000)
        assert len(found) == MAX_OPEN + 1
        assert (found[0].title, found[0].severity) == ("many signals at once", "P1")
        assert found[0].signals == len(await store.incidents.firing(found[0].id)) == 20
        again = await store.incidents.take(replace(signal, detail="x"), 300, (), tell)
        assert (again.incident, again.repeated) == (found[0].id, True)
        assert (await store.incidents.take(Signal("person", "p", "mail"), 300, (), tell)).new
        drill = Signal("drill", "check:d", "drill", terminal="drill-1")
        assert (await store.incidents.take(drill, 300, (), tell)).new


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12))
def test_every_firing_signal_is_of_exactly_one_incident(steps: list[tuple[str, bool]]) -> None:
    import tempfile

    async def play(folder: Path) -> None:
        async with opened(folder) as store:
            for name, firing in steps:
                signal = Signal("person", name, name, firing=firing)
                taken = await store.incidents.take(signal, 60, ())
                assert bool(taken.incident) or not firing
            last = dict(steps)
            firing_now = [
                signal.fingerprint
                for one in await store.incidents.incidents()
                for signal in await store.incidents.firing(one.id)
            ]
            assert sorted(firing_now) == sorted(name for name, firing in last.items() if firing)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
