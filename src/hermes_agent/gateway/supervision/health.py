"""Proof of being alive: a channel that is connected but hears nothing is found, begun again, and
announced elsewhere when that does not help."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import ChannelHealth
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import GatewaySettings
from hermes_agent.core.supervise import first_of
from hermes_agent.gateway.supervision.connection import ChannelConnection
from hermes_agent.store.gateway.store import GatewayStore

log = logging.getLogger("hermes.gateway")

PROBE_SECONDS = 30.0
"""How long a proof may take; never longer than the time between two of them."""
SETTLE_SECONDS = 5.0
"""How long after it began a channel is first asked for a proof."""
POLL_SECONDS = 0.5

Announce = Callable[[str, str, str], Awaitable[Sequence[str]]]


class Liveness:
    """Of one channel. `announce` tells a text under a key to others than the channel, and says
    whom."""

    def __init__(
        self,
        line: ChannelConnection,
        title: str,
        ledger: GatewayStore,
        settings: Callable[[], GatewaySettings],
        announce: Announce,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
    ) -> None:
        self._line = line
        self._title = title
        self._ledger = ledger
        self._settings = settings
        self._announce = announce
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._proving = asyncio.Lock()
        self._again = asyncio.Event()
        self.proof = ChannelHealth(line.name)

    async def run(self) -> None:
        """Live until cancelled."""
        self.proof = (await self._ledger.proofs()).get(self._line.name, self.proof)
        await self._sleep(min(SETTLE_SECONDS, self._settings().probe_seconds))
        while True:
            self._again.clear()  # whoever asks while one is under way asks for another
            try:
                await self.prove()
            except HermesError as error:
                log.warning("the proof of %s could not be kept: %s", self._line.name, error.message)
            wait = self._settings().probe_seconds * (0.8 + 0.2 * self._random())
            await first_of(self._again.wait(), self._sleep(wait))

    @property
    def is_well(self) -> bool:
        return self.proof.failures == 0 and self._line.channel is not None

    def heard(self, now: float) -> None:
        """Whoever hears again after a failure is asked for a proof at once."""
        self.proof = replace(self.proof, received=now)
        if self.proof.failures:
            self._again.set()

    def told(self, now: float) -> None:
        self.proof = replace(self.proof, sent=now)

    async def prove(self) -> ChannelHealth:
        """One proof, kept, and what follows from it."""
        async with self._proving:
            error = await self._probe()
            now = self._clock()
            if not error:
                await self._was_proven(now)
            else:
                log.warning("%s is not proven to hear: %s", self._line.name, error)
                await self._was_not_proven(now, error)
            await self._ledger.save_health(self.proof)
            return self.proof

    async def test(self, patience: float) -> ChannelHealth:
        """Whether it can be proven to hear, of a channel that may just have begun; one that was
        refused is tried anew. A failure has no consequences. Whoever stood still until the time
        was over tries once more: what failed meanwhile says nothing about the channel."""
        deadline = self._clock() + patience
        if self._line.state in ("refused", "missing"):
            self._line.restart()
        while True:
            last = self._clock() >= deadline
            if not (error := await self._probe()):
                return await self.prove()
            if self._line.state in ("refused", "missing") or last:
                return replace(self.proof, tried=self._clock(), error=error)
            await self._sleep(POLL_SECONDS)

    async def _probe(self) -> str:
        """What is wrong; empty when it is proven to hear."""
        channel = self._line.channel
        if channel is None:
            return self._line.error or "it is not connected"
        limit = min(PROBE_SECONDS, self._settings().probe_seconds)
        probing = asyncio.create_task(channel.probe())
        try:
            await first_of(asyncio.wait({probing}), self._sleep(limit))
            if not probing.done():
                return f"no proof within {limit:g} s"
            if probing.cancelled():
                return "the proof was broken off"
            error = probing.exception()
        finally:
            probing.cancel()
        if error is None:
            return ""
        if self._line.channel is not channel and self._line.error:
            return self._line.error  # it ended under the proof, and says why
        if isinstance(error, HermesError):
            return error.message
        log.error("the probe of %s broke", self._line.name, exc_info=error)
        return f"{type(error).__name__}: {error}"

    async def _was_proven(self, now: float) -> None:
        before = self.proof
        if before.announced:
            text = f"{self._title} is well again: it hears what is sent to it."
            await self._announce(self._line.name, f"well/{_since(before)}", text)
        self.proof = replace(
            self.proof, proven=now, tried=now, failures=0, error="", restarts=0, announced=False
        )

    async def _was_not_proven(self, now: float, error: str) -> None:
        self.proof = proof = replace(
            self.proof, tried=now, failures=self.proof.failures + 1, error=error
        )
        hopeless = self._line.state in ("refused", "missing")
        if (hopeless or proof.restarts >= self._settings().restarts) and not proof.announced:
            last = _ago(now - proof.proven) if proof.proven else "never"
            text = f"{self._title} does not hear what is sent to it: {error}. Last proven: {last}."
            told = await self._announce(self._line.name, f"deaf/{_since(proof)}", text)
            log.error("%s (told: %s)", text, ", ".join(told) or "nobody: there is no other place")
            self.proof = replace(self.proof, announced=True)
        if not hopeless:
            self.proof = replace(self.proof, restarts=self.proof.restarts + 1)
            self._line.restart()


def _since(proof: ChannelHealth) -> str:
    """Names a time of being deaf: the same until it is proven again."""
    return f"{proof.channel}/{proof.proven or 0.0:.3f}"


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(seconds, 0.0):.0f} s ago"


def in_words(proof: ChannelHealth, now: float) -> str:
    """As `hermes status` says it."""
    words = [f"last proven {_ago(now - proof.proven)}" if proof.proven else "never proven"]
    if proof.received:
        words.append(f"last heard {_ago(now - proof.received)}")
    if proof.failures:
        times = "once" if proof.failures == 1 else f"{proof.failures} times"
        words.append(f"failed {times} since: {proof.error}")
    return ", ".join(words)
