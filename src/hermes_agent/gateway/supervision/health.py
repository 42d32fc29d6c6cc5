"""Probes a channel: one that is connected but receives nothing is restarted, and announced on
other channels if that does not help."""

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
"""Timeout of a probe; never longer than the time between two of them."""
SETTLE_SECONDS = 5.0
"""How long after the start the first probe runs."""
POLL_SECONDS = 0.5

Announce = Callable[[str, str, str], Awaitable[Sequence[str]]]


class Liveness:
    """The health of one channel. `announce` sends a text to other channels and returns which."""

    def __init__(
        self,
        connection: ChannelConnection,
        title: str,
        ledger: GatewayStore,
        settings: Callable[[], GatewaySettings],
        announce: Announce,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._title = title
        self._ledger = ledger
        self._settings = settings
        self._announce = announce
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._probing = asyncio.Lock()
        self._probe_now = asyncio.Event()
        self.proof = ChannelHealth(connection.name)

    async def run(self) -> None:
        self.proof = (await self._ledger.proofs()).get(self._connection.name, self.proof)
        await self._sleep(min(SETTLE_SECONDS, self._settings().probe_seconds))
        while True:
            self._probe_now.clear()
            try:
                await self.prove()
            except HermesError as error:
                log.warning(
                    "the health of %s was not saved: %s", self._connection.name, error.message
                )
            wait = self._settings().probe_seconds * (0.8 + 0.2 * self._random())
            await first_of(self._probe_now.wait(), self._sleep(wait))

    @property
    def is_healthy(self) -> bool:
        return self.proof.failures == 0 and self._connection.channel is not None

    def received(self, now: float) -> None:
        """Something arrived; after a failed probe the next one runs at once."""
        self.proof = replace(self.proof, received=now)
        if self.proof.failures:
            self._probe_now.set()

    def sent(self, now: float) -> None:
        self.proof = replace(self.proof, sent=now)

    async def prove(self) -> ChannelHealth:
        """Probes once, saves the result and acts on it."""
        async with self._probing:
            error = await self._probe()
            now = self._clock()
            if not error:
                await self._was_proven(now)
            else:
                log.warning("the probe of %s failed: %s", self._connection.name, error)
                await self._was_not_proven(now, error)
            await self._ledger.save_health(self.proof)
            return self.proof

    async def test(self, patience: float) -> ChannelHealth:
        """Probes a channel that may have just started, until the timeout; a refused one is
        restarted first. A failure has no consequences. If this process was suspended past the
        timeout, it probes once more: what failed meanwhile says nothing about the channel."""
        deadline = self._clock() + patience
        if self._connection.state in ("refused", "missing"):
            self._connection.restart()
        while True:
            last = self._clock() >= deadline
            if not (error := await self._probe()):
                return await self.prove()
            if self._connection.state in ("refused", "missing") or last:
                return replace(self.proof, tried=self._clock(), error=error)
            await self._sleep(POLL_SECONDS)

    async def _probe(self) -> str:
        """What is wrong; empty if the probe succeeds."""
        channel = self._connection.channel
        if channel is None:
            return self._connection.error or "not connected"
        limit = min(PROBE_SECONDS, self._settings().probe_seconds)
        probing = asyncio.create_task(channel.probe())
        try:
            await first_of(asyncio.wait({probing}), self._sleep(limit))
            if not probing.done():
                return f"no answer to the probe within {limit:g} s"
            if probing.cancelled():
                return "the probe was cancelled"
            error = probing.exception()
        finally:
            probing.cancel()
        if error is None:
            return ""
        if self._connection.channel is not channel and self._connection.error:
            return self._connection.error  # the channel ended during the probe, and says why
        if isinstance(error, HermesError):
            return error.message
        log.error("the probe of %s failed", self._connection.name, exc_info=error)
        return f"{type(error).__name__}: {error}"

    async def _was_proven(self, now: float) -> None:
        before = self.proof
        if before.announced:
            text = f"{self._title} is receiving messages again."
            await self._announce(self._connection.name, f"well/{_since(before)}", text)
        self.proof = replace(
            self.proof, proven=now, tried=now, failures=0, error="", restarts=0, announced=False
        )

    async def _was_not_proven(self, now: float, error: str) -> None:
        self.proof = proof = replace(
            self.proof, tried=now, failures=self.proof.failures + 1, error=error
        )
        hopeless = self._connection.state in ("refused", "missing")
        if (hopeless or proof.restarts >= self._settings().restarts) and not proof.announced:
            last = _ago(now - proof.proven) if proof.proven else "never"
            text = f"{self._title} is not receiving messages: {error}. Last verified: {last}."
            channels = await self._announce(self._connection.name, f"deaf/{_since(proof)}", text)
            log.error("%s (announced on: %s)", text, ", ".join(channels) or "no other channel")
            self.proof = replace(self.proof, announced=True)
        if not hopeless:
            self.proof = replace(self.proof, restarts=self.proof.restarts + 1)
            self._connection.restart()


def _since(proof: ChannelHealth) -> str:
    """Identifies an outage: the same until a probe succeeds again."""
    return f"{proof.channel}/{proof.proven or 0.0:.3f}"


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(seconds, 0.0):.0f} s ago"


def in_words(proof: ChannelHealth, now: float) -> str:
    words = [f"last verified {_ago(now - proof.proven)}" if proof.proven else "never connected"]
    if proof.received:
        words.append(f"last received {_ago(now - proof.received)}")
    if proof.failures:
        times = "once" if proof.failures == 1 else f"{proof.failures} times"
        words.append(f"failed {times} since: {proof.error}")
    return ", ".join(words)
