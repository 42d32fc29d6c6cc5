"""Limits for all commands of a sandbox together, by control groups where this user may create
them, else for each process."""

import contextlib
import hashlib
import math
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from hermes_agent.core.settings.terminals import Limits

PERIOD = 100_000
"""Microseconds over which processor time is counted."""
WANTED = ("memory", "pids", "cpu")
NOTE = "groups"
"""The file in the sandbox's folder that names its groups."""
GOING_SECONDS = 5.0
"""How long a group may take to empty after its processes were killed."""
COUNTED = (
    ("memory", "memory.events", "oom_kill"),
    ("memory", "memory.oom_control", "oom_kill"),
    ("processes", "pids.events", "max"),
)
"""Limits, and where cgroup v2 and v1 count how often they were hit."""
COUNTED_APART = (5, 14)
"""From this Linux on, a user's processes are counted per user namespace."""


def join(limits: Limits, folder: Path, things: Collection[str] = WANTED) -> dict[str, str]:
    """Create the groups of a sandbox. Returns the group's folder for each limited resource."""
    name = f"hermes-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    found = {thing: str(home / name) for thing, home in _homes() if thing in things}
    (folder / NOTE).write_text("\n".join(sorted(set(found.values()))))
    return {thing: group for thing, group in found.items() if _made(Path(group), thing, limits)}


def groups(folder: Path) -> list[str]:
    try:
        return (folder / NOTE).read_text().splitlines()
    except FileNotFoundError:
        return []


def leave(folder: Path) -> None:
    """Remove the groups of an ended sandbox, killing what is still in them."""
    deadline = time.monotonic() + GOING_SECONDS
    for group in map(Path, groups(folder)):
        while group.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                for line in (group / "cgroup.procs").read_text().split():
                    os.kill(int(line), signal.SIGKILL)
                group.rmdir()
                break
            time.sleep(0.01)
    (folder / NOTE).unlink(missing_ok=True)


def reached(folder: Path) -> frozenset[str]:
    """Which limits the sandbox has hit, of those that its groups count."""
    found = set()
    for group in groups(folder):
        for thing, file, word in COUNTED:
            with contextlib.suppress(OSError):  # another group's file, or another version's
                counts = dict(line.split() for line in Path(group, file).read_text().splitlines())
                if int(counts.get(word, 0)):
                    found.add(thing)
    return frozenset(found)


def per_process(limits: Limits, groups: dict[str, str], *, apart: bool) -> tuple[int, int]:
    """Bytes of data and number of processes where no group limits them, else -1. Processes are
    counted by user: in a user namespace (`apart`) only those of the sandbox, else all."""
    data = -1 if "memory" in groups else limits.memory_mb << 20
    if "pids" in groups:
        return data, -1
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    others = 0 if apart and release >= COUNTED_APART else _threads_of(os.getuid())
    return data, others + limits.processes


def processors(limits: Limits, groups: dict[str, str]) -> set[int]:
    """The processors to use where no group limits them."""
    mine = sorted(os.sched_getaffinity(0))
    return set(mine if "cpu" in groups else mine[-math.ceil(limits.cpus) :])


def _made(group: Path, thing: str, limits: Limits) -> bool:
    """Whether the group exists, is ours and took its limit."""
    first, *more = _values(thing, limits, second=(group.parent / "cgroup.controllers").exists())
    try:
        group.mkdir(exist_ok=True)
        (group / first[0]).write_text(first[1])
        for file, value in more:
            with contextlib.suppress(FileNotFoundError):  # a kernel that does not count swap
                (group / file).write_text(value)
    except OSError:  # this user may not create it: fall back
        return False
    return os.access(group / "cgroup.procs", os.W_OK)


def _values(thing: str, limits: Limits, *, second: bool) -> list[tuple[str, str]]:
    """Files and their values, for cgroup v2 (`second`) or v1."""
    memory = str(limits.memory_mb << 20)
    quota = str(int(limits.cpus * PERIOD))
    match thing, second:
        case "memory", True:
            return [("memory.max", memory), ("memory.swap.max", "0"), ("memory.oom.group", "0")]
        case "memory", False:
            return [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
        case "cpu", True:
            return [("cpu.max", f"{quota} {PERIOD}")]
        case "cpu", False:
            return [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", str(PERIOD))]
        case _:
            return [("pids.max", str(limits.processes))]


def _homes() -> Iterator[tuple[str, Path]]:
    """For each resource, the folder where a group for it can be created."""
    mine: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mine |= dict.fromkeys(controllers.split(","), path)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        mount = Path(front.split()[4])
        kind, _, options = back.split()
        if kind == "cgroup2":
            yield from _second(mount, mine.get("", "/"))
        elif kind == "cgroup":
            for thing in set(options.split(",")) & set(WANTED):
                group = mount / mine[thing].lstrip("/")
                yield thing, group if group.exists() else mount


def _second(mount: Path, path: str) -> Iterator[tuple[str, Path]]:
    """In v2 a group with processes has no limited children, so search upwards."""
    group = mount / path.lstrip("/")
    while group.is_relative_to(mount):
        handed_down = group / "cgroup.subtree_control"
        offered = set(handed_down.read_text().split()) if handed_down.exists() else set()
        if offered & set(WANTED):
            for thing in offered & set(WANTED):
                yield thing, group
            return
        group = group.parent


def _threads_of(user: int) -> int:
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if process.stat().st_uid == user:
                count += len(list((process / "task").iterdir()))
    return count
