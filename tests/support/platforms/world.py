"""A channel between its platform and a real store, tended as the gateway does it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Button, Chat, InboundMessage, OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import (
    Channel,
    ChannelContext,
    CredentialsRejected,
    Manifest,
    WebhookReceiver,
)
from hermes_agent.gateway.registry import ChannelRegistry
from hermes_agent.store.store import Store
from tests.support.patience import PATIENCE
from tests.support.platforms import Platform, Shown, platform


async def until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not ready():
            await asyncio.sleep(0.01)


class World:
    def __init__(self, platform: Platform, store: Store) -> None:
        self.platform = platform
        self.store = store
        self.keeps = asyncio.Event()
        """Cleared: what arrives is not kept for now."""
        self.keeps.set()
        self.ends: list[HermesError] = []
        """What `run` ended with, each time."""
        self._numbers = iter(range(1, 1_000_000))
        self.manifest: Manifest = ChannelRegistry().manifest(platform.name)
        self.channel = self.made()
        self._task: asyncio.Task[None] | None = None

    def made(self) -> Channel:
        make: Callable[..., Channel] = import_module(self.manifest.module).make
        secrets = self.platform.secrets()
        made = make(self.platform.settings(), self.surroundings(lambda name: secrets[name]))
        self.platform.channel = made if isinstance(made, WebhookReceiver) else None
        return made

    def surroundings(self, secret: Callable[[str], str]) -> ChannelContext:
        async def pause(seconds: float) -> None:
            await asyncio.sleep(min(seconds, 0.02))

        return ChannelContext(
            receive=self._receive,
            mark=lambda: self.store.gateway.mark(self.platform.name),
            save_cursor=lambda mark: self.store.gateway.save_cursor(self.platform.name, mark),
            secret=secret,
            clock=time.time,
            sleep=pause,
            listen=self.platform.listen,
        )

    async def _receive(self, arrived: InboundMessage, mark: str) -> None:
        await self.keeps.wait()
        await self.store.gateway.add_inbound(arrived, mark)

    async def connect(self) -> None:
        """Receive, and begin again whenever it ends, until it is refused."""
        self._task = asyncio.create_task(self._tend())
        await self.proven()

    async def disconnect(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self.channel.close()

    async def reconnect(self) -> None:
        """As after a restart of the runtime."""
        await self.disconnect()
        self.channel = self.made()
        await self.connect()

    async def _tend(self) -> None:
        while True:
            try:
                await self.channel.run()
            except CredentialsRejected as why:
                self.ends.append(why)
                return
            except HermesError as why:
                self.ends.append(why)
            await asyncio.sleep(0.05)

    async def proven(self) -> None:
        """Until a probe succeeds."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await self.channel.probe()
                except HermesError:
                    await asyncio.sleep(0.02)

    async def heard(self, count: int = 1) -> list[InboundMessage]:
        """What was kept, when there is so much of it."""
        async with asyncio.timeout(PATIENCE):
            while len(rows := await self.store.gateway.new()) < count:
                await asyncio.sleep(0.01)
        assert len(rows) == count
        return [row.arrived for row in rows]

    async def send(
        self,
        text: str = "",
        *,
        chat: Chat | None = None,
        files: tuple[Media, ...] = (),
        buttons: tuple[tuple[Button, ...], ...] = (),
        reply_to: str = "",
        edit: str = "",
        key: str = "",
    ) -> str:
        outgoing = OutboundMessage(
            chat or self.platform.chat(), text, files, buttons, reply_to=reply_to, edit=edit
        )
        return await self.channel.send(outgoing, key or f"key-{next(self._numbers)}")

    def shown(self) -> Shown:
        """The one message that people see."""
        (shown,) = self.platform.sent()
        return shown


@asynccontextmanager
async def world(name: str, folder: Path) -> AsyncIterator[World]:
    async with world_of(platform(name), folder) as here:
        yield here


@asynccontextmanager
async def world_of(there: Platform, folder: Path) -> AsyncIterator[World]:
    await there.start(folder)
    store = await Store.open(folder / "home")
    here: World | None = None
    try:
        here = World(there, store)
        await here.connect()
        yield here
    finally:
        if here is not None:
            await here.disconnect()
        await store.close()
        await there.stop()
