"""What tools keep open between a session's calls: browsers, connections."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from hermes_agent.core.protocols import Clock
from hermes_agent.core.tools import AsyncCloseable, Closable, ResourceCache

log = logging.getLogger("hermes.resources")

IDLE_SECONDS = 900.0
"""How long an unused resource stays open."""
CLOSING_SECONDS = 10.0


class SessionResources:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._used: dict[str, float] = {}

    def of(self, session: str) -> ResourceCache:
        return _Keep(self, session)

    async def get(
        self, session: str, name: str, make: Callable[[], Awaitable[Closable]]
    ) -> Closable:
        self._used[session] = self._clock()
        key = session, name
        making = self._made.get(key)
        if making is None or _has_failed(making):
            making = self._made[key] = asyncio.ensure_future(make())
        # Shielded: others may wait for it, and it must not stay open outside the table.
        made: Closable = await asyncio.shield(making)
        return made

    async def drop(self, session: str, name: str) -> None:
        if (made := self._made.pop((session, name), None)) is not None:
            await _close(name, made)

    async def forget(self, session: str) -> None:
        self._used.pop(session, None)
        # Out of the table first: a call meanwhile gets new ones.
        keys = [key for key in self._made if key[0] == session]
        found = [(name, self._made.pop((session, name))) for _, name in keys]
        await asyncio.gather(*(_close(name, made) for name, made in found))

    async def tidy(self, busy: Callable[[], set[str]]) -> None:
        """Close what idle sessions have not used for a while."""
        for session in list(self._used):
            # Closing takes time, in which any session may have become busy.
            now = self._clock()
            if session in busy():
                self._used[session] = now
            elif self._used.get(session, now) < now - IDLE_SECONDS:
                await self.forget(session)

    async def close(self) -> None:
        await asyncio.gather(*map(self.forget, {session for session, _ in self._made}))


class _Keep:
    """The resources of one session."""

    def __init__(self, resources: SessionResources, session: str) -> None:
        self._resources = resources
        self._session = session

    async def get(self, name: str, make: Callable[[], Awaitable[Closable]]) -> Closable:
        return await self._resources.get(self._session, name, make)

    async def drop(self, name: str) -> None:
        await self._resources.drop(self._session, name)


def _has_failed(making: asyncio.Task[Any]) -> bool:
    return making.done() and (making.cancelled() or making.exception() is not None)


async def _close(name: str, making: asyncio.Task[Any]) -> None:
    if _has_failed(making):
        return
    try:
        async with asyncio.timeout(CLOSING_SECONDS):
            made: AsyncCloseable = await making
            await made.close()
    except Exception:
        log.warning("cannot close a %s", name, exc_info=True)
