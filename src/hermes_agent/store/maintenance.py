"""Backup and consistency check of the database."""

import contextlib
import os
from pathlib import Path

import apsw

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.search.index import SPOKEN


def backup(db: Connection, target: Path) -> None:
    """Copy the database, as this connection sees it, to a new file."""
    if target.exists():
        raise UsageError(f"{target} exists already", "name a file that does not")
    draft = target.with_name(target.name + ".new")
    try:
        draft.unlink(missing_ok=True)
        copy = apsw.Connection(str(draft))
        try:
            with copy.backup("main", db, "main") as copying:
                copying.step(-1)
            copy.pragma("journal_mode", "delete")  # one file, with nothing beside it
            verdict = copy.pragma("quick_check")
        finally:
            copy.close()
        if verdict != "ok":
            raise HermesError(f"the copy is not sound: {verdict}", "`hermes doctor` says more")
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, OSError) as error:
        raise HermesError(
            f"the backup could not be written to {target}: {error}",
            "choose a folder that exists, can be written and has room",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def faults(db: Connection) -> list[str]:
    """Inconsistencies, one line each."""
    found = [line for (line,) in db.execute("pragma quick_check(20)") if line != "ok"]
    if found:
        return found
    gaps = db.execute(
        "select s.id from sessions s left join (select session, count(*) as n, max(number) as top "
        "from events group by session) e on e.session = s.key "
        "where s.last is not coalesce(e.n, 0) or s.last is not coalesce(e.top, 0)"
    )
    found += [f"session {id} has gaps in its events" for (id,) in gaps]
    messages = db.execute(f"select count(*) from events where kind in {SPOKEN}").get
    indexed = db.execute("select count(*) from words_docsize").get
    if messages != indexed:
        found.append(f"{messages} messages, but {indexed} in the search index")
    docs = db.execute("select count(*) from docs").get
    indexed = db.execute("select count(*) from doc_words_docsize").get
    if docs != indexed:
        found.append(f"{docs} texts to recall, but {indexed} in their index")
    found += [f"the stored text {digest} is missing" for digest in db.blobs.missing(db)]
    return found
