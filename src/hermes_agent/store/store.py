"""The store: `core.journal.Journal` on one SQLite file in the home."""

import base64
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from hermes_agent.core.errors import Degraded
from hermes_agent.core.events import Event, Recorded
from hermes_agent.core.gateway import GatewayStore
from hermes_agent.core.incidents import IncidentStore
from hermes_agent.core.jobs import JobStore
from hermes_agent.core.journal import Journal
from hermes_agent.core.knowledge import KnowledgeStore
from hermes_agent.core.messages import Prompt, Usage
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import (
    AuditEntry,
    AuditReport,
    Cost,
    CostKey,
    Found,
    Health,
    Judgement,
    NewSession,
    Parked,
    Question,
    SearchFilter,
    Session,
    SessionMessage,
    Turn,
)
from hermes_agent.store import maintenance
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.engine.database import DATABASE, connect_reader, connect_writer
from hermes_agent.store.engine.readers import Readers
from hermes_agent.store.engine.writer import Hook, Writer
from hermes_agent.store.gateway.store import StoredGateway
from hermes_agent.store.health import StoreHealth
from hermes_agent.store.incidents.store import StoredIncidents
from hermes_agent.store.jobs.store import StoredJobs
from hermes_agent.store.journal import audit, commands, costs, queries
from hermes_agent.store.journal.append import add_cost, add_events, place_of
from hermes_agent.store.knowledge.store import SqliteKnowledgeStore
from hermes_agent.store.search.index import add_ranking, search, tidy

T = TypeVar("T")
READERS = 3


def _read_only() -> Degraded:
    return Degraded(
        "the home is read-only: nothing new can be kept",
        "make it writable, then `hermes restart`",
    )


