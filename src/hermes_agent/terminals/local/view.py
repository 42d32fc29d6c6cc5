"""The view of the machine for commands that may only look: everything can be read but secrets and
Hermes' own files, and nothing can be written, signalled or connected to."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.local import calls
from hermes_agent.terminals.sandbox import landlock, launch, mounts, seccomp
from hermes_agent.terminals.shell.daemon import find_bash
from hermes_agent.terminals.shell.spool import PRIVATE

SCRATCH = "scratch"
SCRATCH_BYTES = 64 << 20
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/ptmx")
APART = (
    "--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session",
    "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
    "--remount-ro", "/dev",
)  # fmt: skip
"""The processes of the machine are seen, but being of another user namespace they are closed; that
they cannot be signalled is left to Landlock, or on older kernels nothing can be signalled."""


def read_only(
    spool: Path, workspace: str, environ: Mapping[str, str], outside: Mapping[str, str]
) -> tuple[str, dict[str, bytes]]:
    """Bubblewrap and what it runs before the shell, and what `daemon.sh` hands to it, by the name
    of the file. `outside` are programs that are called out of it, and where they are. Raises
    `HermesError` where commands cannot be confined like this."""
    bwrap = launch.find_bubblewrap(environ)
    (spool / SCRATCH).mkdir(mode=0o700, parents=True, exist_ok=True)
    needed = {os.path.realpath(path) for path in (launch.PYTHON, bwrap, find_bash(environ) or "")}
    stub = str(spool / calls.STUB)
    covered = (word for path in calls.stubs(outside, needed) for word in ("--ro-bind", stub, path))
    hidden = _hidden(spool, workspace, environ)
    options = "\0".join((*APART, *covered, *hidden, *_scratch(spool)))
    allowed = seccomp.program(
        frozenset({seccomp.NETLINK}), netlink=seccomp.SHOWN, signals=not landlock.missing()
    )
    writable = (*DEVICES, *(f"{spool}/{name}" for name in (SCRATCH, "look", calls.FIFO)))
    inner = (launch.PYTHON, "-I", "-S", landlock.__file__, "scope", *writable, "--")
    return "\0".join((bwrap, *inner)), {"view": os.fsencode(options), "view.bpf": allowed}


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


def _hidden(spool: Path, workspace: str, environ: Mapping[str, str]) -> Iterator[str]:
    session = spool.parent
    for path in sorted(set(mounts.secrets(environ, workspace))):
        if path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        else:
            yield from ("--ro-bind", "/dev/null", str(path))
    for home in mounts.hermes_homes(spool, environ):
        yield from ("--tmpfs", str(home))
        for shown in (session, home / "results" / session.name, Path(workspace)):
            if shown.is_relative_to(home) and shown.is_dir():
                yield from ("--ro-bind", str(shown), str(shown))
        yield from ("--remount-ro", str(home))
    for private in sorted(session.glob(f"*/{PRIVATE}")):
        yield from ("--tmpfs", str(private), "--remount-ro", str(private))


def _scratch(spool: Path) -> tuple[str, ...]:
    path = str(spool / SCRATCH)
    return ("--size", str(SCRATCH_BYTES), "--tmpfs", path, "--setenv", "TMPDIR", path)
