"""Limits for all processes of a box together, by a control group where this user may make one. The
file `groups` in the box's folder names it, for whoever enters."""

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path

NOTE = "groups"
ROOT = Path("/sys/fs/cgroup")
LIMITS = {"memory.max": str(768 << 20), "memory.swap.max": "0", "pids.max": "256"}
GOING_SECONDS = 5.0


def join(folder: Path) -> list[str]:
    """Make the group of a box; none where that is not allowed here."""
    group = ROOT / f"drill-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    if not (ROOT / "cgroup.controllers").exists():
        return []
    try:
        group.mkdir(exist_ok=True)
        for name, value in LIMITS.items():
            with contextlib.suppress(FileNotFoundError):  # a kernel that does not count swap
                (group / name).write_text(value)
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return []
    (folder / NOTE).write_text(str(group))
    return [str(group)]


def leave(folder: Path) -> None:
    """Remove the group of a box that has ended, with whatever is still in it."""
    try:
        group = Path((folder / NOTE).read_text())
    except FileNotFoundError:
        return
    deadline = time.monotonic() + GOING_SECONDS
    while group.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            for line in (group / "cgroup.procs").read_text().split():
                os.kill(int(line), signal.SIGKILL)
            group.rmdir()
            return
        time.sleep(0.01)
