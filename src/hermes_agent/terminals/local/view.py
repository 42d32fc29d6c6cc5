"""Views of the machine for confined commands: everything can be read but secrets and Hermes' own
files, and no process can be signalled. In the one for looking nothing can be written or connected
to; in the other the workspace can be written, and hosts can be connected to but not services of
this machine that listen in the file system."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import Limits
from hermes_agent.terminals.local import calls
from hermes_agent.terminals.sandbox import landlock, launch, limits, mounts, seccomp
from hermes_agent.terminals.shell.daemon import find_bash
from hermes_agent.terminals.shell.spool import PRIVATE

SCRATCH = "scratch"
SCRATCH_BYTES = 64 << 20
PROCESSES = 1000
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/ptmx")
APART = (
    "--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session",
    "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
    "--remount-ro", "/dev",
)  # fmt: skip
"""The processes of the machine are seen, but being of another user namespace they are closed; that
they cannot be signalled is left to Landlock, or on older kernels nothing can be signalled."""


def view(
    kind: Confinement,
    spool: Path,
    workspace: str,
    environ: Mapping[str, str],
    outside: Mapping[str, str],
) -> tuple[str, dict[str, bytes]]:
    """Bubblewrap and what it runs before the shell, behind the kind, and what `daemon.sh` hands to
    it, by the name of the file. `outside` are programs that are called out of it, and where they
    are. Raises `HermesError` where commands cannot be confined like this."""
    bwrap = launch.find_bubblewrap(environ)
    scratch = spool / f"{kind}.{SCRATCH}"
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    needed = {os.path.realpath(path) for path in (launch.PYTHON, bwrap, find_bash(environ) or "")}
    stub = str(spool / calls.STUB)
    covered = (word for path in calls.stubs(outside, needed) for word in ("--ro-bind", stub, path))
    own = _workspace(workspace, scratch) if kind == "workspace" else _scratch(scratch)
    hidden = _hidden(spool, workspace, environ, own)
    rights = ("--cap-add", "CAP_DAC_READ_SEARCH") if os.geteuid() == 0 else ()
    options = "\0".join((*APART, *rights, *covered, *hidden, "--setenv", "TMPDIR", str(scratch)))
    families = seccomp.USUAL if kind == "workspace" else frozenset({seccomp.NETLINK})
    allowed = seccomp.program(
        families, netlink=seccomp.SHOWN, signals=not landlock.missing(), modes=kind == "workspace"
    )
    replies = (f"{spool}/{kind}.look/{name}" for name in ("out", "1", "2"))
    writable = [*DEVICES, str(scratch), f"{spool}/{calls.FIFO}", *replies]
    if kind == "workspace":
        writable.append(workspace)
    inner = (launch.PYTHON, "-I", "-S", landlock.__file__, "scope", *writable, "--")
    limited = _limits(spool).encode()
    files = {
        f"{kind}.view": os.fsencode(options), f"{kind}.bpf": allowed, f"{kind}.limits": limited
    }  # fmt: skip
    return "\0".join((kind, bwrap, *inner)), files


def _limits(spool: Path) -> str:
    """A control group that holds the processes of a terminal's views, or else how many may be."""
    most = Limits(processes=PROCESSES)
    groups = limits.join(most, spool, ("pids",))
    return groups.get("pids") or str(limits.per_process(most, groups, apart=True)[1])


def unconfined(environ: Mapping[str, str], confine: Literal["required", "preferred"]) -> str | None:
    """For the gate: see `Unconfined`."""
    why = cannot_confine(environ)
    return (why if confine == "required" else "") if why else None


def cannot_confine(environ: Mapping[str, str]) -> str:
    """Why this machine cannot; empty if it can."""
    try:
        launch.find_bubblewrap(environ)
    except HermesError as error:
        return error.message
    return ""


def _hidden(
    spool: Path, workspace: str, environ: Mapping[str, str], own: tuple[str, ...]
) -> Iterator[str]:
    """What is not there; `own` comes before the secrets, which may be in it."""
    session = spool.parent
    homes = mounts.hermes_homes(spool, environ)
    for home in homes:
        yield from ("--tmpfs", str(home))
        for shown in (session, home / "results" / session.name, Path(workspace)):
            if shown.is_relative_to(home) and shown.is_dir():
                yield from ("--ro-bind", str(shown), str(shown))
    yield from own
    for path in sorted(set(mounts.secrets(environ, workspace))):
        if path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        else:
            yield from ("--ro-bind", "/dev/null", str(path))
    for private in sorted(session.glob(f"*/{PRIVATE}")):
        yield from ("--tmpfs", str(private), "--remount-ro", str(private))
    for home in homes:
        yield from ("--remount-ro", str(home))


def _scratch(path: Path) -> tuple[str, ...]:
    return ("--size", str(SCRATCH_BYTES), "--tmpfs", str(path))


def _workspace(path: str, scratch: Path) -> tuple[str, ...]:
    """It can be written, but not its repository; sockets of services are not there."""
    names = os.path.realpath("/etc/resolv.conf")
    kept = (f"{path}/.git", names)
    return (
        "--size", str(SCRATCH_BYTES), "--tmpfs", "/run",
        "--bind", path, path, "--bind", str(scratch), str(scratch),
        "--setenv", "XDG_CACHE_HOME", str(scratch),
        *(word for one in kept for word in ("--ro-bind-try", one, one)),
    )  # fmt: skip
