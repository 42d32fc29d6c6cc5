"""Sends the queued messages of a channel: in order within each chat, as fast as the platform
allows, with retries. Long texts are split here, one part at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from hermes_agent.core.errors import Degraded
from hermes_agent.core.gateway import Chat, OutboundMessage, OutboxEntry
from hermes_agent.core.protocols import Clock
from hermes_agent.core.supervise import backoff, first_of, is_ending
from hermes_agent.gateway.channel import Channel, Manifest, SendError
from hermes_agent.gateway.delivery.splitting import split_for
from hermes_agent.store.gateway.store import GatewayStore

log = logging.getLogger("hermes.gateway")

ATTEMPTS = 20
"""After this many failures of its own a message is given up: about two hours."""
FIRST_SECONDS = 1.0
MAX_SECONDS = 600.0
MAX_PAUSE_SECONDS = 300.0
SEND_SECONDS = 120.0
PARALLEL = 16
"""Chats to send to at the same time."""
POLL_SECONDS = 5.0
RETRY_SECONDS = 1.0
STOP_SECONDS = 3.0
BACK_SECONDS = 60.0
"""A clock that jumps back by more was set back."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Outbox:
    """`channel` returns the connected channel; `is_healthy` whether its last probe succeeded."""

    def __init__(
        self,
        manifest: Manifest,
        ledger: GatewayStore,
        channel: Callable[[], Channel | None],
        *,
        is_healthy: Callable[[], bool],
        clock: Clock,
        sleep: Sleep,
        random: Callable[[], float],
        on_sent: Callable[[float], None],
    ) -> None:
        self._manifest = manifest
        self._ledger = ledger
        self._channel = channel
        self._is_healthy = is_healthy
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._on_sent = on_sent
        self._woken = asyncio.Event()
        self._busy: dict[Chat, asyncio.Task[None]] = {}
        self._not_before: dict[Chat, float] = {}
        self._failures: dict[Chat, int] = {}
        self._troubles = 0
        self._polled = 0.0
        self.paused_until = 0.0
        self.trouble = ""
        """Why the channel sends nothing now."""

    def wake(self) -> None:
        self._woken.set()

    def resume(self) -> None:
        """The channel is connected again: its trouble may be over."""
        self._troubles, self.paused_until = 0, 0.0
        self._woken.set()

    async def run(self) -> None:
        """Runs until cancelled. Sends in progress get a moment to finish; the rest are found again
        after a restart, perhaps marked doubtful."""
        try:
            while True:
                self._woken.clear()
                await self._start_due()
                await self._wait()
        finally:
            tasks = list(self._busy.values())
            if tasks:
                await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._busy.clear()

    async def _start_due(self) -> None:
        now = self._clock()
        if now < self._polled - BACK_SECONDS:  # the clock was set back
            self._not_before, self.paused_until = {}, 0.0
        self._polled = now
        if self._channel() is None or now < self.paused_until:
            return
        self._not_before = {chat: at for chat, at in self._not_before.items() if at > now}
        room = PARALLEL - len(self._busy)
        if room <= 0:
            return
        passed = len(self._busy) + len(self._not_before)
        for delivery in await self._ledger.due(self._manifest.name, now, room + passed):
            chat = delivery.outgoing.chat
            if chat in self._busy or chat in self._not_before or len(self._busy) >= PARALLEL:
                continue
            self._busy[chat] = asyncio.create_task(self._process(delivery))

    async def _process(self, delivery: OutboxEntry) -> None:
        chat = delivery.outgoing.chat
        try:
            await self._attempt(delivery)
        except Degraded as trouble:
            log.warning("sending on %s is delayed: %s", self._manifest.name, trouble.message)
            self._hold(chat, RETRY_SECONDS)
        except Exception:
            log.exception("%s could not process message %s", self._manifest.name, delivery.id)
            self._hold(chat, MAX_PAUSE_SECONDS)
        finally:
            self._busy.pop(chat, None)
            self._woken.set()

    async def _wait(self) -> None:
        """Waits until something is queued, an attempt ends, or a retry is due."""
        now = self._clock()
        times = [self.paused_until] if now < self.paused_until else self._not_before.values()
        wait = min([POLL_SECONDS, *(at - now for at in times)])
        await first_of(self._woken.wait(), self._sleep(max(wait, 0.0)))

    def _hold(self, chat: Chat, seconds: float) -> None:
        self._not_before[chat] = self._clock() + seconds

    async def _attempt(self, delivery: OutboxEntry) -> None:
        channel = self._channel()
        if channel is None:
            return
        doubtful = self._is_doubtful(delivery)
        if not await self._ledger.sending(delivery.id, delivery.attempts, doubtful):
            return
        outgoing, more = self._next_part(delivery)
        key = f"{delivery.key}/{delivery.part}" if delivery.part or more else delivery.key
        try:
            receipt = await self._send(channel, outgoing, key)
        except SendError as error:
            await self._failed(delivery, error)
            return
        except asyncio.CancelledError:
            if is_ending():
                raise
            await self._failed(delivery, SendError("sending was cancelled", doubtful=True))
            return
        except Exception as error:
            log.exception("%s could not send message %s", self._manifest.name, delivery.id)
            unknown = SendError(f"{type(error).__name__}: {error}", doubtful=True)
            await self._failed(delivery, unknown)
            return
        self._troubles, self.trouble = 0, ""
        self._failures.pop(delivery.outgoing.chat, None)
        self._on_sent(self._clock())
        if self._manifest.per_second:
            self._hold(delivery.outgoing.chat, 1.0 / self._manifest.per_second)
        if more:
            await self._save(lambda: self._ledger.partly_sent(delivery.id, delivery.part + 1))
        else:
            await self._save(lambda: self._ledger.sent(delivery.id, receipt))

    def _is_doubtful(self, delivery: OutboxEntry) -> bool:
        """Whether an earlier attempt may have arrived and the platform would show it twice."""
        cut = delivery.state == "sending"
        if not self._manifest.knows_twice:
            return cut
        since = delivery.unsure if delivery.unsure is not None or not cut else delivery.tried
        if not self._manifest.knows_for or (since is None and not cut):
            return False
        return since is None or not 0 <= self._clock() - since <= self._manifest.knows_for

    async def _send(self, channel: Channel, outgoing: OutboundMessage, key: str) -> str:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await channel.send(outgoing, key)
        except TimeoutError:
            raise SendError(f"no answer within {SEND_SECONDS:g} s", doubtful=True) from None
        except SendError as error:
            if error.again or error.channel or not outgoing.edit:
                raise
        # The message to edit cannot be edited: send a new one.
        return await self._send(channel, replace(outgoing, edit=""), key)

    def _next_part(self, delivery: OutboxEntry) -> tuple[OutboundMessage, bool]:
        """The part to send now, and whether more follow. Files and buttons go with the last."""
        outgoing = delivery.outgoing
        parts = split_for(self._manifest, outgoing.text)
        at = min(delivery.part, len(parts) - 1)
        more = at < len(parts) - 1
        if at:
            outgoing = replace(outgoing, edit="", reply_to="")
        if more:
            outgoing = replace(outgoing, files=(), buttons=())
        return replace(outgoing, text=parts[at]), more

    async def _failed(self, delivery: OutboxEntry, error: SendError) -> None:
        name, now, chat = self._manifest.name, self._clock(), delivery.outgoing.chat
        log.warning("%s did not send message %s: %s", name, delivery.id, error.message)
        counted = not (error.channel or error.after is not None) and self._is_healthy()
        due: float | None = now
        if not (error.again or error.channel) or (counted and delivery.attempts + 1 >= ATTEMPTS):
            self._failures.pop(chat, None)
            log.error("%s gave up on message %s: %s", name, delivery.id, error.message)
            due = None
        elif error.channel:
            self._troubles += 1
            wait = backoff(self._troubles, FIRST_SECONDS, MAX_PAUSE_SECONDS, self._random)
            self.paused_until = now + max(wait, error.after or 0.0)
            self.trouble = error.message
        elif error.after is not None:
            self._hold(chat, error.after)
            due = now + error.after
        else:
            failures = self._failures[chat] = self._failures.get(chat, 0) + 1
            due = now + backoff(failures, FIRST_SECONDS, MAX_SECONDS, self._random)
            self._hold(chat, due - now)
        doubtful = error.doubtful and not self._manifest.knows_twice
        await self._save(
            lambda: self._ledger.not_sent(
                delivery.id, error.message, due, doubtful, counted, unsure=error.doubtful
            )
        )

    async def _save(self, write: Callable[[], Awaitable[T]]) -> T:
        """Saves the outcome, however long the store is unavailable."""
        while True:
            try:
                return await write()
            except Degraded as trouble:
                log.warning(
                    "the outcome of a send on %s is not saved yet: %s",
                    self._manifest.name,
                    trouble.message,
                )
                await self._sleep(RETRY_SECONDS)
