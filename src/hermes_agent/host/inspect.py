"""Diagnoses a home without a runtime. Opens, creates and changes nothing."""

import os
import re
import stat
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.host import paths

ROOM_BYTES = 1_000_000
"""A disk with less free space than this counts as full."""

_SQLITE = b"SQLite format 3\x00"
_ANOTHER = "set HERMES_HOME to another folder"

MARK = b"HERMES_SPOOL="
"""In the environment of every shell of the agent, and of its child processes."""

Trouble = tuple[str, str]
"""What is wrong, and a hint."""


def alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def lock_owner(home: str) -> int | None:
    """The live process named in the lock file."""
    for folder in (paths.run_folder(home), paths.other_run_folder(home)):
        try:
            pid = int(Path(folder, "lock").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if alive(pid):
            return pid
    return None


def supervisor(home: str) -> tuple[int, str]:
    """The process that restarts the runtime after a crash (0: none), and why it gave up."""
    try:
        word, _, why = Path(paths.supervisor_note(home)).read_text(encoding="utf-8").partition(" ")
        pid = int(word)
    except (OSError, ValueError):
        return 0, ""
    if pid and not (alive(pid) and b"supervisor.sh" in _proc(pid, "cmdline")):
        return 0, ""
    return pid, why.strip()


def is_runtime(pid: int) -> bool:
    """Whether a process was started as `hermes serve`; other programs may own a home too."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"serve" in words


def is_agents_command(pid: int) -> bool:
    """Whether the process descends from a shell of the agent. `daemon.sh` sets its limit of file
    locks to 0: Linux ignores that limit, but all descendants inherit it, and only root can raise
    it. Root's environment and parents are looked at, too."""
    if re.search(rb"^Max file locks +0 +0 ", _proc(pid, "limits"), re.MULTILINE):
        return True
    while pid > 1:
        if b"\0" + MARK in b"\0" + _proc(pid, "environ"):
            return True
        stat = _proc(pid, "stat")
        pid = int(stat.rsplit(b")", 1)[1].split()[1]) if stat else 0
    return False


def _proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # gone, or somebody else's
        return b""


def refuse_agent(what: str) -> None:
    """Raise if this process descends from a shell of the agent: what the agent may do must not be
    changed by its own commands."""
    if is_agents_command(os.getpid()):
        raise HermesError(f"a command of the agent may not {what}", "ask the user to do it")


def free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def out_of_reach(home: Path) -> Trouble | None:
    """Why a home cannot be read or created."""
    try:
        is_folder = stat.S_ISDIR(home.stat().st_mode)
    except FileNotFoundError:
        if home.is_symlink():
            return f"the home {home} is a dangling link", f"fix the link, or {_ANOTHER}"
        return _cannot_be_made(home)
    except OSError as error:
        if isinstance(error, NotADirectoryError):
            return f"the home {home} is not a folder: part of its path is a file", _ANOTHER
        return f"cannot access the home {home}: {error.strerror}", _ANOTHER
    if not is_folder:
        return f"the home {home} is not a folder", _ANOTHER
    if not os.access(home, os.R_OK | os.X_OK):
        return f"no permission to read the home {home}", f"chmod 700 it, or {_ANOTHER}"
    return None


def _cannot_be_made(home: Path) -> Trouble | None:
    above = next(folder for folder in home.parents if os.path.lexists(folder))
    if not above.is_dir():
        return f"cannot create the home {home}: {above} is not a folder", _ANOTHER
    if not os.access(above, os.W_OK | os.X_OK):
        return f"cannot create the home {home}: no permission to write to {above}", _ANOTHER
    if free_bytes(above) < ROOM_BYTES:
        return f"cannot create the home {home}: the disk of {above} is full", _ANOTHER
    return None


def home_trouble(home: Path) -> Trouble | None:
    """Why a runtime could not write to this home, as far as can be seen from outside."""
    trouble = out_of_reach(home)
    if trouble is not None or not home.exists():
        return trouble
    if not os.access(home, os.W_OK | os.X_OK) or os.statvfs(home).f_flag & os.ST_RDONLY:
        return f"the home {home} is read-only", "make it writable; reading still works"
    if (room := free_bytes(home)) < ROOM_BYTES:
        return f"the disk is full: {room // 1000} kB free", "free some space"
    return database_trouble(home)


def database_trouble(home: Path) -> Trouble | None:
    """Whether the database is missing, empty or damaged although there was one before."""
    hint = "`hermes restore` restores a backup; nothing was changed"
    database = home / "state.db"
    try:
        with database.open("rb") as file:
            start = file.read(len(_SQLITE))
    except FileNotFoundError:
        lost = (home / "store.id").exists()
        return (f"the database {database} is missing", hint) if lost else None
    except OSError as error:
        return f"cannot read {database}: {error.strerror}", "check its permissions"
    if not start:
        lost = (home / "store.id").exists()
        return (f"the database {database} is empty", hint) if lost else None
    return None if start == _SQLITE else (f"{database} is damaged: not a SQLite database", hint)
