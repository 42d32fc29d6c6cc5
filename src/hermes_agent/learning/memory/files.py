"""The files of the views. Nobody else locks them: a person's editor may write into one in place or
put another in its stead at any time. So a view is exchanged whole, and what comes out of the
exchange is looked at: when it is not what was read before, somebody wrote in between."""

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

from hermes_agent.core.knowledge import View
from hermes_agent.core.pseudonyms import write_private
from hermes_agent.learning.atomic_swap import exchange

FILES: dict[View, str] = {"memory": "MEMORY.md", "user": "USER.md"}
VIEWS: tuple[View, ...] = tuple(FILES)
STATE = ".state.json"
KEPT_OUT = 3
_TRIES, _PAUSE = 100, 0.005

Rest = Literal["quiet", "open", "unknown"]
"""Whether anybody has a file open for writing: nobody, somebody, or this system cannot tell."""


class FileEntry(Struct, frozen=True):
    """A note as a view shows it."""

    id: int
    text: str


class MergeBase(Struct, frozen=True):
    """A file as it was written or read at a time; `digest` is empty where there was none."""

    digest: str = ""
    entries: tuple[FileEntry, ...] = ()
    time: float = 0.0
    saved: bool = False
    """Somebody left it like this: they have seen all that is in it."""


class DetachedFile(Struct, frozen=True):
    """A file that was taken out of its place, and what it held then."""

    name: str
    held: MergeBase


class ViewState(Struct, frozen=True):
    base: MergeBase = MergeBase()
    """What the file holds if nobody touched it."""
    earlier: tuple[MergeBase, ...] = ()
    """What it held a while ago, newest first: an editor may still show it."""
    over: str = ""
    """What it was chosen from, as a digest."""
    out: tuple[DetachedFile, ...] = ()
    """Files that an editor may still be writing to."""


class FolderSnapshot(Struct, frozen=True):
    """What lies in the folder for one view."""

    data: bytes | None
    out: tuple[tuple[DetachedFile, bytes, Rest], ...]
    unplaced: bool
    """The newest draft was written and did not get into its place."""


def digest_of(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


class ViewFiles:
    """Blocking: to be called in a thread, by whoever has the lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, view: View) -> Path:
        """Where the view really is: a link that somebody made of it stays one."""
        return Path(os.path.realpath(self._folder / FILES[view]))

    def load(self) -> dict[View, ViewState]:
        """Without it, what the files hold is read as if it were new."""
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
        """Write the next view beside the present one; its name."""
        path = self.path(view)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return Path(name).name

    def place(self, view: View, draft: str, *, new: bool) -> None:
        """Put the draft into its place; what was there has the draft's name then. It stays a draft
        when somebody made or removed the file meanwhile."""
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
        """Where files cannot be exchanged: a second name keeps what is replaced."""
        old = draft.with_name(f"{draft.name}.old")
        old.hardlink_to(path)
        draft.replace(path)
        old.replace(draft)

    def _finish(self, draft: Path) -> None:
        """A replacement that was cut short is taken to its end, or to its beginning."""
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
    """Only a plain file: a pipe would be waited for, for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    return os.fdopen(handle, "rb")


def _read(path: Path, tries: int) -> tuple[bytes | None, Rest]:
    """What a file holds, if possible when nobody is in the middle of writing to it."""
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
    """A lease is granted only on a file that nobody has open for writing; it ends when the file
    is closed. Who wants to write meanwhile waits for that, and we are sent a signal: one that is
    ignored, unlike the usual one, which would end the process."""
    if sys.platform != "linux":
        return "unknown"
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return "open"
    except OSError:  # not our file, or a file system without leases
        return "unknown"
    return "quiet"
