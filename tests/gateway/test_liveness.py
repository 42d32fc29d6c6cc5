"""A channel that is connected but hears nothing is found, begun again, and announced elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import ChannelHealth, InboundMessage
from hermes_agent.core.settings.root import GatewaySettings
from hermes_agent.gateway.channel import Channel, ChannelContext, CredentialsRejected
from hermes_agent.gateway.supervision.connection import REFUSED_SECONDS, ChannelConnection
from hermes_agent.gateway.supervision.health import Liveness, in_words
from hermes_agent.store.gateway.store import GatewayStore
from hermes_agent.store.store import Store
from tests.store.helpers import opened
from tests.support.fake_time import MovedTime, settled
from tests.support.loop_channel import LoopChannel, make
from tests.support.loop_platform import LoopPlatform
from tests.support.patience import PATIENCE

INTERVAL = 60.0


class Watched:
    """A ledger that knows whether somebody waits for it."""

    def __init__(self, ledger: GatewayStore) -> None:
        self._ledger = ledger
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)

        async def ask(*given: Any) -> Any:
            self.asked += 1
            try:
                return await method(*given)
            finally:
                self.asked -= 1

        return ask


class Bench:
    """A line to a platform on this machine and its watcher, in moved time."""

    def __init__(self, store: Store, platform: LoopPlatform, time: MovedTime) -> None:
        self.store = store
        self.ledger: Any = Watched(store.gateway)
        self.platform = platform
        self.time = time
        self.settings = GatewaySettings(probe_seconds=INTERVAL, restarts=1)
        self.announced: list[tuple[str, str]] = []
        self.lives = 0
        self.line = ChannelConnection(
            "loop", self._make, monotonic=time, sleep=time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        self.liveness = Liveness(
            self.line, "Loop", self.ledger, lambda: self.settings, self._announce,
            clock=time, sleep=time.sleep, random=lambda: 1.0,
        )  # fmt: skip

    def _make(self) -> Channel:
        self.lives += 1
        return make(self.platform.settings("loop"), self.around())

    def around(self) -> ChannelContext:
        async def receive(arrived: InboundMessage, mark: str) -> None:
            await self.ledger.add_inbound(arrived, mark)

        return ChannelContext(
            receive, lambda: self.ledger.mark("loop"),
            lambda mark: self.ledger.save_cursor("loop", mark),
            lambda name: name, self.time, self.time.sleep,
        )  # fmt: skip

    async def _announce(self, channel: str, key: str, text: str) -> Sequence[str]:
        assert channel == "loop"
        self.announced.append((key, text))
        self.lives_then = self.lives
        return ["other"]

    @property
    def proof(self) -> ChannelHealth:
        return self.liveness.proof

    async def reaches(self, met: Any, what: str) -> float:
        """Let time go by in small steps, as long as it takes; says how much. It stands still while
        the store is waited for: a slow disk is no slow platform."""
        began = self.time.now
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not met():
            assert asyncio.get_running_loop().time() < deadline, what
            await asyncio.sleep(0.002)
            if not self.ledger.asked:
                await self.time.move(1.0)
                await settled()
        return self.time.now - began


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    time = MovedTime()
    async with LoopPlatform() as platform, opened(folder, clock=time) as store:
        made = Bench(store, platform, time)
        tasks = [
            asyncio.create_task(made.line.run()),
            asyncio.create_task(made.liveness.run()),
        ]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def kept_proof(one: Bench) -> ChannelHealth:
    while (kept := (await one.store.gateway.proofs()).get("loop")) != one.proof:
        await asyncio.sleep(0.005)
    assert kept is not None
    return kept


async def proven(one: Bench, since: float = 0.0) -> None:
    await one.reaches(lambda: (one.proof.proven or 0.0) > since, "the first proof")


async def test_a_channel_that_hears_is_proven_and_the_proof_is_kept(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        assert one.line.state == "up"
        kept = await kept_proof(one)
        assert (kept.proven, kept.failures, kept.error) == (one.proof.proven, 0, "")
        assert one.liveness.is_healthy
        now = (one.proof.proven or 0.0) + 40
        assert in_words(one.proof, now) == "last verified 40 s ago"


async def test_one_that_is_connected_and_silent_is_found_within_two_intervals(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        one.platform.deaf.add("loop")
        lives = one.lives
        took = await one.reaches(lambda: one.lives > lives, "the restart")
        assert took <= 2 * INTERVAL
        assert one.announced == []
        one.platform.deaf.clear()
        await proven(one, one.time.now)
        assert (one.proof.failures, one.proof.restarts, one.announced) == (0, 0, [])


async def test_where_a_restart_does_not_help_it_is_announced_once_and_again_when_well(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        one.platform.deaf.add("loop")
        await one.reaches(lambda: one.announced, "the announcement")
        assert one.lives_then == 2
        await one.reaches(lambda: one.lives > 4, "more restarts")
        ((key, text),) = one.announced
        assert "Loop is not receiving messages" in text
        assert not one.liveness.is_healthy
        assert "failed" in in_words(one.proof, one.time.now)
        assert (await kept_proof(one)).announced
        one.platform.deaf.clear()
        await proven(one, one.time.now)
        assert [said for _, said in one.announced[1:]] == ["Loop is receiving messages again."]
        assert one.announced[1][0] != key
        assert not one.proof.announced


async def test_what_came_while_it_was_deaf_is_heard_after_the_restart(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        one.platform.deaf.add("loop")
        one.platform.say("loop", "c", "hello?")
        lives = one.lives
        await one.reaches(lambda: one.lives > lives, "the restart")
        one.platform.deaf.clear()
        await proven(one, one.time.now)
        assert [kept.arrived.text for kept in await one.store.gateway.new()] == ["hello?"]


async def test_one_that_hears_again_is_asked_for_a_proof_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        one.platform.deaf.add("loop")
        await one.reaches(lambda: one.proof.failures, "the failure")
        one.platform.deaf.clear()
        before = one.time.now
        one.liveness.received(before)
        took = await one.reaches(lambda: (one.proof.proven or 0.0) >= before, "the proof")
        assert took < INTERVAL / 2
        assert not one.announced


async def test_a_platform_that_refuses_us_is_announced_and_seldom_tried_again(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        one.platform.refused.add("loop")
        await one.reaches(lambda: one.announced, "the announcement")
        assert (one.line.state, one.line.error) == ("refused", "the account is not accepted")
        lives = one.lives
        await one.time.move(REFUSED_SECONDS * 0.9)
        assert one.lives == lives
        one.platform.refused.clear()
        await proven(one, one.time.now)
        assert one.lives == lives + 1


async def test_a_test_tries_one_that_was_refused_anew(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.platform.refused.add("loop")
        await one.reaches(lambda: one.line.state == "refused", "the refusal")
        refused = asyncio.create_task(one.liveness.test(20.0))
        await one.reaches(refused.done, "the answer")
        assert refused.result().error == "the account is not accepted"
        one.platform.refused.clear()
        accepted = asyncio.create_task(one.liveness.test(20.0))
        took = await one.reaches(accepted.done, "the answer")
        assert accepted.result().error == ""
        assert took < 20.0


class Torn(LoopChannel):
    """Is refused while it is asked for a proof, which fails when it is closed."""

    closed: asyncio.Event

    async def run(self) -> None:
        await self.closed.wait()
        raise CredentialsRejected("the account is not accepted")

    async def probe(self) -> None:
        self.closed.set()
        await settled()
        raise HermesError("the connection was closed")


async def test_a_channel_that_is_refused_under_the_proof_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        channel = Torn(one.platform.settings("loop"), one.around())
        channel.closed = asyncio.Event()
        line = ChannelConnection(
            "torn", lambda: channel, monotonic=one.time, sleep=one.time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        liveness = Liveness(
            line, "Torn", one.ledger, lambda: one.settings, one._announce,
            clock=one.time, sleep=one.time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        tending = asyncio.create_task(line.run())
        await one.reaches(lambda: line.state == "up", "the connection")
        assert (await liveness.test(20.0)).error == "the account is not accepted"
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)


class Distracted(LoopChannel):
    """Something arrives as it is told to end, so that it goes on, as `asyncio.wait_for` does."""

    ended: asyncio.Event

    async def run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_a_channel_that_did_not_hear_that_it_is_to_end_is_told_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        channel = Distracted(one.platform.settings("loop"), one.around())
        channel.ended = asyncio.Event()
        line = ChannelConnection(
            "distracted", lambda: channel, monotonic=one.time, sleep=one.time.sleep,
            random=lambda: 1.0,
        )  # fmt: skip
        tending = asyncio.create_task(line.run())
        await one.reaches(lambda: line.state == "up", "the connection")
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        assert channel.ended.is_set()


class Overslept(LoopChannel):
    """Stands still in its first proof until all patience is over."""

    time: MovedTime
    asked = 0

    async def probe(self) -> None:
        self.asked += 1
        if self.asked == 1:
            self.time.now += 1_000.0
            raise HermesError("the connection was closed")


async def test_a_test_that_stood_still_until_its_time_was_over_tries_once_more(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        channel = Overslept(one.platform.settings("loop"), one.around())
        channel.time = one.time
        line = ChannelConnection(
            "slept", lambda: channel, monotonic=one.time, sleep=one.time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        liveness = Liveness(
            line, "Slept", one.ledger, lambda: one.settings, one._announce,
            clock=one.time, sleep=one.time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        tending = asyncio.create_task(line.run())
        await one.reaches(lambda: line.state == "up", "the connection")
        tested = asyncio.create_task(liveness.test(20.0))
        await one.reaches(tested.done, "the answer")
        assert tested.result().error == ""
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)


async def test_a_connection_that_breaks_is_made_again_with_growing_patience(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as one:
        one.settings = replace(one.settings, probe_seconds=100_000.0)
        await proven(one)
        await one.reaches(lambda: one.line.state == "up", "the connection")
        one.platform.down = True
        one.platform.cut_all()
        lives = one.lives
        waits = [
            await one.reaches(lambda count=count: one.lives > lives + count, "another life")
            for count in range(5)
        ]
        assert waits[0] < waits[4]
        one.platform.down = False
        one.platform.say("loop", "c", "back?")
        await one.reaches(lambda: one.line.state == "up", "the connection")


async def test_the_proof_outlives_the_runtime(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await proven(one)
        one.platform.deaf.add("loop")
        await one.reaches(lambda: one.announced, "the announcement")
        await one.reaches(lambda: one.proof.failures > 3, "another proof that is kept")
    async with bench(tmp_path) as two:
        two.platform.deaf.add("loop")
        await two.reaches(lambda: two.proof.failures > 4, "further failures")
        assert two.announced == []


class Fickle(LoopChannel):
    """Breaks its first proof off by itself."""

    asked = 0

    async def probe(self) -> None:
        self.asked += 1
        if self.asked == 1:
            raise asyncio.CancelledError


async def test_a_proof_that_the_channel_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    time = MovedTime()
    async with LoopPlatform() as platform, opened(tmp_path, clock=time) as store:
        one = Bench(store, platform, time)
        channel = Fickle(platform.settings("loop"), one.around())
        line = ChannelConnection(
            "loop", lambda: channel, monotonic=time, sleep=time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        liveness = Liveness(
            line, "Loop", one.ledger, lambda: one.settings, one._announce,
            clock=time, sleep=time.sleep, random=lambda: 1.0,
        )  # fmt: skip
        tasks = [asyncio.create_task(line.run()), asyncio.create_task(liveness.run())]
        await one.reaches(lambda: liveness.proof.error, "the failure")
        assert liveness.proof.error == "the probe was cancelled"
        await one.reaches(lambda: liveness.proof.proven, "the proof after it")
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
