"""A channel with all that is done for it: kept connected, sent from, and asked for proof."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hermes_agent.core.gateway import QueueDepths
from hermes_agent.gateway.channel import Channel, Manifest
from hermes_agent.gateway.delivery.outbox import Outbox
from hermes_agent.gateway.supervision.connection import ChannelConnection
from hermes_agent.gateway.supervision.health import PROBE_SECONDS, Announce, Liveness, in_words
from hermes_agent.host.context import RuntimeContext

Supervise = Callable[[str, Callable[[], Awaitable[None]]], Coroutine[Any, Any, None]]
"""Runs something by a name, and again when it breaks."""


class ChannelSupervisor:
    def __init__(
        self,
        manifest: Manifest,
        make: Callable[[], Channel],
        context: RuntimeContext,
        announce: Announce,
        supervise: Supervise,
        made_of: bytes,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._context = context
        self._supervise = supervise
        self.manifest = manifest
        self.made_of = made_of
        """The settings it was made of."""
        self._tasks: list[asyncio.Task[None]] = []
        self.line = ChannelConnection(
            manifest.name, make, monotonic=monotonic, sleep=sleep, random=random,
            came_up=self._came_up,
        )  # fmt: skip
        self.liveness = Liveness(
            self.line, manifest.title, context.store.gateway, lambda: context.settings.gateway,
            announce, clock=context.clock, sleep=sleep, random=random,
        )  # fmt: skip
        self.outbox = Outbox(
            manifest, context.store.gateway, lambda: self.line.channel,
            is_well=lambda: self.liveness.is_well, clock=context.clock, sleep=sleep,
            random=random, told=self.liveness.told,
        )  # fmt: skip

    def _came_up(self) -> None:
        self.outbox.resume()

    def begin(self) -> None:
        name = self.manifest.name
        self._tasks = [
            asyncio.create_task(self._supervise(name, self.line.run)),
            asyncio.create_task(self._supervise(f"the proof of {name}", self.liveness.run)),
            asyncio.create_task(self._supervise(f"the sender of {name}", self.outbox.run)),
        ]

    async def end(self) -> None:
        """The sender first: what it is about to send still needs the channel."""
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _stale_seconds(self) -> float:
        """How old a proof may be that still says something."""
        return 2 * self._context.settings.gateway.probe_seconds + PROBE_SECONDS

    def status(self, counts: QueueDepths | None, now: float) -> dict[str, Any]:
        counts = counts or QueueDepths()
        proof = self.liveness.proof
        well = self.line.state == "up" and not proof.failures
        fresh = proof.proven is not None and abs(now - proof.proven) <= self._stale_seconds()
        return {
            "title": self.manifest.title,
            "state": self.line.state if self.line.state != "up" or well else "deaf",
            "well": well and fresh,
            "says": in_words(proof, now),
            "proof": self.manifest.proof,
            "proven": proof.proven,
            "received": proof.received,
            "sent": proof.sent,
            "failures": proof.failures,
            "announced": proof.announced,
            "error": self.line.error or proof.error or self.outbox.trouble,
            "hint": self.line.hint,
            "new": counts.new,
            "set_aside": counts.dead_letters,
            "waiting": counts.waiting,
            "oldest": counts.oldest,
            "dead": counts.dead,
        }
