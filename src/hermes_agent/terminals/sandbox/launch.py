"""Starts a sandbox: its confinement, and the first process inside."""

import functools
import os
import select
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_agent.terminals.sandbox import landlock, limits, mounts, seccomp
from hermes_agent.terminals.sandbox.mounts import IsolatedSandbox, Rules

HERE = Path(__file__).parent
PYTHON = os.path.realpath(sys.executable)
LIBRARY = Path(sys.base_prefix).resolve()
DOOR = "door"
LOG = "log"
SCRATCH = "/tmp"  # noqa: S108 - a cell's own, in its own mount namespace
START_SECONDS = 60.0
PLAIN = ("PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "COLUMNS", "LINES")
"""Variables of the runtime that commands see; none is secret."""
UNSEEN = (
    "kcore", "mtrr", "keys", "key-users", "timer_list", "sched_debug", "kallsyms", "acpi", "scsi",
)  # fmt: skip
"""Files of /proc that show the kernel and other users' keys."""
LAUNCH = """
(
  while [[ $1 != -- ]]; do echo "$BASHPID" >"$1/cgroup.procs" || exit 1; shift; done
  shift
  exec "$@"
) &
"""
"""Joins the control groups, then detaches."""


def find_way(environ: Mapping[str, str]) -> str:
    """The path of bubblewrap where it works, empty where Landlock must do. Raises `HermesError`
    where neither works: nothing ever runs unconfined."""
    bwrap, why_not = _look_for_bubblewrap(environ)
    if bwrap and not why_not:
        return bwrap
    if weaker := landlock.missing():
        raise HermesError(
            f"commands cannot be confined here: {why_not}; {weaker}",
            "install bubblewrap and allow user namespaces, or use Linux 6.12 with Landlock",
        )
    return ""


def find_bubblewrap(environ: Mapping[str, str]) -> str:
    """Its path. Raises `HermesError` where it does not work, or grants nothing to what it runs."""
    bwrap, why_not = _look_for_bubblewrap(environ)
    if not why_not and os.geteuid() and os.stat(bwrap).st_mode & stat.S_ISUID:  # noqa: PTH116
        why_not = f"{bwrap} is set-user-ID"
    if why_not:
        raise HermesError(
            f"commands cannot be confined here: {why_not}",
            "install bubblewrap and allow user namespaces",
        )
    return bwrap


def _look_for_bubblewrap(environ: Mapping[str, str]) -> tuple[str, str]:
    """Its path, and why it does not work."""
    if not hasattr(os, "memfd_create"):
        raise HermesError("only Linux can confine commands", "run them in a container")
    if why := seccomp.missing():
        raise HermesError("commands cannot be confined here", why)
    if shutil.which("bash", path=_path(environ)) is None:
        raise HermesError("bash is not installed", "commands need bash 5.0 or newer")
    bwrap = shutil.which("bwrap", path=_path(environ)) or ""
    return bwrap, _trouble(bwrap) if bwrap else "bubblewrap is not installed"


def launch(
    place: SandboxPlace,
    workspace: str,
    folder: Path,
    environ: Mapping[str, str],
    lock: int,
    cell: IsolatedSandbox | None = None,
) -> None:
    """Start the first process of a sandbox, which holds the lock, and wait until it is ready."""
    bwrap = find_way(environ)
    limits.leave(folder)  # what an earlier sandbox that was killed has left
    groups = limits.join(place.limits, folder)
    with ExitStack() as stack:
        files: list[int] = [lock, *([cell.leash] if cell else [])]

        def hand_over(data: bytes) -> int:
            files.append(stack.enter_context(_memory(data)))
            return files[-1]

        listener = stack.enter_context(_listener(folder))
        heard, ready = os.pipe()
        hear = stack.enter_context(os.fdopen(heard, "rb"))
        tell = stack.enter_context(os.fdopen(ready, "wb"))
        files += [listener.fileno(), tell.fileno()]
        script = hand_over((HERE / "init.py").read_bytes())
        rlimits = limits.per_process(place.limits, groups, apart=bool(bwrap))
        leash = cell.leash if cell else -1
        numbers = (listener.fileno(), tell.fileno(), lock, leash, *rlimits)
        door = [PYTHON, "-I", "-S", f"/proc/self/fd/{script}", *map(str, numbers)]
        rules = functools.partial(mounts.rules, place, workspace, folder, environ, LIBRARY)
        view = cell.rules if cell else rules()
        families = _families(place, cell, apart=bool(bwrap))
        filter = hand_over(seccomp.program(families, hoards=cell is None))
        if bwrap:
            options = _bubblewrap(place, view, folder, workspace, filter, cell)
            confined = [bwrap, "--args", str(hand_over(_joined(options))), "--"]
        else:
            allowed = hand_over(_joined(mounts.grants(view, folder / "tmp")))
            guard = [PYTHON, *landlock.IMPORTED]
            network = "network" if place.network else "none"
            confined = [*guard, str(allowed), str(filter), network, workspace, "--"]
        log = stack.enter_context((folder / LOG).open("wb"))
        bash = shutil.which("bash", path=_path(environ)) or "bash"
        with _processors(limits.processors(place.limits, groups)):
            subprocess.run(
                [bash, "--noprofile", "--norc", "-c", LAUNCH, "hermes-sandbox",
                 *sorted(set(groups.values())), "--", *confined, *door],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=files, cwd="/",
                env=_environment(environ, folder, bool(bwrap), cell),
                start_new_session=True, check=True,
            )  # fmt: skip
        tell.close()
        _wait(hear.fileno(), folder)


def _families(place: SandboxPlace, cell: IsolatedSandbox | None, *, apart: bool) -> frozenset[int]:
    """Without a namespace sockets would reach the machine's own programs, so none are allowed."""
    if apart and not cell:
        return seccomp.USUAL
    return seccomp.USUAL - {socket.AF_UNIX} if place.network else seccomp.LOCAL


def _joined(words: Iterable[str]) -> bytes:
    return b"\0".join(map(os.fsencode, words))


def _bubblewrap(
    place: SandboxPlace,
    rules: Rules,
    folder: Path,
    workspace: str,
    filter: int,
    cell: IsolatedSandbox | None,
) -> list[str]:
    options = ["--unshare-all", *(["--share-net"] if place.network else [])]
    # The first process is process 1: nothing inside can kill it, and all others die with it.
    options += ["--new-session", "--as-pid-1", "--cap-drop", "ALL", "--seccomp", str(filter)]
    options += [*([] if cell else ["--ro-bind", "/", "/"]), "--dev", "/dev"]
    options += _own(cell, "/dev/shm") if cell else ["--bind", str(folder / "shm"), "/dev/shm"]  # noqa: S108
    # Root may write the kernel's settings without any capability, and bubblewrap lets it.
    options += ["--remount-ro", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for path in (Path("/proc", name) for name in UNSEEN):
        if path.is_dir():
            options += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            options += ["--ro-bind", "/dev/null", str(path)]
    opened, closed = mounts.bindings(rules, folder / "tmp")
    made: dict[Path, Path] = {}
    for name in cell.names if cell else (Path(workspace),):
        made |= {link: target for target, link in mounts.links(rules, name)}
    for link, target in made.items():
        opened += ["--symlink", str(target), str(link)]
    if cell:
        opened, closed = [*_own(cell, SCRATCH), *opened], ["--remount-ro", "/"]
    start = SCRATCH if cell else str(Path(workspace).resolve())
    return [*options, *opened, *closed, "--chdir", start]


def _own(cell: IsolatedSandbox, path: str) -> list[str]:
    """A folder in memory of limited size."""
    return ["--perms", "1777", "--size", str(cell.scratch_mb << 20), "--tmpfs", path]


def _environment(
    environ: Mapping[str, str], folder: Path, own_tmp: bool, cell: IsolatedSandbox | None
) -> dict[str, str]:
    chosen = {
        name: value for name, value in environ.items() if name in PLAIN or name.startswith("LC_")
    }
    made = {"LANG": "C.UTF-8", **chosen, "PATH": _path(environ), "HOME": str(folder / "home")}
    if cell:
        made |= {"PATH": os.defpath, "HOME": SCRATCH if own_tmp else str(folder / "tmp")}
    if not own_tmp:
        made["TMPDIR"] = str(folder / "tmp")
    return {**made, "SHELL": "/bin/bash", "TERM": "dumb"}


def _path(environ: Mapping[str, str]) -> str:
    return environ.get("PATH") or os.defpath


@functools.cache
def _trouble(bwrap: str) -> str:
    """Why bubblewrap does not work here; empty when it does."""
    command = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    done = subprocess.run(
        [*command, "--as-pid-1", "--cap-drop", "ALL", "--", "/bin/sh", "-c", "exit 0"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stderr.strip().splitlines()[-1:] or ["it exited with an error"]
    return (
        f"bubblewrap does not work ({said[0].removeprefix('bwrap: ')})" if done.returncode else ""
    )


@contextmanager
def _memory(data: bytes) -> Iterator[int]:
    """An anonymous file."""
    file = os.memfd_create("hermes")
    try:
        os.write(file, data)
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


@contextmanager
def _listener(folder: Path) -> Iterator[socket.socket]:
    """The sandbox's socket. It is outside of what the sandbox sees, and not listening yet: the
    process that listens owns it."""
    (folder / DOOR).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as made, reachable(folder) as short:
        made.bind(short)
        (folder / DOOR).chmod(0o600)
        yield made


@contextmanager
def reachable(folder: Path) -> Iterator[str]:
    """A path of the socket that is short enough, whatever the folder is called."""
    file = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{file}/{DOOR}"
    finally:
        os.close(file)


@contextmanager
def _processors(chosen: set[int]) -> Iterator[None]:
    """Restrict this thread, and what it starts, to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _wait(heard: int, folder: Path) -> None:
    readable, _, _ = select.select([heard], [], [], START_SECONDS)
    if not readable or os.read(heard, 16) != b"ready":
        said = (folder / LOG).read_text(errors="replace").strip().splitlines()[-1:]
        raise HermesError(
            f"the sandbox did not start: {said[0] if said else 'no reason was given'}",
            f"see {folder / LOG}",
        )
