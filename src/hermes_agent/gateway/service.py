"""The gateway: the face by which people reach the agent on channels. It keeps channels connected,
hands on what arrives, sends what the ledger has, and knows which of them hear."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_agent.core.errors import Degraded, HermesError, NotFound, UsageError
from hermes_agent.core.gateway import Chat, InboundMessage, QueueDepths
from hermes_agent.core.pseudonyms import PseudonymHasher
from hermes_agent.core.supervise import BackoffPause, supervise
from hermes_agent.host.outbound import HOME
from hermes_agent.runtime.services import Domains

if TYPE_CHECKING:  # a runtime without channels needs none of these
    from hermes_agent.gateway.channel import Channel, ChannelContext, Manifest
    from hermes_agent.gateway.inbound.inbox import Inbox
    from hermes_agent.gateway.inbound.router import Router
    from hermes_agent.gateway.registry import ChannelRegistry
    from hermes_agent.gateway.supervision.supervisor import ChannelSupervisor

log = logging.getLogger("hermes.gateway")

POLL_SECONDS = 1.0
"""How often it is looked whether config.yaml or the secrets have changed."""
COMMON = frozenset({"enabled", "home", "allow", "owners", "policy", "listen"})
"""Settings that every channel has."""
TIDY_SECONDS = 86_400.0
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0


class ChannelHost:
    """Runs the channels of one runtime."""

    name = "gateway"

    def __init__(
        self,
        domains: Domains,
        *,
        book: "ChannelRegistry | None" = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._domains = domains
        self.context = domains.context
        self._outbound = domains.outbound
        self.ledger = domains.context.store.gateway
        self._book = book
        self._sleep = sleep
        self._random = random
        self._supervisors: dict[str, ChannelSupervisor] = {}
        self._troubles: dict[str, HermesError] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._inbox: Inbox | None = None
        self._router: Router | None = None
        self._looked = self._changed_at()
        self._followed: tuple[object, ...] | None = None
        """What the channels were last made of."""
        self._tidied = 0.0
        self._changing = asyncio.Lock()

    # the face

    async def run(self) -> None:
        try:
            while True:
                await self.follow()
                if self._supervisors and self.context.clock() - self._tidied > TIDY_SECONDS:
                    self._tidied = self.context.clock()
                    await self._tidy()
                await asyncio.sleep(POLL_SECONDS)
        finally:
            await self._let_go()

    async def close(self) -> None:
        await self._let_go()

    @property
    def busy(self) -> bool:
        return bool(self._supervisors)

    async def status(self) -> dict[str, Any]:
        """How all channels are, as far as the store can be read."""
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
        """Settings of a channel that mean nothing: misspelt ones."""
        given = self.context.settings.channels.get(name, {})
        known = {field.name for field in self._supervisors[name].manifest.fields} | COMMON
        return sorted(set(given) - known)

    # what its parts see of the channels

    @property
    def book(self) -> "ChannelRegistry":
        if self._book is None:
            from hermes_agent.gateway.registry import ChannelRegistry

            self._book = ChannelRegistry(home=self.context.home.path)
        return self._book

    def channel(self, name: str) -> "Channel | None":
        supervisor = self._supervisors.get(name)
        return supervisor.line.channel if supervisor else None

    def manifest(self, name: str) -> "Manifest | None":
        return self.book.manifests().get(name)

    def wake(self, channel: str) -> None:
        if (supervisor := self._supervisors.get(channel)) is not None:
            supervisor.outbox.wake()

    def supervisor(self, name: str) -> "ChannelSupervisor":
        if name in self._troubles:
            raise self._troubles[name]
        try:
            return self._supervisors[name]
        except KeyError:
            raise NotFound(
                f"the channel {name!r} is not set up", f"`hermes gateway setup {name}`"
            ) from None

    @property
    def inbox(self) -> "Inbox | None":
        return self._inbox

    @property
    def router(self) -> "Router":
        if self._router is None:
            from hermes_agent.gateway.inbound.router import Router

            self._router = Router(self._domains, self, PseudonymHasher.open(self.context.home.path))
        return self._router

    # channels come and go with the settings

    async def follow(self) -> None:
        """Make what the settings name, and end what they name no more."""
        async with self._changing:
            self._refresh()
            settings = self.context.settings
            now = (settings.channels, settings.gateway.listen, self._looked)
            if now == self._followed:
                return
            wanted = {
                name: given
                for name, given in settings.channels.items()
                if given.get("enabled", True)
            }
            self._troubles = {name: e for name, e in self._troubles.items() if name in wanted}
            for name in [name for name in self._supervisors if name not in wanted]:
                await self._supervisors.pop(name).end()
            for name, given in wanted.items():
                await self._have(name, given)
            if self._supervisors and not self._tasks:
                self._begin()
            self._followed = now

    def _changed_at(self) -> list[int]:
        home = self.context.home
        return [_changed_at(path) for path in (home.config, home.path / ".env")]

    def _refresh(self) -> None:
        looked = self._changed_at()
        if looked == self._looked:
            return
        self._looked = looked
        try:
            self.context.refresh_settings()
        except HermesError as error:
            log.error("the settings stay as they were: %s", error.message)

    async def _have(self, name: str, given: Mapping[str, Any]) -> None:
        try:
            manifest = self.book.manifest(name)
        except HermesError as error:
            if str(self._troubles.get(name)) != str(error):
                log.error("%s", error.message)
            self._troubles[name] = error
            return
        made_of = self._made_of(manifest, given)
        present = self._supervisors.get(name)
        if present is not None:
            if present.made_of == made_of:
                return
            log.info("the settings of %s have changed: it begins again", name)
            await present.end()
        from hermes_agent.gateway.registry import make
        from hermes_agent.gateway.supervision.supervisor import ChannelSupervisor

        surroundings = self._surroundings(name)
        supervisor = ChannelSupervisor(
            manifest, lambda: make(manifest, given, surroundings), self.context,
            self.announce, self.supervise, made_of,
            self._sleep, self._random, time.monotonic,
        )  # fmt: skip
        self._supervisors[name] = supervisor
        supervisor.begin()

    def _made_of(self, manifest: "Manifest", given: Mapping[str, Any]) -> bytes:
        """Changes when the channel must be made anew."""
        secrets = []
        for field in manifest.fields:
            if field.secret and given.get(field.name):
                try:
                    secrets.append(self.context.secret(str(given[field.name])))
                except HermesError:
                    secrets.append("")
        own = {key: value for key, value in given.items() if key != HOME}
        return msgspec.json.encode([own, secrets, self.context.settings.gateway.listen])

    def _surroundings(self, name: str) -> "ChannelContext":
        from hermes_agent.gateway.channel import ChannelContext

        async def receive(arrived: InboundMessage, mark: str) -> None:
            await self._receive(name, arrived, mark)

        async def keep_mark(mark: str) -> None:
            await self.ledger.save_cursor(name, mark)

        return ChannelContext(
            receive,
            lambda: self.ledger.mark(name),
            keep_mark,
            self.context.secret,
            self.context.clock,
            self._sleep,
            self.context.settings.gateway.listen,
        )

    async def _receive(self, name: str, arrived: InboundMessage, mark: str) -> None:
        from hermes_agent.gateway.supervision.connection import clean

        if arrived.chat.channel != name:
            raise ValueError(f"{name} brought a message of {arrived.chat.channel!r}")
        kept = await self.ledger.add_inbound(clean(arrived), mark)
        if (supervisor := self._supervisors.get(name)) is not None:
            supervisor.liveness.heard(self.context.clock())
        if kept is not None and self._inbox is not None:
            self._inbox.wake()

    # what goes on beside the channels

    def _begin(self) -> None:
        from hermes_agent.gateway.delivery.publisher import ReplyPublisher
        from hermes_agent.gateway.inbound.inbox import Inbox

        self._inbox = Inbox(self.ledger, self.router.handle, sleep=self._sleep, random=self._random)
        telling = ReplyPublisher(self._domains, self, self.router.ids, self.router.recent)
        self._outbound.wake = self.wake
        self._tasks = [
            asyncio.create_task(self.supervise("what arrives", self._inbox.run)),
            asyncio.create_task(self.supervise("what is told", telling.run)),
        ]

    async def supervise(self, what: str, run: Callable[[], Awaitable[None]]) -> None:
        """Start it again whenever it breaks."""
        pause = BackoffPause(RETRY_SECONDS, MAX_RETRY_SECONDS, self._random, self._sleep)
        await supervise(what, run, pause)

    async def _let_go(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        supervisors, self._supervisors = list(self._supervisors.values()), {}
        await asyncio.gather(*(supervisor.end() for supervisor in supervisors))
        self._inbox = self._followed = None

    async def _tidy(self) -> None:
        keep = self.context.settings.gateway.keep_days * 86_400.0
        try:
            await self.ledger.tidy(self.context.clock() - keep)
        except HermesError as error:
            log.warning("the ledgers were not tidied: %s", error.message)

    # telling elsewhere

    async def announce(self, channel: str, key: str, text: str) -> Sequence[str]:
        """Tell on other channels: the first of those the settings name that is well, else all."""
        named = self.context.settings.gateway.announce
        chats = [chat for chat in self._places(named or ("all",)) if chat.channel != channel]
        if named:
            well = (chat for chat in chats if self._is_well(chat.channel))
            first = next(well, None)
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

    def _is_well(self, channel: str) -> bool:
        return channel in self._supervisors and self._supervisors[channel].liveness.is_well


def _left(counts: QueueDepths) -> dict[str, int]:
    """What a channel that is not set up any more has left."""
    return {"waiting": counts.waiting, "dead": counts.dead, "set_aside": counts.dead_letters}


def _changed_at(path: Path) -> int:
    try:
        return int(path.stat().st_mtime_ns)
    except OSError:
        return 0
