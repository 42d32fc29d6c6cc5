"""Runs the channels: keeps them connected, hands on what arrives, and sends what is queued."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_agent.core.errors import Degraded, HermesError, NotFound, UsageError
from hermes_agent.core.gateway import Chat, InboundMessage, PseudonymHasher, QueueDepths
from hermes_agent.core.supervise import BackoffPause, supervise
from hermes_agent.host.outbound import HOME
from hermes_agent.runtime.services import Domains

if TYPE_CHECKING:  # a runtime without channels needs none of these
    from hermes_agent.gateway.channel import Channel, Manifest
    from hermes_agent.gateway.inbound.inbox import Inbox
    from hermes_agent.gateway.inbound.router import Router
    from hermes_agent.gateway.registry import ChannelRegistry
    from hermes_agent.gateway.supervision.supervisor import ChannelSupervisor

log = logging.getLogger("hermes.gateway")

POLL_SECONDS = 1.0
"""How often to check whether config.yaml or the secrets have changed."""
COMMON: Mapping[str, type] = {
    "enabled": bool, "home": str, "allow": list, "owners": list, "policy": str, "listen": str,
}  # fmt: skip
"""Settings that every channel has."""
CLEANUP_SECONDS = 86_400.0
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0


class ChannelHost:
    name = "gateway"

    def __init__(
        self,
        domains: Domains,
        *,
        registry: "ChannelRegistry | None" = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._domains = domains
        self.context = domains.context
        self._outbound = domains.outbound
        self._outbound.available = self.titles
        self.ledger = domains.context.store.gateway
        self._registry = registry
        self._sleep = sleep
        self._random = random
        self._supervisors: dict[str, ChannelSupervisor] = {}
        self._troubles: dict[str, HermesError] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.inbox: Inbox | None = None
        self._router: Router | None = None
        self._modified = self._modified_at()
        self._applied: tuple[object, ...] | None = None
        """The settings that the channels were last made from."""
        self._cleaned_up = 0.0
        self._changing = asyncio.Lock()

    # as a service of the runtime

    async def run(self) -> None:
        try:
            while True:
                await self.apply_settings()
                if self._supervisors and self.context.clock() - self._cleaned_up > CLEANUP_SECONDS:
                    self._cleaned_up = self.context.clock()
                    await self._clean_up()
                await asyncio.sleep(POLL_SECONDS)
        finally:
            await self.close()

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        supervisors, self._supervisors = list(self._supervisors.values()), {}
        await asyncio.gather(*(supervisor.stop() for supervisor in supervisors))
        self.inbox = self._applied = None

    @property
    def busy(self) -> bool:
        return bool(self._supervisors)

    async def status(self) -> dict[str, Any]:
        """The state of all channels, as far as the store can be read."""
        counts: Mapping[str, QueueDepths] = {}
        strangers: Mapping[str, int] = {}
        asks: dict[str, list[str]] = {}
        with suppress(Degraded):
            counts, strangers = await self.ledger.counts(), await self.ledger.strangers()
            for name in self._supervisors:
                asks[name] = [chat.target for chat in await self.router.approvers.chats(name)]
        now = self.context.clock()
        shown = {
            name: supervisor.status(counts.get(name), now)
            for name, supervisor in self._supervisors.items()
        }
        for name, trouble in self._troubles.items():
            shown[name] = {"state": "missing", "error": trouble.message, "hint": trouble.hint}
        for name in self._supervisors:
            shown[name]["unknown"] = self._unknown(name)
            shown[name]["asks"] = asks.get(name)
        left = {name: _left(one) for name, one in counts.items() if name not in shown}
        more = {
            "left": {name: row for name, row in left.items() if any(row.values())},
            "strangers": strangers,
        }
        return {
            "channels": dict(sorted(shown.items())),
            **{key: rows for key, rows in more.items() if rows},
        }

    def _unknown(self, name: str) -> list[str]:
        """Settings that the channel does not have, such as misspelt ones."""
        given = self.context.settings.channels.get(name, {})
        known = {field.name for field in self._supervisors[name].manifest.fields}
        return sorted(set(given) - known - set(COMMON))

    # the channel directory

    @property
    def registry(self) -> "ChannelRegistry":
        if self._registry is None:
            from hermes_agent.gateway.registry import ChannelRegistry

            self._registry = ChannelRegistry(home=self.context.home.path)
        return self._registry

    def channel(self, name: str) -> "Channel | None":
        supervisor = self._supervisors.get(name)
        return supervisor.connection.channel if supervisor else None

    def titles(self) -> Mapping[str, str]:
        return {name: one.title for name, one in self.registry.manifests().items()}

    def manifest(self, name: str) -> "Manifest | None":
        return self.registry.manifests().get(name)

    def wake(self, channel: str) -> None:
        if (supervisor := self._supervisors.get(channel)) is not None:
            supervisor.outbox.wake()

    def supervisor(self, name: str) -> "ChannelSupervisor":
        if name in self._troubles:
            raise self._troubles[name]
        try:
            return self._supervisors[name]
        except KeyError:
            off = not self.context.settings.channels.get(name, {}).get("enabled", True)
            what = "switched off" if off else "not set up"
            hint = f"`hermes gateway setup {name}{' --set enabled=true' * off}`"
            raise NotFound(f"the channel {name!r} is {what}", hint) from None

    @property
    def router(self) -> "Router":
        if self._router is None:
            from hermes_agent.gateway.inbound.router import Router

            self._router = Router(self._domains, self, PseudonymHasher.open(self.context.home.path))
        return self._router

    # starting and stopping channels

    async def apply_settings(self) -> None:
        """Starts the channels that the settings name and stops those they no longer name."""
        async with self._changing:
            self._refresh()
            settings = self.context.settings
            now = (settings.channels, settings.gateway.listen, self._modified)
            if now == self._applied:
                return
            wanted = {
                name: given
                for name, given in settings.channels.items()
                if given.get("enabled", True)
            }
            self._troubles = {name: e for name, e in self._troubles.items() if name in wanted}
            for name in [name for name in self._supervisors if name not in wanted]:
                await self._supervisors.pop(name).stop()
            for name, given in wanted.items():
                await self._ensure_running(name, given)
            if self._supervisors and not self._tasks:
                self._start_workers()
            self._applied = now

    def _modified_at(self) -> list[int]:
        home = self.context.home
        return [_modified_at(path) for path in (home.config, home.path / ".env")]

    def _refresh(self) -> None:
        modified = self._modified_at()
        if modified == self._modified:
            return
        self._modified = modified
        try:
            self.context.refresh_settings()
        except HermesError as error:
            log.error("invalid settings; the old ones stay in force: %s", error.message)

    async def _ensure_running(self, name: str, given: Mapping[str, Any]) -> None:
        try:
            manifest = self.registry.manifest(name)
        except HermesError as error:
            if str(self._troubles.get(name)) != str(error):
                log.error("%s", error.message)
            self._troubles[name] = error
            return
        settings_key = self._settings_key(manifest, given)
        running = self._supervisors.get(name)
        if running is not None:
            if running.settings_key == settings_key:
                return
            log.info("restarting %s: its settings have changed", name)
            await running.stop()
        from hermes_agent.gateway.channel import ChannelContext
        from hermes_agent.gateway.registry import make
        from hermes_agent.gateway.supervision.supervisor import ChannelSupervisor

        channel_context = ChannelContext(
            partial(self._receive, name),
            partial(self.ledger.mark, name),
            partial(self.ledger.save_cursor, name),
            self.context.secret,
            self.context.clock,
            self._sleep,
            self.context.settings.gateway.listen,
        )
        supervisor = ChannelSupervisor(
            manifest, partial(make, manifest, given, channel_context), self.context,
            self.announce, self.supervise, settings_key, self._sleep, self._random,
        )  # fmt: skip
        self._supervisors[name] = supervisor
        supervisor.start()

    def _settings_key(self, manifest: "Manifest", given: Mapping[str, Any]) -> bytes:
        """Changes when the channel must be restarted."""
        secrets = []
        for field in manifest.fields:
            if field.secret and given.get(field.name):
                try:
                    secrets.append(self.context.secret(str(given[field.name])))
                except HermesError:
                    secrets.append("")
        own = {key: value for key, value in given.items() if key != HOME}
        return msgspec.json.encode([own, secrets, self.context.settings.gateway.listen])

    async def _receive(self, name: str, arrived: InboundMessage, mark: str) -> None:
        from hermes_agent.gateway.inbound.inbox import storable

        if arrived.chat.channel != name:
            raise ValueError(f"{name} delivered a message for {arrived.chat.channel!r}")
        kept = await self.ledger.add_inbound(storable(arrived), mark)
        if (supervisor := self._supervisors.get(name)) is not None:
            supervisor.liveness.received(self.context.clock())
        if kept is not None and self.inbox is not None:
            self.inbox.wake()

    # inbox and publisher

    def _start_workers(self) -> None:
        from hermes_agent.gateway.delivery.publisher import ReplyPublisher
        from hermes_agent.gateway.inbound.inbox import Inbox

        self.inbox = Inbox(self.ledger, self.router.handle, sleep=self._sleep, random=self._random)
        publisher = ReplyPublisher(self._domains, self, self.router.ids, self.router.recent)
        self._outbound.wake = self.wake
        self._tasks = [
            asyncio.create_task(self.supervise("the inbox", self.inbox.run)),
            asyncio.create_task(self.supervise("the publisher", publisher.run)),
        ]

    async def supervise(self, what: str, run: Callable[[], Awaitable[None]]) -> None:
        pause = BackoffPause(RETRY_SECONDS, MAX_RETRY_SECONDS, self._random, self._sleep)
        await supervise(what, run, pause)

    async def _clean_up(self) -> None:
        keep = self.context.settings.gateway.keep_days * 86_400.0
        try:
            await self.ledger.tidy(self.context.clock() - keep)
        except HermesError as error:
            log.warning("old messages were not deleted: %s", error.message)

    # announcements

    async def announce(self, channel: str, key: str, text: str) -> Sequence[str]:
        """Sends a notice about one channel to others: to the first healthy one of those the
        settings name, else to all."""
        named = self.context.settings.gateway.announce
        chats = [chat for chat in self._places(named or ("all",)) if chat.channel != channel]
        if named:
            healthy = (chat for chat in chats if self._is_healthy(chat.channel))
            first = next(healthy, None)
            chats = [first] if first is not None else chats
        await self._outbound.send(f"gateway/{key}", chats, text, kind="notice")
        return [chat.channel for chat in chats]

    def _places(self, targets: Sequence[str]) -> list[Chat]:
        found: list[Chat] = []
        for target in targets:
            try:
                found += self._outbound.chats([target])
            except UsageError as error:
                log.error("gateway.announce: %s", error.message)
        return found

    def _is_healthy(self, channel: str) -> bool:
        return channel in self._supervisors and self._supervisors[channel].liveness.is_healthy


def _left(counts: QueueDepths) -> dict[str, int]:
    """What is left in the queues of a channel that is no longer set up."""
    return {"waiting": counts.waiting, "dead": counts.dead, "set_aside": counts.dead_letters}


def _modified_at(path: Path) -> int:
    try:
        return int(path.stat().st_mtime_ns)
    except OSError:
        return 0
