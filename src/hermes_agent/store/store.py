"""The store of a home: one SQLite file with the journal and the other parts."""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes_agent.core.errors import Degraded
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import Health
from hermes_agent.store import maintenance
from hermes_agent.store.engine.connection import DATABASE, Connection, StoreContext
from hermes_agent.store.engine.database import connect_reader, connect_writer
from hermes_agent.store.engine.operations import Engine, read, read_only, write
from hermes_agent.store.engine.readers import Readers
from hermes_agent.store.engine.writer import Hook, Writer
from hermes_agent.store.gateway.store import GatewayStore
from hermes_agent.store.health import Damaged, DamagedPage, StoreHealth
from hermes_agent.store.incidents.store import IncidentStore
from hermes_agent.store.jobs.store import JobStore
from hermes_agent.store.journal import commands
from hermes_agent.store.journal.store import Journal
from hermes_agent.store.knowledge.store import KnowledgeStore
from hermes_agent.store.search import index

READERS = 3


class Store(Journal):
    """Opened with `Store.open`."""

    def __init__(self, context: StoreContext, hook: Hook | None) -> None:
        self._context = context
        self._health = StoreHealth()
        self._hook = hook
        super().__init__(Engine(Readers(self._connect_reader, self._health, READERS)))
        self.knowledge = KnowledgeStore(self._engine)
        self.incidents = IncidentStore(self._engine)
        self.jobs = JobStore(self._engine)
        self.gateway = GatewayStore(self._engine)

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        clock: Clock = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        hook: Hook | None = None,
        readonly: bool = False,
    ) -> "Store":
        """Open the store in a home, or create it there. A database that is damaged or missing is
        not replaced: the store opens degraded and says why. `hook` is called in the writer's thread
        just before and just after each commit, with the names of the writes in it."""
        store = cls(StoreContext(folder, clock, random), hook)
        try:
            if readonly:
                store._health.degrade(read_only())
                await store._engine.read(lambda _db: None)
            else:
                store._start_writer()
                await store._engine.sweep()
        except DamagedPage as trouble:  # without this page, nothing can be used
            store._health.degrade(Damaged(trouble.message, trouble.hint))
        except Degraded as trouble:
            store._health.degrade(trouble)
        except BaseException:
            await store.close()
            raise
        return store

    def _start_writer(self) -> None:
        path = self._context.folder / DATABASE
        self._engine.writer = Writer(
            path, self._connect_writer, self._health, index.tidy, self._hook
        )

    def _connect_writer(self) -> Connection:
        db = connect_writer(self._context)
        self._context.fence = commands.fence_of(db)
        self._engine.readers.renew()
        return db

    def _connect_reader(self) -> Connection:
        self._health.refuse_if_damaged()
        db = connect_reader(self._context)
        index.add_ranking(db)
        return db

    @property
    def health(self) -> Health:
        return self._health.health

    async def probe(self) -> Health:
        """Try a tiny write, and return how the store is."""
        try:
            await self._probe()
        except Degraded as trouble:
            self._health.degrade(trouble)
        return self.health

    _probe = write(commands.probe)
    backup = read(maintenance.backup)
    _faults = read(maintenance.faults)

    async def check(self) -> Sequence[str]:
        try:
            return await self._faults()
        except Degraded as trouble:
            return [trouble.message]

    async def close(self) -> None:
        """Finish what was asked for, then close the files."""
        await self._engine.close()
