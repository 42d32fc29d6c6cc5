"""A home: its folders and its lock."""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.core.errors import HermesError, HomeLocked
from hermes_agent.core.files import try_lock
from hermes_agent.host import paths
from hermes_agent.host.inspect import alive, is_runtime, out_of_reach, refuse_agent

MAX_LOCK_POLLS = 200
"""How often to check, 10 ms apart, whether a killed process has released its lock. A count and not
a time, because a suspended machine makes no progress."""


@dataclass(frozen=True)
class Home:
    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def soul(self) -> Path:
        return self.path / "SOUL.md"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def terminals(self) -> Path:
        return self.path / "terminals"

    def make(self) -> bool:
        """Create the home if needed, and make it private; False if it is not writable."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = self.path.stat()
            if facts.st_mode & 0o077 and facts.st_uid == os.getuid():
                self.path.chmod(facts.st_mode & 0o700)
            for folder in (Path(paths.run_folder(str(self.path))), self.logs):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            if (trouble := out_of_reach(self.path)) is not None:
                raise HermesError(*trouble) from None
            if self.path.is_dir():
                return False
            raise HermesError(
                f"cannot create the home {self.path}: {error.strerror}",
                "set HERMES_HOME to another folder",
            ) from None
        return os.access(self.path, os.W_OK) and not _read_only(self.path)

    def lock_folder(self, writable: bool) -> Path:
        """The folder of the lock, the same for every process that uses this home."""
        return Path(paths.run_folder(str(self.path))) if writable else self._other_run_folder()

    def run_folder(self, writable: bool) -> Path:
        """The folder for the socket."""
        first = Path(paths.run_folder(str(self.path)))
        fits = len(os.fsencode(first / "api.sock")) < paths.SOCKET_LIMIT
        return first if writable and fits else self._other_run_folder()

    def _other_run_folder(self) -> Path:
        other = Path(paths.other_run_folder(str(self.path)))
        other.mkdir(mode=0o700, exist_ok=True)
        if other.stat().st_uid != os.getuid():
            raise HermesError(
                f"{other} belongs to another user", "remove it, or set TMPDIR to a folder of yours"
            )
        return other


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


class HomeLock:
    """Held by the one process that writes to a home; released when the process ends."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._path = folder / "lock"
        self._home = home
        self._file: int | None = None

    def take(self) -> None:
        refuse_agent("write to a home of Hermes")
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        polls = MAX_LOCK_POLLS
        while not try_lock(handle):
            owner = os.pread(handle, 32, 0).decode().strip()
            if owner.isdigit() and not alive(int(owner)) and polls:
                polls -= 1
                time.sleep(0.01)  # it was killed, and its last threads are still exiting
                continue
            os.close(handle)
            raise self._refusal(owner)
        os.ftruncate(handle, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name in it
            os.write(handle, str(os.getpid()).encode())
        self._file = handle

    def _refusal(self, owner: str) -> HomeLocked:
        runtime = owner.isdigit() and is_runtime(int(owner))
        return HomeLocked(
            f"another Hermes (pid {owner or 'unknown'}) owns the home {self._home}",
            "`hermes status` shows it, `hermes down` stops it; or set HERMES_HOME"
            if runtime
            else "it is a program, not a runtime: wait until it has ended, or set HERMES_HOME",
        )

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)  # this process may live on without owning the home
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a forked child may hold the file open
            os.close(self._file)
            self._file = None
