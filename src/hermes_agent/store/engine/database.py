"""Opens the database. A marker file beside it says that there must be one, and which."""

from pathlib import Path

import apsw

from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.core.files import write_durably
from hermes_agent.store.engine.connection import (
    CHECKSUM_BYTES,
    DATABASE,
    Connection,
    StoreContext,
)
from hermes_agent.store.engine.migrations import applied, migrate, pending
from hermes_agent.store.health import RESTORE, Damaged

MARKER = "store.id"
BUSY_MS = 30_000
JOURNAL_BYTES = 16_000_000
READER_CACHE_KB = 16_000


def _exists(context: StoreContext) -> bool:
    """Whether the database exists; `Damaged` if it should and does not, or has lost something."""
    folder = context.folder
    path = folder / DATABASE
    if context.lost_commits:
        raise Damaged(
            f"{path}-wal is damaged: the latest writes are lost",
            f"`hermes restore` restores a backup; to continue without it, remove {path}-shm",
        )
    size = path.stat().st_size if path.exists() else None
    if not size:
        if (folder / MARKER).exists():
            what = "is missing" if size is None else "is empty"
            raise Damaged(f"the database {path} {what}", RESTORE)
        return False
    if context.is_foreign:
        raise Damaged(f"{path} is not a database", RESTORE)
    return True


def _identity(db: apsw.Connection, folder: Path) -> str | None:
    """The id of the store, checked against the marker; None if it has none yet."""
    tables = {name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
    if tables and "meta" not in tables:
        raise Damaged(f"{folder / DATABASE} is not a database of Hermes", RESTORE)
    row = db.execute("select value from meta where name = 'id'").fetchone() if tables else None
    found = None if row is None else str(row[0])
    marker = folder / MARKER
    if marker.exists() and (wanted := marker.read_text().strip()) != found:
        raise Damaged(
            f"{folder / DATABASE} belongs to another store ({found or 'no id'}, not {wanted})",
            RESTORE,
        )
    return found


def connect_writer(context: StoreContext) -> Connection:
    """Open the database for writing; create it if the home has never had one."""
    folder = context.folder
    exists = _exists(context)
    folder.mkdir(parents=True, exist_ok=True)
    db = Connection(context, str(folder / DATABASE))
    try:
        db.set_busy_timeout(BUSY_MS)
        identity = _identity(db, folder) if exists else None
        if applied(db):
            _check_header(db)
        else:  # possible only before anything is written
            db.reserve_bytes("main", CHECKSUM_BYTES)
            db.pragma("auto_vacuum", "incremental")
        if db.pragma("journal_mode") != "wal":  # a new database, or one that was restored
            db.pragma("journal_mode", "wal")
        if pending(db):
            migrate(db, context.clock())
        # `FULL` makes a commit wait for the disk: what is acknowledged survives a power cut.
        db.pragma("synchronous", "full")
        db.pragma("journal_size_limit", JOURNAL_BYTES)
        db.execute("begin immediate")
        if identity is None:
            identity = context.new_id()
            db.execute("insert into meta values ('id', ?)", (identity,))
        db.execute("commit")
        if not (folder / MARKER).exists():
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            write_durably(folder / MARKER, identity.encode() + b"\n")
    except BaseException:
        db.close()
        raise
    return db


def _check_header(db: apsw.Connection) -> None:
    """The header says whether pages have checksums, and has none itself."""
    if db.reserve_bytes("main") != CHECKSUM_BYTES:
        pending(db)  # refuses what an unreleased version has made
        raise Damaged("the header of state.db is damaged", RESTORE)


def connect_reader(context: StoreContext) -> Connection:
    """Open the database for reading. Nothing is created or changed."""
    folder = context.folder
    path = folder / DATABASE
    if not _exists(context):
        raise Degraded(f"no database in {folder} yet", "the first message creates it")
    try:
        db = _readable(Connection(context, str(path), apsw.SQLITE_OPEN_READONLY))
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        journal = path.with_name(DATABASE + "-wal")
        if journal.exists() and journal.stat().st_size:
            raise
        # In a folder that cannot be written, SQLite reads a cleanly closed database only when
        # it is told that nobody changes it.
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        db = _readable(Connection(context, f"{path.absolute().as_uri()}?immutable=1", flags))
    db.pragma("cache_size", -READER_CACHE_KB)
    return db


def _readable(db: Connection) -> Connection:
    try:
        db.set_busy_timeout(BUSY_MS)
        _identity(db, db.context.folder)
        if applied(db):
            _check_header(db)
        if pending(db):
            raise HermesError(
                "the database was made by an older Hermes and cannot be changed now",
                "make the home writable and start Hermes once",
            )
    except BaseException:
        db.close()
        raise
    return db
