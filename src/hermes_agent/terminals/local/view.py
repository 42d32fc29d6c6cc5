"""Views of the machine for confined commands: everything can be read but secrets and Hermes' own
files, and no process can be signalled. In the one for looking nothing can be written or connected
to; in the other the workspace can be written, and hosts can be connected to but not services of
this machine that listen in the file system."""

import hashlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.terminals import Limits
from hermes_agent.terminals.local import calls
from hermes_agent.terminals.sandbox import landlock, launch, limits, mounts, seccomp
from hermes_agent.terminals.sandbox.secret_scan import Found, SecretScan, sockets
from hermes_agent.terminals.shell.daemon import find_bash
from hermes_agent.terminals.shell.spool import PRIVATE

SCRATCH = "scratch"
PROCESSES = 1000
MEMORY_PART = 0.75
"""Of the machine's: more than that, and a view would take the rest with it."""
SHARED = "/dev/shm"  # noqa: S108 - a view has one of its own
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/ptmx")
OWNED = ("null", "zero", "full", "random", "urandom", "tty")
"""Devices of the machine, whose mode root could change."""
APART = (
    "--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session",
    "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
    "--remount-ro", "/dev",
)  # fmt: skip
"""The processes of the machine are seen, but being of another user namespace they are closed; that
they cannot be signalled is left to Landlock, or on older kernels nothing can be signalled."""
COVERING = ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
"""For `landlock.scope`, which covers files and gives them up: bubblewrap itself reads the table of
all mounts again for each."""
COVER, COVER_FOLDER, PROC = "cover", "cover.d", "cover.proc"
"""What lies over secrets, and a second /proc, for a moment."""
FILTER, COVERS = 8, 9
"""Open files; see `daemon.sh`."""

Opened = tuple[str, dict[str, bytes]]


class Views:
    """The views of one terminal: as they are opened, until there is more to hide."""

    def __init__(
        self, spool: Path, workspace: str, environ: Mapping[str, str], clock: Clock
    ) -> None:
        self._spool = spool
        self._workspace = workspace
        self._environ = environ
        self._clock = clock
        self._lock = threading.Lock()
        self._scans: dict[Confinement, SecretScan] = {}
        self._made: dict[Confinement, tuple[Mapping[str, str], Found, Opened]] = {}

    def get(self, kind: Confinement, outside: Mapping[str, str]) -> Opened:
        """See `view`. This blocks."""
        with self._lock:
            return self._get(kind, outside)

    def _get(self, kind: Confinement, outside: Mapping[str, str]) -> Opened:
        if kind not in self._scans:
            homes = map(str, mounts.homes(self._environ))
            wide = kind != "workspace"
            self._scans[kind] = SecretScan(homes, self._workspace, wide=wide, clock=self._clock)
        found = self._scans[kind].found()
        if kind == "workspace":
            found |= frozenset(_services())
        if kind in self._made:
            around, hidden, opened = self._made[kind]
            if around is outside and found <= hidden:
                self._made[kind] = around, found, opened  # what is gone may come again
                return opened
        opened = view(kind, self._spool, self._workspace, self._environ, outside, found)
        self._made[kind] = outside, found, opened
        return opened


def view(
    kind: Confinement,
    spool: Path,
    workspace: str,
    environ: Mapping[str, str],
    outside: Mapping[str, str],
    secrets: Found,
) -> Opened:
    """Bubblewrap and what it runs before the shell, behind the kind, and what `daemon.sh` hands to
    it, by the name of the file. `outside` are programs that are called out of it, and where they
    are. Raises `HermesError` where commands cannot be confined like this."""
    bwrap = launch.find_bubblewrap(environ)
    scratch = spool / f"{kind}.{SCRATCH}"
    for folder in (scratch, spool / COVER_FOLDER, spool / PROC):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (spool / COVER).touch(0o600)
    building = kind == "workspace"
    own = _workspace(workspace, scratch) if building else ("--tmpfs", str(scratch))
    hidden = _hidden(spool, workspace, environ, own)
    options = "\0".join((*APART, *COVERING, *_rights(spool), *hidden))
    old = bool(landlock.missing())  # nothing else keeps signals and abstract sockets in
    families = seccomp.USUAL if building else frozenset({seccomp.NETLINK})
    allowed = seccomp.program(
        families - {socket.AF_UNIX} if old else families,
        netlink=seccomp.SHOWN, signals=not old, changes=building,
    )  # fmt: skip
    _make_fifos(spool / f"{kind}.look")
    replies = (f"{spool}/{kind}.look/{name}" for name in ("out", "1", "2"))
    writable = [*DEVICES, str(scratch), f"{spool}/{calls.FIFO}", *replies]
    if building:
        writable += [workspace, SHARED]
    scope = ("scope", str(FILTER), str(COVERS), *writable, "--")
    needed = {os.path.realpath(path) for path in (launch.PYTHON, bwrap, find_bash(environ) or "")}
    covers = [
        *(f"r/dev/{name}" for name in OWNED),
        *(f"l{path}" for path in (("/run", SHARED) if building else (scratch,))),
        f"s{spool / calls.STUB}", *(f"o{path}" for path in calls.stubs(outside, needed)),
        *_covers(spool, secrets),
    ]  # fmt: skip
    files = {
        "view": os.fsencode(options), "bpf": allowed, "limits": _limits(spool).encode(),
        "root": os.fsencode(workspace), "covers": os.fsencode("\0".join(covers)),
    }  # fmt: skip
    # First, what tells this view from another that is open: what was covered in that may have been
    # replaced since.
    which = repr(sorted(secrets)).encode()
    digest = hashlib.sha256(b"\0\0".join((*files.values(), which))).hexdigest()
    files["covers"] = b"%s\0%s" % (digest.encode(), files["covers"])
    words = "\0".join((kind, bwrap, launch.PYTHON, *landlock.IMPORTED, *scope))
    return words, {f"{kind}.{name}": data for name, data in files.items()}


