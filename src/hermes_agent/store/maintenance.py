"""Backup and consistency check of the database."""

import contextlib
import os
from contextlib import closing
from pathlib import Path

import apsw

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.events import decode
from hermes_agent.store.engine.connection import Connection, checksums
from hermes_agent.store.engine.database import connect_reader
from hermes_agent.store.health import DamagedPage, degraded_by
from hermes_agent.store.search.index import SPOKEN

PACKED = ("queued_messages", "gateway_inbox", "gateway_outbox", "gateway_media")
"""Tables other than that of events with texts that `db.blobs` has packed."""


def backup(db: Connection, target: Path) -> None:
    """Copy the database, as this connection sees it, to a new file."""
    if target.exists():
        raise UsageError(f"{target} already exists", "choose another name")
    draft = target.with_name(target.name + ".new")
    try:
        draft.unlink(missing_ok=True)
        copy = apsw.Connection(str(draft), vfs=checksums())
        # A new connection has no pages in memory that may be better than those on the disk.
        with closing(connect_reader(db.context)) as source, closing(copy):
            with copy.backup("main", source, "main") as copying:
                copying.step(-1)
            copy.pragma("journal_mode", "delete")  # one file, with nothing beside it
            if damage := [*_damage(copy), *db.blobs.faults(source)]:
                raise HermesError(f"not backed up: {damage[0]}", "`hermes doctor` says more")
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    except apsw.IOError as error:
        if (trouble := degraded_by(error)) is not None and isinstance(trouble, DamagedPage):
            raise trouble from error
        raise _not_written(target, error) from error
    except (apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError, OSError) as error:
        raise _not_written(target, error) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _not_written(target: Path, error: Exception) -> HermesError:
    return HermesError(
        f"the backup could not be written to {target}: {error}",
        "choose a folder that exists, can be written and has room",
    )


def _damage(db: apsw.Connection) -> list[str]:
    """What is wrong with the file and its indexes; every page in use is read."""
    return [str(line) for (line,) in db.execute("pragma integrity_check(20)") if line != "ok"]


def _unreadable(db: Connection) -> list[str]:
    """Bodies that cannot be decoded."""
    found = []
    rows = "select s.id, e.number, e.body from events e join sessions s on s.key = e.session"
    for session, number, body in db.execute(rows):
        try:
            decode(db.blobs.unpack(body))
        except (HermesError, ValueError) as error:
            why = error.message if isinstance(error, HermesError) else str(error)
            found.append(f"event {number} of session {session} cannot be read: {why}")
    for table in PACKED:
        for (body,) in db.execute(f"select body from {table} where body is not null"):
            try:
                db.blobs.unpack(body)
            except HermesError as error:
                found.append(f"{table}: {error.message}")
    return found


def faults(db: Connection) -> list[str]:
    """Inconsistencies, one line each."""
    with closing(connect_reader(db.context)) as fresh:  # as in `backup`
        return _faults(fresh)


def _faults(db: Connection) -> list[str]:
    found = _damage(db)
    if found:
        return found
    gaps = db.execute(
        "select s.id from sessions s left join (select session, count(*) as n, max(number) as top "
        "from events group by session) e on e.session = s.key "
        "where s.last is not coalesce(e.n, 0) or s.last is not coalesce(e.top, 0)"
    )
    found += [f"session {id} has gaps in its events" for (id,) in gaps]
    # The copies in a branch are indexed only once their original is deleted.
    messages = db.execute(
        "select count(*) filter (where e.number > s.branch_at or w.id is not null) "
        "from events e join sessions s on s.key = e.session left join words_docsize w "
        f"on w.id = e.id where e.kind in {SPOKEN}"
    ).get
    indexed = db.execute("select count(*) from words_docsize").get
    if messages != indexed:
        found.append(f"{messages} messages, but {indexed} in the search index")
    docs = db.execute("select count(*) from docs").get
    indexed = db.execute("select count(*) from doc_words_docsize").get
    if docs != indexed:
        found.append(f"{docs} texts to recall, but {indexed} in their index")
    return found + db.blobs.faults(db) + _unreadable(db)
