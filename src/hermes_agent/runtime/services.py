"""Faces: what stands above the runtime and lives in its process, such as the gateway. The runtime
knows none of them; whoever starts the process hands them in."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hermes_agent.core.supervise import every, supervise
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import OutboundMessages
from hermes_agent.incidents.service import IncidentService
from hermes_agent.jobs.scheduler import JobScheduler
from hermes_agent.learning.service import Learning
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.runtime.models.selection import ModelSelection
from hermes_agent.runtime.sessions import SessionService

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from hermes_agent.host.http_listener import HttpListener

log = logging.getLogger("hermes.runtime")

RETRY_SECONDS = 5.0
POLL_SECONDS = 2.0
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


class Domains(NamedTuple):
    """What a service may use of the runtime."""

    context: RuntimeContext
    sessions: SessionService
    models: ModelRegistry
    model_selection: ModelSelection
    outbound: OutboundMessages
    learning: Learning
    incidents: IncidentService
    jobs: JobScheduler


ServiceFactory = Callable[[Domains], Service]


class ServiceManager:
    """Those of one runtime, and the door to the network that they share."""

    def __init__(self, domains: Domains, factories: Sequence[ServiceFactory]) -> None:
        self._context = domains.context
        self._services = [make(domains) for make in factories]
        self._tasks: list[asyncio.Task[None]] = []
        self._door: HttpListener | None = None

    def start(self) -> None:
        runs = [(face.name, face.run) for face in self._services]
        runs += [("the listener", self._tend_door)] if self._services else []
        self._tasks = [
            asyncio.create_task(supervise(name, run, every(RETRY_SECONDS))) for name, run in runs
        ]

    async def _tend_door(self) -> None:
        """Nothing of it is made before it is wanted."""
        while not self._context.settings.gateway.listen:
            await asyncio.sleep(POLL_SECONDS)
            self._context.reload_if_changed()
        from hermes_agent.host.http_listener import HttpListener

        self._door = self._door or HttpListener(
            "gateway.listen",
            lambda: self._context.settings.gateway.listen,
            self._routes,
            self.token,
            self._context.reload_if_changed,
        )
        await self._door.run()

    def token(self) -> str:
        """What whoever comes by the door must know."""
        from hermes_agent.host.http_listener import token_of

        name = self._context.settings.gateway.token
        return token_of("gateway.token", name, self._context.secret)

    def _routes(self) -> "list[Route]":
        from starlette.routing import Route

        from hermes_agent.host.responses import guarded

        rows = [row for face in self._services for row in face.public()]
        return [Route(path, guarded(handler), methods=[method]) for method, path, handler in rows]

    async def stop(self) -> None:
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
