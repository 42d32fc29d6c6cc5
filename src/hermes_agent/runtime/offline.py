"""What can be said of a home while no runtime answers: nothing is opened, made or changed."""

import os
from pathlib import Path

from hermes_agent.runtime import places

ROOM_BYTES = 1_000_000
"""With less room than this a disk counts as full."""

_SQLITE = b"SQLite format 3\x00"

Trouble = tuple[str, str]
"""What is wrong, and a hint."""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def lock_owner(home: str) -> int | None:
    """The living process that the lock file names."""
    for folder in (places.run_folder(home), places.other_run_folder(home)):
        try:
            pid = int(Path(folder, "lock").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if alive(pid):
            return pid
    return None


def free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def home_trouble(home: Path) -> Trouble | None:
    """Why a runtime could not keep anything in this home, as far as a look can tell."""
    if not home.exists():
        return None
    if not home.is_dir():
        return f"the home {home} is not a folder", "set HERMES_HOME to another place"
    if not os.access(home, os.W_OK | os.X_OK) or os.statvfs(home).f_flag & os.ST_RDONLY:
        return f"the home {home} is read-only", "make it writable; what it holds can be read"
    if (room := free_bytes(home)) < ROOM_BYTES:
        return f"the disk is full: {room // 1000} kB are free", "free some space"
    return database_trouble(home)


def database_trouble(home: Path) -> Trouble | None:
    """A database that is gone, empty or no database, where there was one before."""
    hint = "`hermes restore` puts a backup back; nothing was changed"
    database = home / "state.db"
    try:
        with database.open("rb") as file:
            start = file.read(len(_SQLITE))
    except FileNotFoundError:
        lost = (home / "store.id").exists()
        return (f"the database {database} is missing", hint) if lost else None
    except OSError as error:
        return f"{database} cannot be read: {error.strerror}", "check its permissions"
    if not start:
        lost = (home / "store.id").exists()
        return (f"the database {database} is empty", hint) if lost else None
    return None if start == _SQLITE else (f"{database} is damaged: it is not a database", hint)
