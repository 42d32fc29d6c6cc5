"""Exclusive access to a folder that several processes change."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import private_folder, try_lock

LOCK = ".lock"
LOCK_SECONDS = 30.0
_PAUSE, _LONG_PAUSE = 0.001, 0.005

T = TypeVar("T")
P = ParamSpec("P")


class FolderLock:
    """`what` names the content in error messages."""

    def __init__(self, folder: Path, what: str, patience: float = LOCK_SECONDS) -> None:
        self._folder = folder
        self._what = what
        self._patience = patience
        self._lock = asyncio.Lock()
        self.running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """One at a time, among processes too. What has begun is finished, even when the caller is
        cancelled."""

        async def locked() -> T:
            try:
                async with self._lock, self._held():
                    return await work()
            except OSError as error:
                raise HermesError(
                    f"the {self._what} cannot be read or written: {error}",
                    f"check the folder `{self._folder.name}` in the home and what is in it",
                ) from error

        task = asyncio.ensure_future(locked())
        self.running.add(task)  # the loop itself holds no task
        task.add_done_callback(self.running.discard)
        return await asyncio.shield(task)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        private_folder(self._folder)
        handle = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        waited, pause = 0.0, _PAUSE
        try:
            while not try_lock(handle):
                if waited >= self._patience:
                    raise HermesError(
                        f"another process has locked the {self._what}", "stop it if it hangs"
                    )
                await asyncio.sleep(pause)  # not in a thread: a wait there outlives us
                waited, pause = waited + pause, min(2 * pause, _LONG_PAUSE)
            yield
        finally:
            os.close(handle)


class _HasLock(Protocol):
    lock: FolderLock


S = TypeVar("S", bound=_HasLock)


def exclusive(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """A method that runs under its object's lock."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.lock.run(lambda: method(self, *args, **kwargs))

    return run
