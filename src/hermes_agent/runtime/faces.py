"""Faces: what stands above the runtime and lives in its process, such as the gateway. The runtime
knows none of them; whoever starts the process hands them in."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hermes_agent.runtime.runtime import Runtime

log = logging.getLogger("hermes.runtime")

AGAIN_SECONDS = 5.0

Row = tuple[str, str, Callable[["Request"], Awaitable["Response"]]]
"""Method, path and handler of a route."""


class Face(Protocol):
    @property
    def name(self) -> str: ...

    async def tend(self) -> None:
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


Make = Callable[["Runtime"], Face]


class Faces:
    """Those of one runtime."""

    def __init__(self, runtime: "Runtime", makes: Sequence[Make]) -> None:
        self._faces = [make(runtime) for make in makes]
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._tasks = [asyncio.create_task(_lasting(face)) for face in self._faces]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for face in self._faces:
            await face.close()

    @property
    def busy(self) -> bool:
        return any(face.busy for face in self._faces)

    def table(self) -> list[Row]:
        return [row for face in self._faces for row in face.table()]

    def public(self) -> list[Row]:
        return [row for face in self._faces for row in face.public()]

    async def status(self) -> dict[str, Any]:
        return {face.name: await face.status() for face in self._faces}


async def _lasting(face: Face) -> None:
    while True:
        try:
            await face.tend()
        except Exception:
            log.exception("%s broke; it begins again", face.name)
        await asyncio.sleep(AGAIN_SECONDS)
