"""A server on this machine that stands for a platform."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import web

from hermes_agent.gateway.channel import WebhookReceiver
from tests.support.platforms import Shown, Trouble

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BIG = 64 * 1024 * 1024


class Loopback:
    """Routes come from `routes`; `news` wakes whoever waits for something to happen."""

    def __init__(self) -> None:
        self.trouble = Trouble()
        self.news = asyncio.Condition()
        self.numbers = count(1)
        self.shown: dict[str, Shown] = {}
        self._cut = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.channel: WebhookReceiver | None = None
        """Where what is called is answered."""
        self.listen = ""

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def secrets(self) -> Mapping[str, str]:
        raise NotImplementedError

    async def start(self, _folder: Path) -> None:
        app = web.Application(client_max_size=BIG)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, shutdown_timeout=0.02, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        server: Any = site._server
        self.port = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        await self._wake()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def cut(self) -> None:
        """Every connection ends, and new ones are taken at once."""
        await self.stop()
        await self.start(Path())

    async def _wake(self) -> None:
        async with self.news:
            self.news.notify_all()

    def sent(self) -> list[Shown]:
        return list(self.shown.values())
