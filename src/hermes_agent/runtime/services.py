"""Services above the runtime that run in its process, such as the gateway. The runtime knows none
of them; whoever starts the process passes them in."""

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
from hermes_agent.runtime.model_selection import ModelSelection
from hermes_agent.runtime.session_history import SessionHistory
from hermes_agent.runtime.sessions import SessionService

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from hermes_agent.host.http_listener import HttpListener

log = logging.getLogger("hermes.runtime")

RETRY_SECONDS = 5.0
POLL_SECONDS = 2.0
"""How often to check whether `gateway.listen` is set."""

Row = tuple[str, str, Callable[["Request"], Awaitable["Response"]]]
"""Method, path and handler of a route."""


class Service(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Run until cancelled; restarted after a failure."""
        ...

    def table(self) -> Sequence[Row]:
        """Routes of the local API."""
        ...

    def public(self) -> Sequence[Row]:
        """Routes of the network listener (`gateway.listen`). Each authorizes its own requests."""
        ...

    @property
    def busy(self) -> bool:
        """Whether it needs the runtime to stay up."""
        ...

    async def status(self) -> dict[str, Any]:
        """What `hermes status` shows under its name."""
        ...

    async def close(self) -> None: ...


class Domains(NamedTuple):
    """The parts of the runtime that services may use."""

    context: RuntimeContext
    sessions: SessionService
    models: ModelRegistry
    model_selection: ModelSelection
    session_history: SessionHistory
    outbound: OutboundMessages
    learning: Learning
    incidents: IncidentService
    jobs: JobScheduler


ServiceFactory = Callable[[Domains], Service]


class ServiceManager:
    """Runs the services of a runtime, and the network listener they share."""

    def __init__(self, domains: Domains, factories: Sequence[ServiceFactory]) -> None:
        self._context = domains.context
        self._services = [make(domains) for make in factories]
        self._tasks: list[asyncio.Task[None]] = []
        self._listener: HttpListener | None = None

    def start(self) -> None:
        runs = [(service.name, service.run) for service in self._services]
        runs += [("the listener", self._run_listener)] if self._services else []
        self._tasks = [
            asyncio.create_task(supervise(name, run, every(RETRY_SECONDS))) for name, run in runs
        ]

    async def _run_listener(self) -> None:
        """Wait until `gateway.listen` is set, then serve."""
        while not self._context.settings.gateway.listen:
            await asyncio.sleep(POLL_SECONDS)
            self._context.reload_if_changed()
        from hermes_agent.host.http_listener import HttpListener

        self._listener = self._listener or HttpListener(
            "gateway.listen",
            lambda: self._context.settings.gateway.listen,
            self._routes,
            self.token,
            self._context.reload_if_changed,
        )
        await self._listener.run()

    def token(self) -> str:
        """The token that clients of the listener must send."""
        from hermes_agent.host.http_listener import token_of

        name = self._context.settings.gateway.token
        return token_of("gateway.token", name, self._context.secret)

    def _routes(self) -> "list[Route]":
        from starlette.routing import Route

        from hermes_agent.host.responses import guarded

        rows = [row for service in self._services for row in service.public()]
        return [Route(path, guarded(handler), methods=[method]) for method, path, handler in rows]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for service in self._services:
            await service.close()

    @property
    def busy(self) -> bool:
        open = self._listener is not None and bool(self._listener.address)
        return open or any(service.busy for service in self._services)

    def table(self) -> list[Row]:
        return [row for service in self._services for row in service.table()]

    async def status(self) -> dict[str, Any]:
        report = {service.name: await service.status() for service in self._services}
        listener = self._listener
        if listener is not None:
            report["door"] = {"address": listener.address, "trouble": listener.trouble}
        return report
