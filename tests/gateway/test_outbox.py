"""The sender: order in each chat, the platform's limits, and nothing forgotten."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.gateway import Chat, NewDelivery, OutboundMessage, OutboxEntry
from hermes_agent.gateway.channel import Manifest, SendError
from hermes_agent.gateway.delivery.outbox import ATTEMPTS, Outbox
from hermes_agent.store.store import Store
from tests.store.helpers import opened
from tests.support.fake_time import MovedTime, settled, until
from tests.support.loop_channel import manifest
from tests.support.patience import PATIENCE

HERE = Chat("loop", "here")
THERE = Chat("loop", "there")

Answer = Callable[[OutboundMessage, str], str]


class Wire:
    """A channel that keeps what is sent, and does what the test says first."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.whole: list[OutboundMessage] = []
        self.answer: Callable[[OutboundMessage], None] = lambda _outgoing: None
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        await self.gate.wait()
        self.keys.append(key)
        self.answer(outgoing)
        self.sent.append((outgoing.chat.chat, outgoing.text))
        self.whole.append(outgoing)
        return f"r{len(self.sent)}"

    async def run(self) -> None: ...
    async def typing(self, chat: Chat) -> None: ...
    async def probe(self) -> None: ...
    async def close(self) -> None: ...


class Post:
    """A store, a wire and a sender between them, in moved time."""

    def __init__(self, store: Store, time: MovedTime, described: Manifest) -> None:
        self.ledger = store.gateway
        self.time = time
        self.wire: Wire = Wire()
        self.sending: asyncio.Task[None]
        self.up = True
        self.well = True
        self.bugs: list[Exception] = []
        """What breaks within the sender itself."""
        self.outbox = Outbox(
            described,
            store.gateway,
            lambda: self.wire if self.up else None,
            is_healthy=lambda: self.well,
            clock=time,
            sleep=time.sleep,
            random=lambda: 0.5,
            on_sent=self._on_sent,
        )

    def _on_sent(self, _now: float) -> None:
        if self.bugs:
            raise self.bugs.pop()

    async def put(self, *texts: str, chat: Chat = HERE, **more: Any) -> None:
        count = len(await self.ledger.deliveries())
        rows = [
            NewDelivery(f"k{count + at}", OutboundMessage(chat, text, **more))
            for at, text in enumerate(texts)
        ]
        await self.ledger.enqueue(*rows)
        self.outbox.wake()

    async def states(self) -> list[str]:
        return [one.state for one in reversed(await self.ledger.deliveries())]

    async def settles(self) -> None:
        while "sending" in await self.states():
            await asyncio.sleep(0.002)

    async def reaches(self, count: int) -> None:
        await until(lambda: len(self.wire.sent) >= count, f"{count} messages: {self.wire.sent}")

    async def becomes(self, *states: str) -> Sequence[OutboxEntry]:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            rows = (await self.ledger.deliveries())[::-1]
            if (now := [row.state for row in rows]) == list(states):
                return rows
            assert asyncio.get_running_loop().time() < deadline, now
            await asyncio.sleep(0.005)


@asynccontextmanager
async def post(folder: Path, **about: Any) -> AsyncIterator[Post]:
    time = MovedTime()
    async with opened(folder, clock=time) as store:
        made = Post(store, time, manifest("loop", **about))
        made.sending = asyncio.create_task(made.outbox.run())
        try:
            yield made
        finally:
            made.sending.cancel()
            await asyncio.gather(made.sending, return_exceptions=True)


async def test_order_is_kept_in_a_chat_and_chats_do_not_wait_for_each_other(
    tmp_path: Path,
) -> None:
    async with post(tmp_path) as one:
        first = iter([SendError("busy")])

        def fail_once(outgoing: OutboundMessage) -> None:
            if outgoing.text == "a1" and (error := next(first, None)):
                raise error

        one.wire.answer = fail_once
        await one.put("a1", "a2", "a3")
        await one.put("b1", "b2", chat=THERE)
        await one.reaches(2)
        await until(lambda: "k0" in one.wire.keys)
        assert one.wire.sent == [("there", "b1"), ("there", "b2")]
        await one.becomes("waiting", "waiting", "waiting", "sent", "sent")
        await one.time.move(2.0)
        await one.reaches(5)
        assert one.wire.sent[2:] == [("here", "a1"), ("here", "a2"), ("here", "a3")]
        await one.becomes("sent", "sent", "sent", "sent", "sent")


async def test_a_chat_waits_as_long_as_the_platform_asks_and_no_attempt_is_burnt(
    tmp_path: Path,
) -> None:
    async with post(tmp_path) as one:
        asked = iter([SendError("slow down", after=30.0)] * 3)

        def slow(outgoing: OutboundMessage) -> None:
            if error := next(asked, None):
                raise error

        one.wire.answer = slow
        await one.put("a1")
        for tried in range(1, 4):
            await until(lambda tried=tried: len(one.wire.keys) == tried)
            await one.becomes("waiting")
            await one.time.move(29.0)
            assert len(one.wire.keys) == tried
            await one.time.move(1.0)
        await one.reaches(1)
        await one.becomes("sent")
        (row,) = await one.ledger.deliveries()
        assert row.attempts == 1
        assert set(one.wire.keys) == {"k0"}


