"""Runs everything for one channel: its connection, its outbox and its probes."""

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
"""Runs something under a name, and again when it fails."""


class ChannelSupervisor:
    def __init__(
        self,
        manifest: Manifest,
        make: Callable[[], Channel],
        context: RuntimeContext,
        announce: Announce,
        supervise: Supervise,
        settings_key: bytes,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
    ) -> None:
        self._context = context
        self._supervise = supervise
        self.manifest = manifest
        self.settings_key = settings_key
        """Stands for the settings it was made from."""
        self._tasks: list[asyncio.Task[None]] = []
        self.connection = ChannelConnection(manifest.name, make, sleep=sleep, random=random)
        self.liveness = Liveness(
            self.connection, manifest.title, context.store.gateway,
            lambda: context.settings.gateway, announce,
            clock=context.clock, sleep=sleep, random=random,
        )  # fmt: skip
        self.outbox = Outbox(
            manifest, context.store.gateway, lambda: self.connection.channel,
            is_healthy=lambda: self.liveness.is_healthy, clock=context.clock, sleep=sleep,
            random=random, on_sent=self.liveness.sent,
        )  # fmt: skip
        self.connection.on_connected = self.outbox.resume

    def start(self) -> None:
        name = self.manifest.name
        self._tasks = [
            asyncio.create_task(self._supervise(name, self.connection.run)),
            asyncio.create_task(self._supervise(f"the probe of {name}", self.liveness.run)),
            asyncio.create_task(self._supervise(f"the outbox of {name}", self.outbox.run)),
        ]

    async def stop(self) -> None:
        """Stops the outbox first: what it is sending still needs the channel."""
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def status(self, counts: QueueDepths | None, now: float) -> dict[str, Any]:
        counts = counts or QueueDepths()
        proof, state = self.liveness.proof, self.connection.state
        healthy = state == "up" and not proof.failures
        max_age = 2 * self._context.settings.gateway.probe_seconds + PROBE_SECONDS
        fresh = proof.proven is not None and abs(now - proof.proven) <= max_age
        return {
            "title": self.manifest.title,
            "state": state if state != "up" or healthy else "deaf",
            "well": healthy and fresh,
            "says": in_words(proof, now),
            "proof": self.manifest.proof,
            "proven": proof.proven,
            "received": proof.received,
            "sent": proof.sent,
            "failures": proof.failures,
            "announced": proof.announced,
            "error": self.connection.error or proof.error or self.outbox.trouble,
            "hint": self.connection.hint,
            "new": counts.new,
            "set_aside": counts.dead_letters,
            "waiting": counts.waiting,
            "oldest": counts.oldest,
            "dead": counts.dead,
        }
