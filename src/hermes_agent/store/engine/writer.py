"""The one thread that writes. It commits all waiting writes together, so that many sessions share
one wait for the disk; a write that fails is rolled back alone."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw
from msgspec import Struct

from hermes_agent.core.errors import Degraded
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.health import RESTORE, Closed, Damaged, StoreHealth, degraded_by

T = TypeVar("T")
Hook = Callable[[Literal["before", "after"], tuple[str, ...]], None]

GROUP = 256
CHECKPOINT_PAGES = 400
IDLE_SECONDS = 0.25
STEP_SECONDS = 0.02
SHRINK_PAGES = 128
MAX_FREE_SHARE = 0.01
"""Share of free pages beyond which the idle writer gives some back to the file system."""
TIDY_EVERY = 16


class _Write(Struct, frozen=True):
    name: str
    work: Callable[[Connection], Any]
    future: asyncio.Future[Any]


class _Outcome(Struct, frozen=True):
    write: _Write
    value: Any = None
    error: Exception | None = None


class Writer:
    """`tidy` does one small step of upkeep when no write waits, and returns whether there is
    more."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[], Connection],
        health: StoreHealth,
        tidy: Callable[[Connection], bool],
        hook: Hook | None,
    ) -> None:
        self._path = path
        self._connect = connect
        self._health = health
        self._tidy = tidy
        self._hook = hook
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._db: Connection | None = None
        self._file: tuple[int, int] = (0, 0)
        self._journal_pages = 0
        self._checkpointed_at = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="hermes-writer", daemon=True)
        self._thread.start()

    async def do(self, name: str, work: Callable[[Connection], T]) -> T:
        """Run `work` in the writer's transaction and return when it is on the disk."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._closed:
            raise Closed
        self._queue.put(_Write(name, work, future))
        return await future

    async def close(self) -> None:
        """Finish the waiting writes, then close the file."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        untidy = behind = False
        pause = IDLE_SECONDS
        writes = 0
        while True:
            try:
                first = self._queue.get(timeout=pause if untidy else None)
            except queue.Empty:
                untidy = self._tidy_up() or self._shrink()
                if not untidy:
                    self._checkpoint(1)
                pause = STEP_SECONDS
                continue
            group, last = self._gather(first)
            if group:
                _settle(self._commit_apart(group))
                self._checkpoint(CHECKPOINT_PAGES)
                untidy, pause = True, IDLE_SECONDS
                writes += len(group)
                if behind or writes >= TIDY_EVERY:
                    behind = self._tidy_up()
                    writes = 0
            if last:
                break
        if self._db is not None:
            self._db.close()

    def _gather(self, first: _Write | None) -> tuple[list[_Write], bool]:
        """All waiting writes, and whether the writer is to stop."""
        group: list[_Write] = []
        write = first
        while write is not None:
            group.append(write)
            if len(group) == GROUP:
                return group, False
            try:
                write = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit_apart(self, group: Sequence[_Write]) -> list[_Outcome]:
        """Commit the group; if the disk refuses it, try each write alone: a small one may fit where
        a large one did not."""
        try:
            outcomes = self._commit(group)
        except Degraded as trouble:
            self._health.degrade(trouble)
            if len(group) == 1 or isinstance(trouble, Damaged):
                again = type(trouble)  # each caller gets an error of its own
                return [
                    _Outcome(write, error=again(trouble.message, trouble.hint)) for write in group
                ]
            return [outcome for write in group for outcome in self._commit_apart([write])]
        if any(outcome.error is None for outcome in outcomes):
            self._health.recover()
        return outcomes

    def _commit(self, group: Sequence[_Write]) -> list[_Outcome]:
        try:
            db = self._ready()
            db.execute("begin immediate")
            outcomes = [_attempt(db, write) for write in group]
            names = tuple(outcome.write.name for outcome in outcomes if outcome.error is None)
            if not names:
                db.execute("rollback")
                return outcomes
            if self._hook is not None:
                self._hook("before", names)
            db.execute("commit")
            if self._hook is not None:
                self._hook("after", names)
        except Exception as error:
            self._undo()
            if (trouble := degraded_by(error)) is not None:
                raise trouble from error
            return [_Outcome(write, error=error) for write in group]
        return outcomes

    def _ready(self) -> Connection:
        self._health.refuse_if_damaged()
        if self._db is None:
            self._db = self._connect()
            self._db.set_wal_hook(self._count_pages)
            self._file = self._identity()
        # SQLite would go on writing to a file that has been removed from the folder.
        if self._identity() != self._file:
            raise Damaged(f"{self._path} was moved or replaced while it was open", RESTORE)
        return self._db

    def _identity(self) -> tuple[int, int]:
        try:
            facts = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (facts.st_dev, facts.st_ino)

    def _undo(self) -> None:
        if self._db is None or not self._db.in_transaction:
            return
        try:
            self._db.execute("rollback")
        except apsw.Error:
            # The disk is so ill that even this fails: a fresh connection finds the last commit.
            self._db.close(True)
            self._db = None

    def _count_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._checkpointed_at:
            self._checkpointed_at = 0
        self._journal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, pages: int) -> None:
        """Move the write-ahead log into the database, a little at a time."""
        if self._db is None or self._journal_pages - self._checkpointed_at < pages:
            return
        self._checkpointed_at = self._journal_pages
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            # What was acknowledged is safe in the log; only its move into the database failed.
            self._health.degrade(degraded_by(error) or Degraded(f"checkpoint: {error}"))

    def _tidy_up(self) -> bool:
        if self._db is None:
            return False
        try:
            more = self._tidy(self._db)
        except apsw.Error as error:
            self._undo()
            self._health.degrade(degraded_by(error) or Degraded(f"upkeep: {error}"))
            return False
        self._checkpoint(CHECKPOINT_PAGES)
        return more

    def _shrink(self) -> bool:
        """Give some free pages back; returns whether there are more."""
        if self._db is None:
            return False
        free, pages = int(self._db.pragma("freelist_count")), int(self._db.pragma("page_count"))
        if free <= SHRINK_PAGES or free <= pages * MAX_FREE_SHARE:
            return False
        try:
            self._db.execute(f"pragma incremental_vacuum({SHRINK_PAGES})").fetchall()
        except apsw.Error as error:
            self._health.degrade(degraded_by(error) or Degraded(f"vacuum: {error}"))
            return False
        self._checkpoint(CHECKPOINT_PAGES)
        return int(self._db.pragma("freelist_count")) < free


def _attempt(db: Connection, write: _Write) -> _Outcome:
    db.execute("savepoint one")
    try:
        value = write.work(db)
    except Exception as error:
        if degraded_by(error) is not None:
            raise
        db.execute("rollback to one; release one")
        return _Outcome(write, error=error)
    db.execute("release one")
    return _Outcome(write, value)


def _settle(outcomes: Sequence[_Outcome]) -> None:
    """Resolve the futures, each in its own loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.write.future.get_loop(), []).append(outcome)
    for loop, theirs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # their loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_tell, theirs)


def _tell(outcomes: Sequence[_Outcome]) -> None:
    for outcome in outcomes:
        future = outcome.write.future
        if future.done():  # the caller was cancelled; the write stands
            continue
        if outcome.error is not None:
            future.set_exception(outcome.error)
        else:
            future.set_result(outcome.value)