async def test_one_chat_gets_no_more_a_second_than_it_bears(tmp_path: Path) -> None:
    async with post(tmp_path, per_second=2.0) as one:
        await one.put("a1", "a2", "a3")
        await one.reaches(1)
        for count in (2, 3):
            await one.becomes(*["sent"] * (count - 1), *["waiting"] * (4 - count))
            await one.time.move(0.4)
            assert len(one.wire.sent) == count - 1
            await one.time.move(0.2)
            await one.reaches(count)


async def test_an_outage_of_days_loses_nothing_and_burns_no_attempts(tmp_path: Path) -> None:
    async with post(tmp_path) as one:

        def unreachable(_outgoing: OutboundMessage) -> None:
            raise SendError("unreachable", channel=True)

        one.wire.answer = unreachable
        await one.put("a1", "a2")
        await one.put("b1", chat=THERE)
        for tried in range(20):
            await until(lambda tried=tried: len(one.wire.keys) > tried)
            await one.becomes("waiting", "waiting", "waiting")
            await one.time.move(86_400 / 4)
        rows = await one.becomes("waiting", "waiting", "waiting")
        assert {row.attempts for row in rows} == {0}
        one.wire.answer = lambda _outgoing: None
        one.outbox.resume()
        await one.reaches(3)
        assert [text for chat, text in one.wire.sent if chat == "here"] == ["a1", "a2"]
        await one.becomes("sent", "sent", "sent")


async def test_while_the_channel_is_deaf_failures_do_not_count(tmp_path: Path) -> None:
    async with post(tmp_path) as one:

        def breaks(_outgoing: OutboundMessage) -> None:
            raise SendError("500")

        one.wire.answer = breaks
        one.well = False
        await one.put("a1")
        for tried in range(1, ATTEMPTS + 3):
            await until(lambda tried=tried: len(one.wire.keys) >= tried)
            await one.becomes("waiting")
            await one.time.move(700.0)
        assert [row.state for row in await one.ledger.deliveries()] == ["waiting"]


async def test_what_fails_again_and_again_is_given_up_and_the_next_goes(tmp_path: Path) -> None:
    async with post(tmp_path) as one:

        def refuses_one(outgoing: OutboundMessage) -> None:
            if outgoing.text == "bad":
                raise SendError("500")

        one.wire.answer = refuses_one
        await one.put("bad", "good")
        for tried in range(1, ATTEMPTS + 1):
            await until(lambda tried=tried: len(one.wire.keys) >= tried)
            await one.settles()
            await one.time.move(700.0)
        await one.reaches(1)
        await one.becomes("dead", "sent")
        assert one.wire.sent == [("here", "good")]
        one.wire.answer = lambda _outgoing: None
        dead = (await one.ledger.deliveries(state="dead"))[0]
        await one.ledger.again(dead.id, one.time())
        one.outbox.wake()
        await one.becomes("sent", "sent")


async def test_a_clock_that_is_set_back_does_not_lengthen_a_pause(tmp_path: Path) -> None:
    async with post(tmp_path) as one:
        one.time.now += 90_000.0
        troubles = [SendError("away", channel=True)]

        def answer(_outgoing: OutboundMessage) -> None:
            if troubles:
                raise troubles.pop()

        one.wire.answer = answer
        await one.put("a")
        await until(lambda: one.outbox.paused_until)
        one.time.now -= 90_000.0
        one.outbox.wake()
        await until(lambda: one.wire.sent)
        assert one.wire.sent == [("here", "a")]


async def test_what_is_refused_for_good_is_dead_at_once(tmp_path: Path) -> None:
    async with post(tmp_path) as one:

        def gone(outgoing: OutboundMessage) -> None:
            if outgoing.text == "bad":
                raise SendError("no such chat", again=False)

        one.wire.answer = gone
        await one.put("bad", "good")
        await one.becomes("dead", "sent")
        (dead,) = await one.ledger.deliveries(state="dead")
        assert (dead.error, dead.attempts) == ("no such chat", 1)


async def test_an_edit_that_is_refused_is_said_anew(tmp_path: Path) -> None:
    async with post(tmp_path) as one:

        def no_edits(outgoing: OutboundMessage) -> None:
            if outgoing.edit:
                raise SendError("too old to be edited", again=False)

        one.wire.answer = no_edits
        await one.put("final", edit="m7")
        await one.becomes("sent")
        assert [(out.text, out.edit) for out in one.wire.whole] == [("final", "")]


async def test_what_breaks_unexpectedly_is_tried_again_and_marked_doubtful(tmp_path: Path) -> None:
    async with post(tmp_path, knows_twice=False) as one:
        failing = iter([ValueError("what is this")])

        def breaks_once(_outgoing: OutboundMessage) -> None:
            if error := next(failing, None):
                raise error

        one.wire.answer = breaks_once
        await one.put("a")
        await until(lambda: one.wire.keys)
        await one.becomes("waiting")
        await one.time.move(2.0)
        await one.becomes("sent")
        (row,) = await one.ledger.deliveries()
        assert row.doubtful


