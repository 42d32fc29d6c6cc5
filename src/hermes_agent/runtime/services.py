"""Faces: what stands above the runtime and lives in its process, such as the gateway. The runtime
knows none of them; whoever starts the process hands them in."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from hermes_agent.runtime.api.listener import HttpListener
    from hermes_agent.runtime.runtime import Runtime

log = logging.getLogger("hermes.runtime")

AGAIN_SECONDS = 5.0
LOOK_SECONDS = 2.0
"""How often it is looked whether there is to be a door."""

Row = tuple[str, str, Callable[["Request"], Awaitable["Response"]]]
"""Method, path and handler of a route."""


class Service(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Live until cancelled. It is begun again when it breaks."""
        ...

    def table(self) -> Sequence[Row]:
        """Routes of the local API."""
        ...

    def public(self) -> Sequence[Row]:
        """Routes of the door to the network (`gateway.listen`). Each checks for itself who may."""
        ...

    @property
    def busy(self) -> bool:
        """Whether the runtime is needed because of it."""
        ...

    async def status(self) -> dict[str, Any]:
        """What `hermes status` shows under its name."""
        ...

    async def close(self) -> None: ...


ServiceFactory = Callable[["Runtime"], Service]


class ServiceManager:
    """Those of one runtime, and the door to the network that they share."""

    def __init__(self, runtime: "Runtime", makes: Sequence[ServiceFactory]) -> None:
        self._runtime = runtime
        self._services = [make(runtime) for make in makes]
        self._tasks: list[asyncio.Task[None]] = []
        self._door: HttpListener | None = None

    def begin(self) -> None:
        tends = [(face.name, face.run) for face in self._services]
        tends += [("the door", self._tend_door)] if self._services else []
        self._tasks = [asyncio.create_task(_lasting(name, tend)) for name, tend in tends]

    async def _tend_door(self) -> None:
        """Nothing of it is made before it is wanted."""
        while not self._runtime.settings.gateway.listen:
            await asyncio.sleep(LOOK_SECONDS)
            self._runtime.incidents.notice_settings()
        from hermes_agent.runtime.api.listener import HttpListener

        self._door = self._door or HttpListener(
            "gateway.listen",
            lambda: self._runtime.settings.gateway.listen,
            self._routes,
            self.token,
            self._runtime.incidents.notice_settings,
        )
        await self._door.run()

    def token(self) -> str:
        """What whoever comes by the door must know."""
        from hermes_agent.runtime.api.listener import token_of

        name = self._runtime.settings.gateway.token
        return token_of("gateway.token", name, self._runtime.secret)

    def _routes(self) -> "list[Route]":
        from starlette.routing import Route

        from hermes_agent.runtime.api.responses import guarded

        rows = [row for face in self._services for row in face.public()]
        return [Route(path, guarded(handler), methods=[method]) for method, path, handler in rows]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for face in self._services:
            await face.close()

    @property
    def busy(self) -> bool:
        open = self._door is not None and bool(self._door.address)
        return open or any(face.busy for face in self._services)

    def table(self) -> list[Row]:
        return [row for face in self._services for row in face.table()]

    async def status(self) -> dict[str, Any]:
        told = {face.name: await face.status() for face in self._services}
        door = self._door
        if door is not None:
            told["door"] = {"address": door.address, "trouble": door.trouble}
        return told


async def _lasting(name: str, tend: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await tend()
        except Exception:
            log.exception("%s broke; it begins again", name)
        await asyncio.sleep(AGAIN_SECONDS)
