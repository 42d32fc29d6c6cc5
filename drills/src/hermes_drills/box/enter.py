"""How to get into a box. The runtime's terminal of kind `box` does the same, by the same file."""

from pathlib import Path

from hermes_drills.errors import DrillError

ENVIRONMENT = {
    "PATH": "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
}
"""All that programs of a box find in theirs."""
INSIDE = ("--mount", "--net", "--uts", "--ipc", "--pid", "--user")


def first_process(folder: Path) -> int:
    """Process 1 of the box, by its number here. Raises where the box is gone."""
    try:
        pid, started = (folder / "pid").read_text().split()
    except (OSError, ValueError):
        pid, started = "0", ""
    if not started or started_at(int(pid)) != started or not _is_inside(int(pid)):
        raise DrillError("the box is gone", "`hermes drill run` makes another")
    return int(pid)


def _is_inside(pid: int) -> bool:
    """Whether its namespaces are there: a dying process leaves them before it is gone."""
    try:
        Path(f"/proc/{pid}/ns/ipc").readlink()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return True


def door(folder: Path) -> list[str]:
    """What a command line begins with to be run in the box, as its root."""
    pid = first_process(folder)
    enter = ["nsenter", "--target", str(pid), *INSIDE, "--root", "--wd"]
    if _user_namespace("self") == _user_namespace(str(pid)):  # one that a real systemd boots
        return [word for word in enter if word != "--user"] + ["--"]
    holder = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    if _user_namespace("self") == _user_namespace(str(holder)):
        return [*enter, "--setuid", "0", "--setgid", "0", "--"]
    # Between ours and the box's lies the namespace that its process namespace belongs to.
    outer = ["nsenter", "--target", str(holder), "--user", "--preserve-credentials", "--"]
    return [*outer, *enter, "--preserve-credentials", "--"]


def _user_namespace(process: str) -> int:
    return Path(f"/proc/{process}/ns/user").stat().st_ino


def started_at(pid: int) -> str:
    """When a process began, so that its number is not mistaken for another's; "" if gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
