"""Notices are sent once, tried again while they do not arrive, and given up aloud."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import (
    NEVER,
    Diagnosis,
    Hypothesis,
    Incident,
    Notice,
    Signal,
    TimelineEntry,
)
from hermes_agent.core.supervise import backoff
from hermes_agent.incidents import notifications
from hermes_agent.incidents.notifications import (
    FIRST_SECONDS,
    MAX_SECONDS,
    TRIES,
    IncidentNotifications,
    NoticeLog,
    NoticeWebhook,
    SendNotice,
)
from tests.store.helpers import Clock
from tests.support.incident_store import Post, post
from tests.support.model_server import ModelServer, Raw

WEB = Signal("check", "check:web", "web does not answer", service="web")


def ledger(here: Post, **ways: SendNotice) -> IncidentNotifications:
    return IncidentNotifications(
        here.store, ways, notices=here.notices, clock=here.clock, random=lambda: 0.5
    )  # fmt: skip


def ways(folder: Path, told: list[Notice]) -> Mapping[str, SendNotice]:
    return {"log": NoticeLog(folder / "notices.log").send, "terminal": into(told)}


def into(told: list[Notice]) -> SendNotice:
    async def send(notice: Notice, _incident: Incident) -> None:
        told.append(notice)

    return send


async def test_what_is_due_is_sent_once(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        told: list[Notice] = []
        notices = ledger(here, **ways(tmp_path, told))
        await here.raise_signal(WEB)
        for _ in range(3):
            await notices.send_due()
        head = "P2 DECLARED: web does not answer, since Mon 13:46 UTC [inc-1]"
        assert [one.text.splitlines()[0] for one in told] == [head]
        (line,) = (tmp_path / "notices.log").read_text().splitlines()
        assert line.startswith(f"[inc-1/declared/1] {head} |   source: check | ")
        assert all(one.sent is not None for one in await here.store.notices())


async def test_a_line_that_was_written_before_a_crash_is_not_written_again(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        await here.raise_signal(WEB)
        notice = next(one for one in await here.store.notices() if one.channel == "log")
        incident = await here.store.incident("inc-1")
        log = NoticeLog(tmp_path / "a" / "notices.log")
        await log.send(notice, incident)
        with (tmp_path / "a" / "notices.log").open("ab") as file:
            file.write(b"[inc-2/declared/1] half a li")
        await log.send(notice, incident)
        assert (tmp_path / "a" / "notices.log").read_text().count("inc-1/declared/1") == 1


async def test_what_does_not_arrive_is_tried_later_and_keeps_no_other_from_being_told(
    tmp_path: Path,
) -> None:
    async with post(tmp_path) as here:
        here.webhook = "set"
        told: list[Notice] = []
        notices = ledger(here, webhook=_broken, **ways(tmp_path, told))
        await here.raise_signal(WEB)
        await notices.send_due()
        assert len(told) == 1
        (left,) = [one for one in await here.store.notices() if one.sent is None]
        assert (left.channel, left.attempts, left.error) == ("webhook", 1, "no way")
        assert left.due == here.clock.now + 2.0
        await notices.send_due()
        assert [one.attempts for one in await here.store.notices()] == [1, 1, 1]
        here.clock.now += 2.0
        await notices.send_due()
        assert max(one.attempts for one in await here.store.notices()) == 2


async def test_the_end_is_never_told_before_the_beginning(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        here.webhook = "set"
        told: list[Notice] = []
        await here.raise_signal(WEB)
        await ledger(here, webhook=_broken, **ways(tmp_path, [])).send_due()
        incident = await here.store.incident("inc-1")
        end = here.notices(incident, "resolved", 1, "resolved: inc-1")
        await here.store.change("inc-1", [("resolved", "it is over", {})], end, state="resolved")
        notices = ledger(here, webhook=into(told), **ways(tmp_path, []))
        await notices.send_due()
        assert told == [], "the first one is not due yet"
        here.clock.now += 2.0
        await notices.send_due()
        assert [one.kind for one in told] == ["declared", "resolved"]


async def test_the_log_is_begun_anew_when_it_is_large(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        path = tmp_path / "notices.log"
        log = NoticeLog(path, most=100)
        for number in range(1, 7):
            await here.raise_signal(
                replace(WEB, fingerprint=f"check:{number}", service=f"s{number}")
            )
            id = f"inc-{number}"
            (notice,) = [
                one for one in await here.store.notices(incident=id) if one.channel == "log"
            ]
            for _ in range(2):
                await log.send(notice, await here.store.incident(id))
        kept = path.with_name("notices.log.1").read_text() + path.read_text()
        assert sorted(one.name for one in tmp_path.glob("notices.log*")) == [
            "notices.log", "notices.log.1",
        ]  # fmt: skip
        assert (kept.count("inc-5/declared/1"), kept.count("inc-6/declared/1")) == (1, 1)
        assert "inc-1/" not in kept


async def test_the_runtime_is_needed_while_something_is_left_to_be_told(tmp_path: Path) -> None:
    async with post(tmp_path) as here:
        here.webhook = "set"
        notices = ledger(here, webhook=_broken, **ways(tmp_path, []))
        await here.raise_signal(WEB)
        await notices._round()
        assert notices.unsent
        told: list[Notice] = []
        whole = ledger(here, webhook=into(told), **ways(tmp_path, told))
        here.clock.now += 2.0
        await whole._round()
        assert not whole.unsent


async def test_it_is_given_up_aloud_after_many_tries(tmp_path: Path) -> None:
    clock = Clock()
    async with post(tmp_path, clock) as here:
        here.webhook = "set"
        notices = ledger(here, webhook=_broken, **ways(tmp_path, []))
        await here.raise_signal(WEB)
        for _ in range(TRIES + 2):
            await notices.send_due()
            clock.now += 2_000.0
        (dead,) = [one for one in await here.store.notices() if one.sent is None]
        assert (dead.attempts, dead.due) == (TRIES, NEVER)
        assert notices.dead == ["declared of inc-1 on webhook: no way"]
        again = ledger(here)
        await again._round()
        assert again.dead == notices.dead


@pytest.mark.parametrize("status", [404, 410])
async def test_a_webhook_that_nobody_takes_is_not_tried_again(tmp_path: Path, status: int) -> None:
    with ModelServer(lambda _received: Raw([b"no"], status)) as server:
        clock = Clock()
        async with post(tmp_path, clock) as here:
            here.webhook = f"{server.root}/hook"
            hook = NoticeWebhook(lambda: here.webhook).send
            notices = ledger(here, webhook=hook, **ways(tmp_path, []))
            await here.raise_signal(WEB)
            for _ in range(3):
                await notices.send_due()
                clock.now += 2_000.0
            assert len(server.requests) == 1
            (dead,) = notices.dead
            assert f"declared of inc-1 on webhook: the webhook answered {status}" in dead


async def _broken(_notice: Notice, _incident: Incident) -> None:
    raise HermesError("no way")


async def test_progress_is_told_once_a_minute_while_it_is_open(tmp_path: Path) -> None:
    clock = Clock(1_000.0)
    async with post(tmp_path, clock) as here:
        notices = ledger(here)
        await here.raise_signal(WEB)
        guess = Hypothesis("h1", "the disk is full", confidence=0.7)
        wrong = Hypothesis("h2", "the network", confidence=0.9, state="refuted")
        await here.store.change(
            "inc-1", [("hypothesis", guess.claim, {})], state="investigating",
            hypotheses=(guess, wrong),
        )  # fmt: skip
        for seconds in (30, 29, 1, 5, 54, 1, 600):
            clock.now += seconds
            await notices.notify_progress()
        told = [one for one in await here.store.notices() if one.kind == "progress"]
        assert [(one.number, one.channel) for one in told if one.channel == "log"] == [
            (1, "log"), (2, "log"), (12, "log")
        ]  # fmt: skip
        assert told[0].text.splitlines() == [
            "P2 ONGOING for 1 min: web does not answer [inc-1]",
            "  state: investigating",
            "  last: the disk is full",
            "  likely cause: the disk is full (70%)",
            "  signals: 1",
        ]
        assert notices.open == 1
        await here.store.change("inc-1", [], state="resolved")
        clock.now += 120
        assert not await notices.notify_progress()
        assert notices.open == 0


async def test_a_webhook_gets_json_with_a_key_of_its_own() -> None:
    answers = [Raw([b"busy"], 503), Raw([b"ok"], 200)]
    with ModelServer(lambda _received: answers.pop(0)) as server:
        channel = NoticeWebhook(lambda: f"{server.root}/hook")
        notice = Notice(7, "inc-1", "resolved", 1, "webhook", "resolved: …", 5.0)
        incident = Incident(
            "inc-1", "t", "P1", "resolved", "check", "f", "web", opened=10.0, ended=70.0,
            diagnosis=Diagnosis("web", "disk-full"),
        )  # fmt: skip
        with pytest.raises(HermesError, match="answered 503"):
            await channel.send(notice, incident)
        await channel.send(notice, incident)
        first, second = server.requests
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert second.json["key"] == "inc-1/resolved/1"
        assert (second.json["seconds"], second.json["severity"]) == (60.0, "P1")
        assert second.json["diagnosis"]["category"] == "disk-full"


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:1/x", "nonsense", "http://[::1", "\x00"])
async def test_a_webhook_that_is_not_there_is_a_sentence(address: str) -> None:
    notice = Notice(7, "inc-1", "declared", 1, "webhook", "x", 5.0)
    incident = Incident("inc-1", "t", "P1", "declared", "check", "f")
    with pytest.raises(HermesError):
        await NoticeWebhook(lambda: address).send(notice, incident)


@settings(deadline=None)
@given(st.integers(0, 60), st.floats(0, 1))
def test_waiting_grows_and_stays_in_bounds(attempts: int, chance: float) -> None:
    wait = backoff(attempts + 1, FIRST_SECONDS, MAX_SECONDS, lambda: chance)
    assert 1.0 <= wait < 1_441.0
    assert wait <= backoff(attempts + 3, FIRST_SECONDS, MAX_SECONDS, lambda: chance)


def test_every_notice_says_what_it_is_about() -> None:
    incident = Incident(
        "inc-3", "shop is slow", "P1", "escalated", "grafana", "f", "shop", "ann", opened=0.0,
        ended=3_700.0, diagnosis=Diagnosis("db", "slow-dependency", "query 7", "a " * 300),
    )  # fmt: skip
    heads = {
        "P1 DECLARED: shop is slow, since Sun 09:12 UTC [inc-3]": notifications.declared_text(
            incident, Signal("grafana", "f", "shop is slow", since=1_794_733_953.0)
        ),
        "P1 RESOLVED after 1 h 1 min: shop is slow [inc-3]": notifications.resolved_text(incident),
        "P1 NEEDS A PERSON: shop is slow, since Thu 00:00 UTC [inc-3]": (
            notifications.escalated_text(replace(incident, opened=86_400 * 7), "more disks")
        ),
        "P1 CLOSED: shop is slow [inc-3]": notifications.closed_text(incident, "planned"),
        "drill: P3 RESOLVED: t (db) [inc-4]": notifications.resolved_text(
            Incident("inc-4", "t", "P3", "resolved", "drill", "f", "db")
        ),
    }
    assert list(heads) == [text.splitlines()[0] for text in heads.values()]
    assert "needed: more disks" in notifications.escalated_text(incident, "more disks")
    assert "likely cause: db: slow-dependency" in notifications.escalated_text(incident)
    assert "cause: " not in notifications.ceased_text(incident)
    assert "why: planned" in notifications.closed_text(incident, "planned")
    assert len(notifications.resolved_text(incident)) < 600
    unknown = Incident("inc-4", "t", "P3", "resolved", "check", "f")
    assert "cause: unknown" in notifications.resolved_text(unknown)
    guessed = replace(incident, diagnosis=Diagnosis("db", "unknown"))
    assert "  cause: unknown, in db\n" in notifications.escalated_text(guessed)
    entry = TimelineEntry("inc-4", 1, 0.0, "action", "restarted it")
    assert "last: restarted it" in notifications.progress_text(unknown, entry, 5.0)
