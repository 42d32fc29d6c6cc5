"""A control group for all processes of a box, where this user may make one: limits for them together,
and for a real systemd the place that it manages. The file `groups` in the box's folder names it, for
whoever enters."""

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


def join(folder: Path, *, managed: bool = False) -> list[str]:
    """Make the groups of a box; none where that is not allowed here. `managed`: systemd will make
    groups of its own below, also on a machine whose groups are of the first version."""
    name = f"drill-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    second = (ROOT / "cgroup.controllers").exists()
    roots = [ROOT] if second else [ROOT / "systemd", ROOT / "unified"] if managed else []
    made = [root / name for root in roots if root.is_dir()]
    try:
        for group in made:
            group.mkdir(exist_ok=True)
            for file, value in LIMITS.items() if second else ():
                with contextlib.suppress(FileNotFoundError):  # a kernel that does not count swap
                    (group / file).write_text(value)
    except OSError:
        for group in made:
            with contextlib.suppress(OSError):
                group.rmdir()
        return []
    found = [str(group) for group in made]
    (folder / NOTE).write_text("\n".join(found))
    return found


def leave(folder: Path) -> None:
    """Remove the groups of a box that has ended, with whatever is still in them."""
    try:
        groups = (folder / NOTE).read_text().splitlines()
    except FileNotFoundError:
        return
    deadline = time.monotonic() + GOING_SECONDS
    for group in map(Path, groups):
        while group.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                for path, _, _ in os.walk(group, topdown=False):
                    for line in Path(path, "cgroup.procs").read_text().split():
                        os.kill(int(line), signal.SIGKILL)
                    Path(path).rmdir()
                break
            time.sleep(0.01)
