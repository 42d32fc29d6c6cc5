"""Texts as columns. They are packed, which halves the database; a large one lies in a file named
by its hash, and the column says which."""

import hashlib
import zlib
from pathlib import Path

import apsw

from hermes_agent.core.errors import HermesError
from hermes_agent.store.engine.database import rows, write_durably
from hermes_agent.store.health import RESTORE

LARGE = 64 * 1024
SMALL = 100
_REFERENCE = "blob:"
# Pieces that most bodies have in common, the commonest last. It is part of the file format: a
# database written with these bytes is read with these bytes.
_COMMON = (
    b'{"kind":"compacted","first":1,"last":,"summary":""{"kind":"call_judged","effect":"","action":'
    b'"allow","reason":"","rule":""}{"kind":"question_asked","id":"","purpose":"approval","text":"",'
    b'"expires":17,"effect":"","choices":["yes","no"]}{"kind":"turn_finished","turn":1,"reason":"done","err'
    b'or":"","hint":"","steps":{"kind":"model_requested","step":1,"model":"openai/","messages":,"di'
    b'gest":"}{"kind":"message_taken","key":"","text":"","source":"cli","interactive":false}{"kind"'
    b':"call_intended","effect":"","call_id":"","attempt":1,"note":{}}{"kind":"call_finished","effe'
    b'ct":"","call_id":"call_","tool":"terminal","text":"\\n","ok":true,"seconds":0.0,"data":{}}{"ki'
    b'nd":"replied","step":1,"text":"","calls":[{"id":"call_","name":"terminal","arguments":"{\\"comm'
    b'and\\":\\"\\"}"}],"usage":{"input":,"output":,"cached":0},"stop":"calls","model":"","cost":null,'
    b'"seconds":0.0}],"usage":{"input":0,"output":0,"cached":0},"stop":"end"'
)


class BlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def pack(self, db: apsw.Connection, session: int, data: bytes) -> str | bytes:
        """The column for this text. A file is on the disk before the row that names it."""
        if len(data) <= SMALL:
            return data.decode()
        if len(data) <= LARGE:
            packer = zlib.compressobj(wbits=-15, zdict=_COMMON)
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
            return zlib.decompressobj(wbits=-15, zdict=_COMMON).decompress(column)
        if not column.startswith(_REFERENCE):
            return column
        digest = column.removeprefix(_REFERENCE)
        try:
            data = self.path(digest).read_bytes()
        except FileNotFoundError:
            raise HermesError(f"the stored text {digest} is missing", RESTORE) from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise HermesError(f"the stored text {digest} is damaged", RESTORE)
        return data

    def release(self, db: apsw.Connection, session: int) -> None:
        """The session goes: note the files that nobody else uses."""
        db.execute(
            "insert or ignore into unused_blobs select hash from blobs as mine "
            "where session = ?1 and "
            "not exists (select 1 from blobs where hash = mine.hash and session <> ?1)",
            (session,),
        )
        db.execute("delete from blobs where session = ?", (session,))

    def sweep(self, db: apsw.Connection) -> None:
        """Remove the files noted by `release`, unless somebody has come to use one since."""
        for (digest,) in rows(db, "select hash from unused_blobs"):
            if db.execute("select 1 from blobs where hash = ?", (digest,)).fetchone() is None:
                self.path(digest).unlink(missing_ok=True)
            db.execute("delete from unused_blobs where hash = ?", (digest,))

    def missing(self, db: apsw.Connection) -> list[str]:
        digests = rows(db, "select distinct hash from blobs")
        return [digest for (digest,) in digests if not self.path(digest).exists()]