class Store(Journal):
    """Made by `Store.open`."""

    def __init__(
        self, folder: Path, clock: Clock, random: Callable[[int], bytes], hook: Hook | None
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._random = random
        self._bodies = BlobStore(folder / "blobs")
        self._condition = StoreHealth()
        self._fence = 0
        self._readers = Readers(self._connect_reader, self._condition, READERS)
        self._writer: Writer | None = None
        self._hook = hook
        self.knowledge: KnowledgeStore = SqliteKnowledgeStore(self._write, self._read, clock)
        self.incidents: IncidentStore = StoredIncidents(self._write, self._read, clock)
        self.jobs: JobStore = StoredJobs(self._write, self._read, clock, lambda: self._fence)
        self.gateway: GatewayStore = StoredGateway(
            self._write, self._read, clock, self._bodies, folder, random
        )

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
        """Open the store in a home, or make it there. A database that is damaged or gone is not
        replaced: the store opens degraded and says why. `hook` is called in the writer's thread
        just before and just after each commit, with the names of the writes in it."""
        store = cls(folder, clock, random, hook)
        try:
            if readonly:
                store._condition.ill(_read_only())
                await store._read(lambda _db: None)
            else:
                store._start_writer()
                await store._write("open", store._bodies.sweep)
        except Degraded as trouble:
            store._condition.ill(trouble)
        except BaseException:
            await store.close()
            raise
        return store

    def _start_writer(self) -> None:
        self._writer = Writer(
            self._folder / DATABASE, self._connect_writer, self._condition, tidy, self._hook
        )

    def _connect_writer(self) -> apsw.Connection:
        db = connect_writer(self._folder, self._clock(), self._new_id)
        self._fence = commands.fence_of(db)
        self._readers.renew()
        return db

    def _connect_reader(self) -> apsw.Connection:
        self._condition.refuse_if_damaged()
        db = connect_reader(self._folder)
        add_ranking(db)
        return db

    def _new_id(self) -> str:
        return base64.b32encode(self._random(5)).decode().lower()

    async def _write(self, name: str, work: Callable[[apsw.Connection], T]) -> T:
        if self._writer is None:
            raise _read_only()
        return await self._writer.do(name, work)

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._readers.do(work)

    @property
    def health(self) -> Health:
        return self._condition.health

    async def probe(self) -> Health:
        """Try a tiny write, and say how the store is."""

        def touch(db: apsw.Connection) -> None:
            db.execute("insert or replace into meta values ('probed', ?)", (self._clock(),))

        try:
            await self._write("probe", touch)
        except Degraded as trouble:
            self._condition.ill(trouble)
        return self.health

    async def open_session(self, new: NewSession, prompt: Prompt) -> Session:
        def work(db: apsw.Connection) -> Session:
            now = self._clock()
            id = commands.open_session(db, self._bodies, new, prompt, now, self._new_id)
            return queries.session(db, id)

        return await self._write("open_session", work)

    async def session(self, reference: str) -> Session:
        return await self._read(lambda db: queries.session(db, reference))

    async def sessions(
        self, limit: int = 50, *, key: str = "", parent: str | None = None
    ) -> Sequence[Session]:
        return await self._read(lambda db: queries.sessions(db, limit, key, parent))

    async def rename_session(self, id: str, name: str) -> None:
        await self._write("rename_session", lambda db: commands.rename_session(db, id, name))

    async def delete_session(self, id: str) -> None:
        await self._write(
            "delete_session", lambda db: commands.delete_session(db, self._bodies, id)
        )
        await self._write("sweep", self._bodies.sweep)

    async def prompt(self, digest: str) -> Prompt:
        return await self._read(lambda db: queries.prompt(db, digest))

    async def receive(self, session: str, message: SessionMessage) -> bool:
        return await self._write(
            "receive",
            lambda db: commands.receive(db, self._bodies, session, message, self._clock()),
        )

    async def waiting(self, session: str, key: str) -> SessionMessage | None:
        return await self._read(lambda db: queries.waiting(db, self._bodies, session, key))

    async def cancel_message(self, session: str, key: str) -> bool:
        return await self._write("withdraw", lambda db: commands.cancel_message(db, session, key))

    async def sessions_with_queued_messages(self) -> Sequence[str]:
        return await self._read(queries.sessions_with_queued_messages)

    async def start_turn(self, session: str) -> Turn | None:
        return await self._write(
            "start_turn",
            lambda db: commands.start_turn(db, self._bodies, session, self._fence, self._clock()),
        )

    async def claim_unfinished(self) -> Sequence[Turn]:
        def work(db: apsw.Connection) -> Sequence[Turn]:
            # Known to the writer at once: a turn may be started in the same transaction.
            self._fence, turns = commands.claim_unfinished(db)
            return turns

        return await self._write("take_over", work)

    async def take_queued_messages(self, turn: Turn) -> Sequence[Recorded]:
        return await self._write(
            "take_mail",
            lambda db: commands.take_queued_messages(db, self._bodies, turn, self._clock()),
        )

    async def append(self, turn: Turn, *events: Event) -> Sequence[Recorded]:
        return await self._write(
            "append",
            lambda db: add_events(place_of(db, self._bodies, turn, self._clock()), events),
        )

    async def note(self, session: str, *events: Event) -> Sequence[Recorded]:
        return await self._write(
            "note", lambda db: commands.note(db, self._bodies, session, events, self._clock())
        )

    async def charge(self, model: str, use: str, usage: Usage, cost: float | None) -> int:
        nobody = ("", "")
        return await self._write(
            "charge", lambda db: add_cost(db, self._clock(), nobody, model, use, usage, cost)
        )

    async def refund(self, charge: int) -> None:
        await self._write("take_back", lambda db: costs.remove(db, charge))

    async def events(self, session: str, after: int = 0) -> Sequence[Recorded]:
        return await self._read(lambda db: queries.events(db, self._bodies, session, after))

    async def last_number(self, session: str) -> int:
        return await self._read(lambda db: queries.last_number(db, session))

    async def unfinished_turn(self, session: str) -> Turn | None:
        return await self._read(lambda db: queries.unfinished_turn(db, session))

    async def parked(self) -> Sequence[Parked]:
        return await self._read(lambda db: queries.parked(db, self._bodies))

    async def questions(self) -> Sequence[Question]:
        return await self._read(lambda db: queries.questions(db, self._bodies))

    async def judgements(
        self, since: float = 0.0, session: str = "", limit: int = 100_000
    ) -> Sequence[Judgement]:
        return await self._read(
            lambda db: queries.judgements(db, self._bodies, since, session, limit)
        )

    async def audit(
        self, since: float = 0.0, session: str = "", limit: int = 1000, after: int = 0
    ) -> Sequence[AuditEntry]:
        return await self._read(lambda db: audit.entries(db, since, session, limit, after))

    async def verify_audit(self, head: str = "") -> AuditReport:
        return await self._read(lambda db: audit.verify(db, self._bodies, head))

    async def spent(self, since: float) -> float:
        return await self._read(lambda db: costs.spent(db, since))

    async def spent_by(self, session: str) -> tuple[float, int]:
        return await self._read(lambda db: costs.spent_by(db, session))

    async def costs(
        self, by: CostKey, since: float = 0.0, until: float | None = None, session: str = ""
    ) -> Sequence[Cost]:
        return await self._read(lambda db: costs.listed(db, by, since, until, session))

    async def search(self, query: str, filter: SearchFilter | None = None) -> Sequence[Found]:
        wanted = filter or SearchFilter()
        now = self._clock()
        return await self._read(lambda db: search(db, self._bodies, query, wanted, now))

    async def backup(self, target: Path) -> None:
        await self._read(lambda db: maintenance.back_up(db, target))

    async def check(self) -> Sequence[str]:
        try:
            return await self._read(lambda db: maintenance.faults(db, self._bodies))
        except Degraded as trouble:
            return [trouble.message]

    async def close(self) -> None:
        """Finish what was asked for, then let go of the files."""
        await self._readers.close()
        if self._writer is not None:
            await self._writer.close()
