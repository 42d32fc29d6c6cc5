"""Reader threads, each with its own connection, beside the writer."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import apsw

from hermes_agent.core.errors import Degraded
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.health import Closed, StoreHealth, degraded_by

T = TypeVar("T")


class Readers:
    def __init__(self, connect: Callable[[], Connection], health: StoreHealth, count: int) -> None:
        self._connect = connect
        self._health = health
        self._threads = ThreadPoolExecutor(count, "hermes-reader")
        self._lock = threading.Lock()
        self._free: list[tuple[int, Connection]] = []
        self._generation = 0
        self._closed = False

    async def do(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent view of the database."""
        if self._closed:
            raise Closed
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._read, work)

    def renew(self) -> None:
        """Close the current connections: new ones see the file as the writer has prepared it."""
        with self._lock:
            self._generation += 1
            stale, self._free = self._free, []
        for _, db in stale:
            db.close()

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self.renew()

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._borrowed() as db:
                db.execute("begin")
                try:
                    return work(db)
                finally:
                    if db.in_transaction:  # a damaged page has ended it
                        db.execute("rollback")
        except (apsw.Error, OSError, Degraded) as error:
            trouble = degraded_by(error)
            if trouble is None:
                raise
            if trouble is not error:
                self._health.degrade(trouble)
            raise trouble from error

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        with self._lock:
            generation, db = self._free.pop() if self._free else (self._generation, None)
        if db is None:
            db = self._connect()
        try:
            yield db
        finally:
            with self._lock:
                kept = generation == self._generation
                if kept:
                    self._free.append((generation, db))
            if not kept:
                db.close()
