"""SQLite connections that carry what the functions of the store need besides SQL."""

import base64
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import apsw

from hermes_agent.core.gateway import PseudonymHasher
from hermes_agent.core.protocols import Clock
from hermes_agent.store.blobs import BlobStore


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

    def new_id(self) -> str:
        return base64.b32encode(self.random(5)).decode().lower()


class Connection(apsw.Connection):
    def __init__(
        self,
        context: StoreContext,
        path: str,
        flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
    ) -> None:
        super().__init__(path, flags)
        self.context = context
        self.blobs = context.blobs
        self.now = context.clock

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self.execute(sql, tuple(values)).fetchall()