@pytest.mark.parametrize("knows", [True, False])
async def test_an_attempt_cut_by_a_death_is_made_again_with_its_key(
    tmp_path: Path, knows: bool
) -> None:
    async with opened(tmp_path) as store:
        (row,) = await store.gateway.enqueue(NewDelivery("k0", OutboundMessage(HERE, "a")))
        assert await store.gateway.sending(row.id, 0)
    async with post(tmp_path, knows_twice=knows) as one:
        one.time.now = row.created + 1
        one.outbox.wake()
        await one.becomes("sent")
        (sent,) = await one.ledger.deliveries()
        assert (one.wire.keys, sent.attempts, sent.doubtful) == (["k0"], 2, not knows)


@pytest.mark.parametrize(("after", "doubtful"), [(100.0, False), (130.0, True)])
async def test_a_platform_that_knows_a_key_for_minutes_is_believed_for_minutes(
    tmp_path: Path, after: float, doubtful: bool
) -> None:
    async with post(tmp_path, knows_for=120.0) as one:
        one.time.now += 10.0

        def lost(_outgoing: OutboundMessage) -> None:
            one.up = False
            raise SendError("the answer got lost", doubtful=True)

        one.wire.answer = lost
        await one.put("a")
        await until(lambda: one.wire.keys)
        await one.becomes("waiting")
        (row,) = await one.ledger.deliveries()
        assert (row.unsure, row.doubtful) == (one.time.now, False)
        await one.time.move(after)
        one.wire.answer, one.up = lambda _outgoing: None, True
        one.outbox.resume()
        await one.becomes("sent")
        (row,) = await one.ledger.deliveries()
        assert row.doubtful == doubtful


@pytest.mark.parametrize(("after", "doubtful"), [(100.0, False), (130.0, True)])
async def test_an_attempt_cut_long_ago_is_doubtful_where_the_platform_forgets(
    tmp_path: Path, after: float, doubtful: bool
) -> None:
    clock = MovedTime()
    async with opened(tmp_path, clock=clock) as store:
        (row,) = await store.gateway.enqueue(NewDelivery("k0", OutboundMessage(HERE, "a")))
        assert await store.gateway.sending(row.id, 0)
    async with post(tmp_path, knows_for=120.0) as one:
        one.time.now = clock.now + after
        one.outbox.wake()
        await one.becomes("sent")
        (sent,) = await one.ledger.deliveries()
        assert sent.doubtful == doubtful


async def test_a_sender_that_breaks_waits_and_holds_up_its_chat_alone(tmp_path: Path) -> None:
    async with post(tmp_path) as one:
        one.bugs.append(RuntimeError("a bug"))
        await one.put("a")
        await one.reaches(1)
        await one.put("b", chat=THERE)
        await one.reaches(2)
        assert one.wire.keys == ["k0", "k1"]
        await one.time.move(299.0)
        assert one.wire.keys == ["k0", "k1"]
        await one.time.move(10.0)
        await one.becomes("sent", "sent")
        assert one.wire.keys == ["k0", "k1", "k0"]


async def test_what_is_being_sent_at_the_end_is_sent(tmp_path: Path) -> None:
    async with post(tmp_path, knows_twice=False) as one:
        one.wire.gate.clear()
        await one.put("a")
        await one.becomes("sending")
        one.sending.cancel()
        await settled()
        assert not one.sending.done()
        one.wire.gate.set()
        await asyncio.gather(one.sending, return_exceptions=True)
    async with opened(tmp_path) as store:
        (row,) = await store.gateway.deliveries()
        assert (row.state, row.receipt, row.doubtful) == ("sent", "r1", False)


async def test_what_is_too_long_goes_in_parts_that_are_not_sent_twice(tmp_path: Path) -> None:
    text = "\n\n".join(f"paragraph {number} " + "word " * 10 for number in range(12))
    async with post(tmp_path, longest=200) as one:
        failing = iter([None, None, SendError("busy")])

        def fails_in_the_middle(_outgoing: OutboundMessage) -> None:
            if error := next(failing, None):
                raise error

        one.wire.answer = fails_in_the_middle
        await one.put(text, "next", reply_to="m1")
        await until(lambda: len(one.wire.keys) == 3)
        await one.becomes("waiting", "waiting")
        await one.time.move(5.0)
        await one.becomes("sent", "sent")
        *parts, last = [outgoing.text for outgoing in one.wire.whole]
        assert last == "next"
        assert all(len(part) <= 200 for part in parts)
        assert [f"paragraph {n} " in "".join(parts) for n in range(12)] == [True] * 12
        assert len(parts) == len(set(parts)) > 5
        assert [out.reply_to for out in one.wire.whole[:3]] == ["m1", "", ""]
        assert len(set(one.wire.keys)) == len(parts) + 1


async def test_nothing_is_sent_while_there_is_no_channel(tmp_path: Path) -> None:
    async with post(tmp_path) as one:
        one.up = False
        await one.put("a")
        await one.time.move(3_600.0)
        assert one.wire.keys == []
        one.up = True
        one.outbox.resume()
        await one.becomes("sent")
