"""What the tools of sessions hold open from one call to the next: browsers, connections."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from hermes_agent.core.lent import Closable, Closes, Keep
from hermes_agent.core.protocols import Clock

log = logging.getLogger("hermes.keeps")

IDLE_SECONDS = 900.0
"""How long something that nobody uses is held open."""
CLOSING_SECONDS = 10.0


class Keeps:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._used: dict[str, float] = {}

    def of(self, session: str) -> Keep:
        return _Keep(self, session)

    async def get(
        self, session: str, name: str, make: Callable[[], Awaitable[Closable]]
    ) -> Closable:
        self._used[session] = self._clock()
        key = session, name
        if key not in self._made:
            self._made[key] = asyncio.ensure_future(make())
        making = self._made[key]
        try:
            # Whoever is cancelled does not take it from the others who wait for it.
            made: Closable = await asyncio.shield(making)
        except BaseException:
            if making.done() and self._made.get(key) is making:
                del self._made[key]
            raise
        return made

    async def drop(self, session: str, name: str) -> None:
        if (made := self._made.pop((session, name), None)) is not None:
            await _close(name, made)

    async def forget(self, session: str) -> None:
        self._used.pop(session, None)
        names = [name for owner, name in self._made if owner == session]
        await asyncio.gather(*(self.drop(session, name) for name in names))

    async def tidy(self, busy: set[str]) -> None:
        for session in busy & self._used.keys():
            self._used[session] = self._clock()
        old = self._clock() - IDLE_SECONDS
        for session in [name for name, used in self._used.items() if used < old]:
            await self.forget(session)

    async def close(self) -> None:
        await asyncio.gather(*map(self.forget, {session for session, _ in self._made}))


class _Keep:
    """The part of one session."""

    def __init__(self, keeps: Keeps, session: str) -> None:
        self._keeps = keeps
        self._session = session

    async def get(self, name: str, make: Callable[[], Awaitable[Closable]]) -> Closable:
        return await self._keeps.get(self._session, name, make)

    async def drop(self, name: str) -> None:
        await self._keeps.drop(self._session, name)


async def _close(name: str, making: asyncio.Task[Any]) -> None:
    try:
        async with asyncio.timeout(CLOSING_SECONDS):
            made: Closes = await making
            await made.close()
    except Exception:
        log.warning("a %s could not be closed", name, exc_info=True)
