"""The files of the views. A person's editor does not lock them: it may write in place or replace
one at any time. So a view is swapped as a whole, and the file that comes out is read again: if it
is not what was read before, somebody wrote in between."""

import errno
import fcntl
import hashlib
import os
import signal
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.files import write_private
from hermes_agent.core.knowledge import View
from hermes_agent.learning.atomic_swap import exchange

FILES: dict[View, str] = {"memory": "MEMORY.md", "user": "USER.md"}
VIEWS: tuple[View, ...] = tuple(FILES)
STATE = ".state.json"
KEPT_OUT = 3
_TRIES, _PAUSE = 100, 0.005

Rest = Literal["quiet", "open", "unknown"]
"""Whether nobody or somebody has a file open for writing, or the system cannot tell."""


class FileEntry(Struct, frozen=True):
    """A note in a view."""

    id: int
    text: str


class MergeBase(Struct, frozen=True):
    """A file as it was written or read; `digest` is empty if there was none."""

    digest: str = ""
    entries: tuple[FileEntry, ...] = ()
    time: float = 0.0
    saved: bool = False
    """A person saved it like this, so they have seen all of it."""


class DetachedFile(Struct, frozen=True):
    """A file that was swapped out, and its content at that time."""

    name: str
    held: MergeBase


class ViewState(Struct, frozen=True):
    base: MergeBase = MergeBase()
    """The file, if nobody touched it."""
    earlier: tuple[MergeBase, ...] = ()
    """Recent states, newest first: an editor may still show one."""
    over: str = ""
    """A digest of the notes that it was chosen from."""
    out: tuple[DetachedFile, ...] = ()
    """Files that an editor may still write to."""


class FolderSnapshot(Struct, frozen=True):
    """The files of one view."""

    data: bytes | None
    out: tuple[tuple[DetachedFile, bytes, Rest], ...]
    unplaced: bool
    """The newest draft was written but not swapped in."""


def digest_of(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


class ViewFiles:
    """Blocking. The caller holds the lock and calls in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, view: View) -> Path:
        """The file itself: a symbolic link stays one."""
        return Path(os.path.realpath(self._folder / FILES[view]))

    def load(self) -> dict[View, ViewState]:
        """Without a state, the content of the files is new."""
        try:
            data = (self._folder / STATE).read_bytes()
            return msgspec.json.decode(data, type=dict[View, ViewState])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    def save(self, states: dict[View, ViewState]) -> None:
        write_private(self._folder / STATE, msgspec.json.encode(states))

    def look(self, view: View, state: ViewState) -> FolderSnapshot:
        out: list[tuple[DetachedFile, bytes, Rest]] = []
        unplaced = False
        for one in state.out:
            path = self.path(view).with_name(one.name)
            self._finish(path)
            data, rest = _read(path, 1)
            if data is None:
                continue
            if one is state.out[-1] and digest_of(data) == state.base.digest:
                unplaced = True
                path.unlink()
            else:
                out.append((one, data, rest))
        data = _read_at_once(self.path(view))
        if digest_of(data) != state.base.digest:
            data, _ = _read(self.path(view), _TRIES)
        return FolderSnapshot(data, tuple(out), unplaced)

    def draft(self, view: View, data: bytes) -> str:
        """Write the next view beside the current one; its name."""
        path = self.path(view)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return Path(name).name

    def place(self, view: View, draft: str, *, new: bool) -> None:
        """Swap the draft in; the old file then has the draft's name. It stays a draft if somebody
        created or removed the file meanwhile."""
        path = self.path(view)
        beside = path.with_name(draft)
        try:
            if new:
                path.hardlink_to(beside)
                beside.unlink()
            elif not exchange(beside, path):
                self._replace(beside, path)
        except (FileExistsError, FileNotFoundError):
            return

    def remove(self, view: View, name: str) -> None:
        self.path(view).with_name(name).unlink(missing_ok=True)

    def _replace(self, draft: Path, path: Path) -> None:
        """Without an atomic swap, a second name keeps the replaced file."""
        old = draft.with_name(f"{draft.name}.old")
        old.hardlink_to(path)
        draft.replace(path)
        old.replace(draft)

    def _finish(self, draft: Path) -> None:
        """Complete an interrupted replacement, or undo it."""
        old = draft.with_name(f"{draft.name}.old")
        if old.exists():
            if draft.exists():
                old.unlink()
            else:
                old.replace(draft)


def _read_at_once(path: Path) -> bytes | None:
    try:
        with _opened(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def _opened(path: Path) -> BinaryIO:
    """Regular files only: opening a pipe would block."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def _read(path: Path, tries: int) -> tuple[bytes | None, Rest]:
    """The content, if possible when nobody is writing to it."""
    rest: Rest = "unknown"
    for attempt in range(tries):
        if attempt:
            time.sleep(_PAUSE)
        try:
            file = _opened(path)
        except FileNotFoundError:
            return None, "quiet"
        with file:
            rest = _rest(file.fileno())
            data = file.read()
        if rest != "open":
            break
    return data, rest


def _rest(handle: int) -> Rest:
    """A lease is granted only if nobody has the file open for writing, and ends when it is closed.
    Writers wait meanwhile, and we get a signal: SIGURG is ignored, the default would kill us."""
    if sys.platform != "linux":
        return "unknown"
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return "open"
    except OSError:  # another owner, or no leases on this file system
        return "unknown"
    return "quiet"
