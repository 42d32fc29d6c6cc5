"""What arrived is dealt with in order in each chat; what fails holds up nobody else."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.core.gateway import ArrivedState, Chat, InboundMessage, InboxEntry, Person
from hermes_agent.core.messages import Media
from hermes_agent.gateway.inbound import inbox as inboxes
from hermes_agent.gateway.inbound.inbox import TRIES, Inbox, storable
from hermes_agent.store.gateway import inbox
from hermes_agent.store.store import Store
from tests.store.helpers import opened
from tests.support.fake_time import MovedTime, settled, until
from tests.support.patience import PATIENCE


class Desk:
    """Deals with rows, and fails as told."""

    def __init__(self, store: Store, time: MovedTime, most_bytes: int) -> None:
        self.ledger = store.gateway
        self.time = time
        self.dealt: list[tuple[str, str]] = []
        self.failing: dict[str, list[BaseException]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.inbox = Inbox(
            store.gateway, self.handle, sleep=time.sleep, random=lambda: 0.5, most_bytes=most_bytes
        )

    async def handle(self, kept: InboxEntry) -> tuple[ArrivedState, str]:
        await self.gate.wait()
        text = kept.arrived.text
        if failures := self.failing.get(text):
            raise failures.pop(0)
        self.dealt.append((kept.arrived.chat.chat, text))
        return ("ignored", "a stranger") if text == "strange" else ("done", "")

    async def brings(self, chat: str, *texts: str) -> None:
        for text in texts:
            await self.ledger.add_inbound(
                InboundMessage(text, Chat("loop", chat), Person("p"), text)
            )
        self.inbox.wake()

    async def has_dealt(self, count: int) -> None:
        await until(lambda: len(self.dealt) >= count, f"{count}: {self.dealt}")


@asynccontextmanager
async def desk(folder: Path, most_bytes: int = inboxes.MAX_BYTES) -> AsyncIterator[Desk]:
    time = MovedTime()
    async with opened(folder, clock=time) as store:
        made = Desk(store, time, most_bytes)
        dealing = asyncio.create_task(made.inbox.run())
        try:
            yield made
        finally:
            dealing.cancel()
            await asyncio.gather(dealing, return_exceptions=True)


async def gone(one: Desk) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while await one.ledger.new():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)


async def test_many_chats_each_in_its_order(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        order = [(f"c{chat}", f"c{chat}-{n}") for n in range(20) for chat in range(15)]
        for chat, text in order:
            await one.brings(chat, text)
        await one.has_dealt(300)
        for chat in {chat for chat, _ in order}:
            texts = [text for place, text in one.dealt if place == chat]
            assert texts == [f"{chat}-{n}" for n in range(20)]
        await gone(one)


async def test_more_than_fits_in_memory_is_dealt_with_too(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.gate.clear()
        count = inboxes.MAX_IN_MEMORY + 300
        arriving = [
            one.ledger.add_inbound(
                InboundMessage(f"{n:04}", Chat("loop", "c"), Person("p"), f"{n:04}")
            )
            for n in range(count)
        ]
        await asyncio.gather(*arriving)
        one.inbox.wake()
        one.gate.set()
        await one.has_dealt(count)
        assert [text for _, text in one.dealt] == sorted(text for _, text in one.dealt)


async def test_no_more_bytes_are_in_memory_than_fit(tmp_path: Path) -> None:
    async with desk(tmp_path, most_bytes=3_000_000) as one:
        one.gate.clear()
        for number in range(45):
            memo = Media("audio/ogg", bytes([number]) * 1_000_000, "memo.ogg")
            await one.ledger.add_inbound(
                InboundMessage(
                    f"m{number}", Chat("loop", "c"), Person("p"), f"{number:03}", voice=(memo,)
                )
            )
        one.inbox.wake()
        await until(lambda: one.inbox.held[0] and one.time.sleepers, "it to rest")
        rows, size = one.inbox.held
        assert rows < 45
        assert size <= 3_000_000 + inbox.MAX_BYTES
        one.gate.set()
        await one.has_dealt(45)
        assert [text for _, text in one.dealt] == [f"{number:03}" for number in range(45)]
        await until(lambda: one.inbox.held == (0, 0))


async def test_a_handling_that_is_broken_off_leaves_no_chat_deaf(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.failing["a1"] = [asyncio.CancelledError()]
        await one.brings("a", "a1", "a2")
        await until(lambda: one.time.sleepers > 1)
        await settled()
        await one.time.move(2.0)
        await one.has_dealt(2)
        assert one.dealt == [("a", "a1"), ("a", "a2")]


async def test_a_failure_is_tried_again_and_holds_up_its_own_chat_alone(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.failing["a1"] = [HermesError("not now"), ValueError("a bug")]
        await one.brings("a", "a1", "a2")
        await one.brings("b", "b1")
        await one.has_dealt(1)
        assert one.dealt == [("b", "b1")]
        for seconds in (2.0, 4.0):
            await until(lambda: one.time.sleepers > 1)
            await settled()
            await one.time.move(seconds)
        await one.has_dealt(3)
        assert one.dealt[1:] == [("a", "a1"), ("a", "a2")]


async def test_what_always_fails_is_set_aside_shown_and_dealt_with_when_asked(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as one:
        one.failing["bad"] = [HermesError("no such thing")] * TRIES
        await one.brings("a", "bad", "good")
        while not one.dealt:
            await asyncio.sleep(0.005)
            await one.time.move(150.0)
        assert one.dealt == [("a", "good")]
        (aside,) = await one.ledger.dead_letters()
        assert (aside.tries, aside.why) == (TRIES, "no such thing")
        one.inbox.add(await one.ledger.retry_dead_letter(aside.number))
        await one.has_dealt(2)
        assert one.dealt[1] == ("a", "bad")
        await gone(one)


async def test_trouble_of_the_runtime_itself_never_sets_a_message_aside(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.failing["a1"] = [Degraded("the disk is full", "free some")] * (TRIES * 3)
        await one.brings("a", "a1")
        while not one.dealt:
            await asyncio.sleep(0.005)
            await one.time.move(150.0)
        assert await one.ledger.dead_letters() == []


async def test_what_was_not_dealt_with_before_a_death_is_dealt_with_after_it(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as one:
        one.gate.clear()
        await one.brings("a", "a1", "a2", "strange")
    async with desk(tmp_path) as two:
        await two.has_dealt(3)
        assert [text for _, text in two.dealt] == ["a1", "a2", "strange"]
        await gone(two)


async def test_whatever_a_platform_sends_can_be_kept(tmp_path: Path) -> None:
    chance = random.Random(7)
    odd = ["\ud800", "a\x00b", "\udfff\ud800", "\U0001f600", "", "\u202e", "x" * 100_000]
    async with opened(tmp_path) as store:
        for number in range(200):
            pick = lambda: chance.choice(odd)  # noqa: E731
            arrived = InboundMessage(
                f"{number}{pick()}",
                Chat("loop", pick(), pick()),
                Person(pick(), pick()),
                pick(),
                files=(Media(pick(), b"\xff", pick()),),
                time=chance.choice([float("nan"), float("inf"), -1.0]),
            )
            assert await store.gateway.add_inbound(storable(arrived)) is not None
        kept = [one.arrived for one in await store.gateway.new(1_000)]
        assert len(kept) == 200
        assert any("\\ud800" in one.text for one in kept)
