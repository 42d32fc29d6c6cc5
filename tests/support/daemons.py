"""Daemons that several test processes share. Whoever wants one holds a shared lock as long as it
lives; a guard stops the daemon when nobody does, so that a killed test run leaves nothing behind.
The daemon runs in namespaces of its own: its mounts and all its processes go with it.

Run as a script this file is the guard."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

STOP_SECONDS = 15
START_SECONDS = 100
USERS = 65_536
"""So many a daemon needs: its own, and those it becomes."""
NAMESPACES = ("unshare", "--mount", "--propagation", "slave", "--pid", "--fork",
              "--kill-child=KILL", "--mount-proc")  # fmt: skip

_held: dict[str, IO[bytes]] = {}
"""Locks that this process keeps until it ends."""


def check_root(what: str) -> None:
    """Stop with a sentence where this user, or this user namespace, cannot run the daemon."""
    ranges = Path("/proc/self/uid_map").read_text().splitlines()
    users = sum(int(line.split()[2]) for line in ranges) if os.geteuid() == 0 else 0
    assert users >= USERS, (
        f"{what} needs root, of this machine or of a namespace with users from /etc/subuid: "
        "run these tests by `make test`"
    )


def in_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def folder_of(name: str) -> Path:
    base = Path(tempfile.gettempdir()) / f"hermes-tests-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    assert base.stat().st_uid == os.getuid(), f"{base} belongs to somebody else"
    return base / name


def hold(name: str, command: Sequence[str], way: Path) -> bool:
    """See that the daemon runs and listens on the Unix socket `way`, until this process ends.
    True when it was started by this call."""
    if name in _held:
        return False
    folder = folder_of(name)
    with locked(lock(folder, "start")):
        users = lock(folder, "users").open("ab")
        fcntl.flock(users, fcntl.LOCK_SH)
        _held[name] = users
        if guarded(folder):
            return False
        subprocess.run(
            [sys.executable, __file__, "launch", str(folder), json.dumps(list(command))],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        wait_for(folder, way)
    return True


def wait_for(folder: Path, way: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(str(way))
            except OSError:
                time.sleep(0.05)
            else:
                return
    said = (folder / "log").read_text(errors="replace")[-3000:]
    raise AssertionError(f"{folder.name} does not start:\n{said}")


def lock(folder: Path, name: str) -> Path:
    return folder.with_name(f"{folder.name}.{name}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def free(file: IO[bytes]) -> bool:
    """Take a lock if nobody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def guarded(folder: Path) -> bool:
    with lock(folder, "guard").open("ab") as file:
        return not free(file)


def launch(folder: Path, command: str) -> None:
    """Start the guard as nobody's child, and wait until it has its lock."""
    arguments = [sys.executable, __file__, "guard", str(folder), command]
    with lock(folder, "log").open("wb") as log:
        subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    while not guarded(folder):
        time.sleep(0.01)


def guard(folder: Path, command: str) -> None:
    with lock(folder, "guard").open("ab") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        clear(folder)
        folder.mkdir(mode=0o700)
        daemon = begin(folder, json.loads(command))
        (folder / "pid").write_text(str(daemon.pid))
        with lock(folder, "users").open("ab") as users:
            while True:
                fcntl.flock(users, fcntl.LOCK_EX)  # for a moment nobody wants it; but somebody new
                fcntl.flock(users, fcntl.LOCK_UN)  # may be about to
                with locked(lock(folder, "start")):
                    if free(users):
                        stop(daemon)
                        clear(folder)
                        alive.close()  # before whoever waits to start one looks for a guard
                        return


def begin(folder: Path, command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a daemon in namespaces of its own; what it says goes to `log` in its folder."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*NAMESPACES, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def stop(daemon: "subprocess.Popen[bytes]") -> None:
    """Ask the daemon to end, then end all that is in its namespace."""
    for child in children(daemon.pid):
        os.kill(child, signal.SIGTERM)
    try:
        daemon.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def clear(folder: Path) -> None:
    """Remove what a daemon left, and the daemon itself when its guard was killed."""
    note = folder / "pid"
    if note.exists():
        pid = int(note.read_text())
        words = Path(f"/proc/{pid}/cmdline")
        while words.exists() and str(folder).encode() in words.read_bytes():
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    {"launch": launch, "guard": guard}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
