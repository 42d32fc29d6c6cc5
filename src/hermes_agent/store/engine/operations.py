"""Turns functions of a connection into methods of the store: `read` runs one on a reader, `write`
in the writer's transaction."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from hermes_agent.core.errors import Degraded
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.engine.readers import Readers
from hermes_agent.store.engine.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")


class Engine:
    """The readers and the writer of a store; without a writer it is read-only."""

    def __init__(self, readers: Readers) -> None:
        self.readers = readers
        self.writer: Writer | None = None

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.readers.do(work)

    async def write(self, name: str, work: Callable[[Connection], T]) -> T:
        if self.writer is None:
            raise read_only()
        return await self.writer.do(name, work)

    async def sweep(self) -> None:
        """Remove the files in blobs/ that the last writes have released."""
        await self.write("sweep", lambda db: db.blobs.sweep(db))

    async def close(self) -> None:
        await self.readers.close()
        if self.writer is not None:
            await self.writer.close()


def read_only() -> Degraded:
    return Degraded(
        "the home is read-only: nothing new can be stored",
        "make it writable, then `hermes restart`",
    )


class StorePart:
    """A class whose methods are made by `read` and `write`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine


def read(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[StorePart, P], Coroutine[Any, Any, T]]:
    @wraps(work)
    async def method(part: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await part._engine.read(lambda db: work(db, *args, **kwargs))

    return method


def write(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[StorePart, P], Coroutine[Any, Any, T]]:
    """The function's name is the name of the write: the writer's hook gets it."""

    @wraps(work)
    async def method(part: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await part._engine.write(work.__name__, lambda db: work(db, *args, **kwargs))

    return method
