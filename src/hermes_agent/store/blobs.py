"""Compressed text columns, which halve the database. A large text is a file named by its hash,
which the column refers to."""

import hashlib
import zlib
from functools import cache
from pathlib import Path

import apsw

from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import write_durably
from hermes_agent.store.health import RESTORE

LARGE = 64 * 1024
SMALL = 100
_REFERENCE = "blob:"


@cache
def _dictionary() -> bytes:
    """Text that most stored bodies have in common, the most common last. It is part of the file
    format: a database can only be read with the bytes it was written with."""
    lines = Path(__file__).with_name("schema").joinpath("dictionary.jsonl").read_bytes()
    return b"".join(lines.splitlines())


class BlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def pack(self, db: apsw.Connection, session: int, data: bytes) -> str | bytes:
        """The column value of a text. A file is on disk before the row that names it."""
        if len(data) <= SMALL:
            return data.decode()
        if len(data) <= LARGE:
            packer = zlib.compressobj(wbits=-15, zdict=_dictionary())
            return packer.compress(data) + packer.flush()
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_durably(path, data)
            except OSError:
                path.with_name(path.name + ".new").unlink(missing_ok=True)
                raise
        db.execute("insert or ignore into blobs values (?, ?)", (digest, session))
        return _REFERENCE + digest

    def unpack(self, column: str | bytes) -> str | bytes:
        if isinstance(column, bytes):
            try:
                return zlib.decompressobj(wbits=-15, zdict=_dictionary()).decompress(column)
            except zlib.error as error:
                raise HermesError(f"a stored text is damaged: {error}", RESTORE) from None
        if not column.startswith(_REFERENCE):
            return column
        digest = column.removeprefix(_REFERENCE)
        try:
            data = self.path(digest).read_bytes()
        except FileNotFoundError:
            raise HermesError(f"the stored text {digest} is missing", RESTORE) from None
        except OSError as error:
            why = error.strerror or str(error)
            raise HermesError(f"the stored text {digest} cannot be read: {why}", RESTORE) from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise HermesError(f"the stored text {digest} is damaged", RESTORE)
        return data

    def release(self, db: apsw.Connection, session: int) -> None:
        """The session is deleted: note the files that no other uses."""
        db.execute(
            "insert or ignore into unused_blobs select hash from blobs as mine "
            "where session = ?1 and "
            "not exists (select 1 from blobs where hash = mine.hash and session <> ?1)",
            (session,),
        )
        db.execute("delete from blobs where session = ?", (session,))

    def sweep(self, db: apsw.Connection) -> None:
        """Delete the files noted by `release`, unless one is in use again."""
        for digest in _digests(db, "select hash from unused_blobs"):
            if db.execute("select 1 from blobs where hash = ?", (digest,)).fetchone() is None:
                self.path(digest).unlink(missing_ok=True)
            db.execute("delete from unused_blobs where hash = ?", (digest,))

    def faults(self, db: apsw.Connection) -> list[str]:
        """Files that are missing or damaged, a sentence each."""
        found = []
        for digest in _digests(db, "select distinct hash from blobs"):
            try:
                self.unpack(_REFERENCE + digest)
            except HermesError as error:
                found.append(error.message)
        return found


def _digests(db: apsw.Connection, sql: str) -> list[str]:
    return [str(digest) for (digest,) in db.execute(sql).fetchall()]
