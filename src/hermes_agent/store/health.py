"""Translates errors of SQLite and the file system into those of `core.errors`."""

import errno

import apsw

from hermes_agent.core.errors import Degraded, Stopping
from hermes_agent.core.records import Health

RESTORE = "`hermes restore` restores a backup; nothing was changed"
ROOM = "free some space; Hermes then continues automatically"


class Damaged(Degraded):
    """The database must not be written until a person has repaired it."""


class DamagedPage(Degraded):
    """A page of the database does not match its checksum. What is on other pages can be used."""


class Closed(Degraded, Stopping):
    """The store is closed. Work in progress waits, as for other trouble; requests are told to try
    again."""

    def __init__(self) -> None:
        super().__init__("the runtime is stopping", "try again in a moment")


_OF_FILES = {
    errno.ENOSPC: ("the disk is full", ROOM),
    errno.EDQUOT: ("the disk quota is used up", ROOM),
    errno.EROFS: ("the home is on a read-only file system", "mount it for writing"),
    errno.EACCES: ("no permission to write to the home", "give this user write access to it"),
    errno.EPERM: ("no permission to write to the home", "give this user write access to it"),
    errno.EIO: ("the disk reports errors", "check the system log"),
}


def degraded_by(error: BaseException) -> Degraded | None:
    """The error as `Degraded`; None if it is something else."""
    match error:
        case Degraded():
            return error
        case apsw.CorruptError() | apsw.NotADBError():
            return Damaged(f"state.db is damaged: {error}", RESTORE)
        case apsw.IOError() if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
            return DamagedPage(
                "a part of state.db is damaged: it does not match its checksum", RESTORE
            )
        case apsw.SQLError() if "fts5" in str(error):
            return DamagedPage(f"the search index in state.db is damaged: {error}", RESTORE)
        case apsw.FullError():
            return Degraded("the disk is full", ROOM)
        case apsw.Error() if _shared_memory_is_full(error):
            return Degraded("the disk is full", ROOM)
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return Degraded("the database is read-only", "make the home writable")
        case apsw.CantOpenError():
            return Degraded("the database cannot be opened", "make the home readable and writable")
        case apsw.BusyError() | apsw.LockedError():
            return Degraded("another program has locked the database", "stop it, or wait")
        case apsw.IOError():
            return Degraded(f"the disk reports errors: {error}", "check the system log")
        case OSError(errno=number) if number in _OF_FILES:
            return Degraded(*_OF_FILES[number])
    return None


def _shared_memory_is_full(error: apsw.Error) -> bool:
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE


class StoreHealth:
    """The state of the store. Damage lasts until it is opened again; other trouble may pass."""

    def __init__(self) -> None:
        self.health = Health()
        self._damage: Damaged | None = None

    def refuse_if_damaged(self) -> None:
        if self._damage is not None:
            raise Damaged(self._damage.message, self._damage.hint)

    def degrade(self, trouble: Degraded) -> None:
        if self._damage is not None:
            return
        self.health = Health("degraded", trouble.message, trouble.hint)
        if isinstance(trouble, Damaged):
            self._damage = trouble

    def recover(self) -> None:
        if self._damage is None:
            self.health = Health()
