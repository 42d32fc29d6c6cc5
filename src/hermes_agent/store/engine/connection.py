"""SQLite connections that carry what the functions of the store need besides SQL."""

import base64
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import apsw

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import PseudonymHasher
from hermes_agent.core.protocols import Clock
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.engine.write_ahead_log import lost_commits

DATABASE = "state.db"


@dataclass
class StoreContext:
    """What the connections of one store share."""

    folder: Path
    clock: Clock = time.time
    random: Callable[[int], bytes] = secrets.token_bytes
    fence: int = 0
    """The fence of this process; turns and runs with a newer one are not ours to write."""

    @cached_property
    def blobs(self) -> BlobStore:
        return BlobStore(self.folder / "blobs")

    @cached_property
    def pseudonyms(self) -> PseudonymHasher:
        """Only the writer uses it: opening it may create its key."""
        return PseudonymHasher.open(self.folder, self.random)

    # Both are read once, before the first connection: to close a file of the database drops the
    # locks that this process has on it.

    @cached_property
    def lost_commits(self) -> bool:
        return lost_commits(self.folder / DATABASE)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether the file is something else than a database."""
        path = self.folder / DATABASE
        if not path.exists():
            return False
        with path.open("rb") as file:
            return file.read(16) not in (b"", b"SQLite format 3\x00")

    def new_id(self) -> str:
        return base64.b32encode(self.random(5)).decode().lower()


CHECKSUM_BYTES = 8
"""At the end of each page of the file."""


@cache
def checksums() -> str:
    """The name of SQLite's layer that verifies the checksum of each page it reads."""
    loader = apsw.Connection(":memory:")
    loader.enable_load_extension(True)
    try:
        extras = Path(apsw.__file__).with_name("sqlite_extra_binaries")
        loader.load_extension(str(extras / "cksumvfs"))
    except apsw.Error as error:
        raise HermesError(
            f"this build of apsw has no checksums for databases: {error}",
            "install the wheel of apsw from PyPI",
        ) from None
    finally:
        loader.close()
    return "cksmvfs"


class Connection(apsw.Connection):
    def __init__(
        self,
        context: StoreContext,
        path: str,
        flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
    ) -> None:
        super().__init__(path, flags, checksums())
        self.context = context
        self.blobs = context.blobs
        self.now = context.clock

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self.execute(sql, tuple(values)).fetchall()