def _make_fifos(folder: Path) -> None:
    """Those between the two shells, for the first view: that is faster than by programs."""
    if not folder.exists():
        draft = folder.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        draft.mkdir(mode=0o700)
        for name in ("out", "1", "2", "in"):
            os.mkfifo(draft / name, 0o600)
        draft.rename(folder)


def _rights(spool: Path) -> tuple[str, ...]:
    """Root reads all; others are root in it only as long as files are covered."""
    if os.geteuid() == 0:
        return ("--cap-add", "CAP_DAC_READ_SEARCH")
    own = ("--uid", "0", "--gid", "0", "--cap-add", "CAP_SETFCAP")
    return (*own, "--bind", "/proc", str(spool / PROC))


def _covers(spool: Path, secrets: Found) -> Iterator[str]:
    paths = sorted(path for path, _ in secrets)
    folders = [path for path in paths if os.path.isdir(path)]  # noqa: PTH112 - fast
    yield f"s{spool / COVER}"
    yield from (f"o{path}" for path in paths if path not in folders)
    yield f"s{spool / COVER_FOLDER}"
    yield from (f"o{path}" for path in (*folders, *spool.parent.glob(f"*/{PRIVATE}")))
    if os.geteuid():
        yield f"u{os.geteuid()}:{os.getegid()}:{spool / PROC}"


def _services() -> Iterator[tuple[str, int]]:
    """Sockets that something listens on, but those that are not there anyway."""
    for path in sockets():
        if path.is_absolute() and not path.is_relative_to("/run"):
            try:
                yield str(path.resolve(strict=True)), path.stat().st_ino
            except OSError:  # gone, or not for this user
                continue


def _limits(spool: Path) -> str:
    """The control groups that hold the processes of a terminal's views, in lines, or else how many
    there may be and the kilobytes that each may use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    most = Limits(processes=PROCESSES, memory_mb=int(memory * MEMORY_PART))
    groups = limits.join(most, spool, ("pids", "memory"))
    data, processes = limits.per_process(most, groups, apart=True)
    lines = [str(processes) if processes >= 0 else "", str(data >> 10) if data >= 0 else ""]
    return "\n".join([" ".join(word or "-" for word in lines), *sorted(set(groups.values()))])


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
    """Homes of Hermes are not there, but for what the session has; `own` may be in one."""
    session = spool.parent
    homes = mounts.hermes_homes(spool, environ)
    for home in homes:
        yield from ("--tmpfs", str(home))
        for shown in (session, home / "results" / session.name, Path(workspace)):
            if shown.is_relative_to(home) and shown.is_dir():
                yield from ("--ro-bind", str(shown), str(shown))
    yield from own
    for home in homes:
        yield from ("--remount-ro", str(home))
    yield from ("--ro-bind", "/dev/null", str(spool / COVER))


def _workspace(path: str, scratch: Path) -> tuple[str, ...]:
    """It can be written; sockets of services are not there. `daemon.sh` holds its repository."""
    names = os.path.realpath("/etc/resolv.conf")
    return (
        "--tmpfs", "/run", "--tmpfs", SHARED,
        "--bind", path, path, "--bind", str(scratch), str(scratch),
        "--ro-bind-try", names, names,
    )  # fmt: skip
