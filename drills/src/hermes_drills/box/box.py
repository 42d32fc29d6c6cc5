"""A box: a small machine of its own in namespaces, with an init system and its programs, made
without privileges. It outlives whoever made it, until it is removed."""

import contextlib
import marshal
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes_drills.box import limits
from hermes_drills.box.enter import ENVIRONMENT, door, first_process, started_at
from hermes_drills.errors import DrillError
from hermes_drills.types import World
from hermes_drills.worlds import inits

HERE = Path(__file__).parent
PYTHON = os.path.realpath(sys.executable)
ORDINARY = 714_000
"""Who the box's root is on this machine where we are root: nobody else."""
START_SECONDS = 60.0
POLL_SECONDS = 0.02
GOING_SECONDS = 5.0
OWNER = "owner"
"""The file that says whose box it is: when that process is gone, nobody wants it any more."""


class Ran(Struct, frozen=True):
    code: int
    stdout: str = ""
    stderr: str = ""


class TooLong(DrillError):
    """What was run in a box did not end in time."""


class Box:
    """`folder` is private to it: which process is its first, whose it is, and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._leash = -1
        """Held open for as long as the box is wanted: it ends with whoever made it."""

    @property
    def pid(self) -> int:
        """Its first process, as this machine counts them. Raises where the box is gone."""
        return first_process(self.folder)

    @property
    def alive(self) -> bool:
        try:
            return bool(self.pid)
        except DrillError:
            return False

    def boot(self, world: World) -> None:
        """Make it and start its init system; whether the services are up is for others to see."""
        self.folder.mkdir(mode=0o700, parents=True)
        (self.folder / OWNER).write_text(f"{os.getpid()} {started_at(os.getpid())}\n")
        (self.folder / "root").mkdir()
        spec = _spec(world, self.folder / "root", limits.join(self.folder, managed=world.booted))
        pid, self._leash = _launch(spec, self.folder)
        (self.folder / "pid").write_text(f"{pid} {started_at(pid)}\n")
        if world.style.init == "supervisord":
            _nudge(pid)

    def run(self, text: str, *, check: bool = True, seconds: float = 60.0) -> Ran:
        """A line of bash, as root of the box."""
        words = [*door(self.folder), "bash", "--noprofile", "--norc", "-c", text]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds,
                env=ENVIRONMENT, cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TooLong(f"in the box, {text!r} took longer than {seconds:g} s") from None
        ran = Ran(done.returncode, _text(done.stdout), _text(done.stderr))
        if check and ran.code:
            raise DrillError(f"in the box, {text!r} exited with {ran.code}: {ran.stderr.strip()}")
        return ran

    def spawn(self, text: str) -> None:
        """Leave a process behind, whose parent is process 1."""
        quoted = shlex.quote(text)
        self.run(f"setsid bash --noprofile --norc -c {quoted} </dev/null &>/dev/null &")

    def write(self, path: str, text: str | bytes, mode: int | None = None) -> None:
        data = text.encode() if isinstance(text, str) else text
        words = [*door(self.folder), "bash", "-c", 'mkdir -p "${1%/*}" && cat >"$1"', "-", path]
        subprocess.run(words, input=data, check=True, env=ENVIRONMENT, cwd="/")
        if mode is not None:
            self.run(f"chmod {mode:o} {shlex.quote(path)}")

    def read(self, path: str) -> str:
        return self.run(f"cat {shlex.quote(path)}").stdout

    def fill(self, path: str, leave_kb: int = 0) -> None:
        """Write to a file until its file system is full, but for so much."""
        quoted = shlex.quote(path)
        folder = shlex.quote(str(Path(path).parent))
        self.run(
            f"n=$(( $(df --output=avail -k {folder} | tail -1) - {leave_kb} )); "
            f"if ((n > 0)); then head -c ${{n}}k /dev/urandom >> {quoted}; fi; true"
        )

    def keep(self) -> None:
        """It is to stay when its owner goes."""
        if self._leash >= 0:
            os.write(self._leash, b"keep")
        (self.folder / OWNER).unlink(missing_ok=True)

    @property
    def abandoned(self) -> bool:
        """Whether its owner went without removing it."""
        try:
            pid, started = (self.folder / OWNER).read_text().split()
        except (OSError, ValueError):
            return False
        return started_at(int(pid)) != started

    def remove(self) -> None:
        """End all that runs in it, and forget it."""
        with contextlib.suppress(DrillError):
            pid = self.pid
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + GOING_SECONDS
            while started_at(pid) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        limits.leave(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def boxes(folder: Path) -> list[Box]:
    """All that there are below a folder, running or not."""
    found = [*folder.glob("*/pid"), *folder.glob(f"*/{OWNER}")] if folder.is_dir() else []
    return [Box(path) for path in sorted({path.parent for path in found})]


def _launch(spec: dict[str, Any], folder: Path) -> tuple[int, int]:
    """Its first process, and the end of the pipe that keeps it alive."""
    file = os.memfd_create("box")
    os.write(file, marshal.dumps(spec))
    os.lseek(file, 0, os.SEEK_SET)
    heard, tell = os.pipe()
    held, leash = os.pipe()
    try:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [PYTHON, "-I", "-S", str(HERE / "program.py"), str(file), str(tell), str(held)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(file, tell, held),
                cwd="/",
                env=ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        os.close(tell)
        tell = -1
        readable, _, _ = select.select([heard], [], [], START_SECONDS)
        words = os.read(heard, 64).decode().split() if readable else []
    finally:
        for number in (file, heard, tell, held):
            if number >= 0:
                os.close(number)
    if len(words) != 2:
        os.close(leash)
        process.kill()
        process.wait()
        said = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
        raise DrillError(
            f"the box did not start: {said[0] if said else 'no reason given'}",
            "unprivileged user namespaces must be allowed: sysctl kernel.unprivileged_userns_clone,"
            " kernel.apparmor_restrict_unprivileged_userns",
        )
    threading.Thread(target=process.wait, name="box", daemon=True).start()  # no zombie is left
    return int(words[1]), leash


def _spec(world: World, root: Path, groups: Sequence[str]) -> dict[str, Any]:
    base = str(Path(sys.base_prefix).resolve())
    shown = [("/usr", "/usr")]
    if not Path(base).is_relative_to("/usr"):
        shown.append((base, base))
    if world.style.init == "supervisord":
        shown.append((_supervisor(), "/opt/lib/supervisor"))
    files = {
        path: {
            "data": file.data or file.text.encode(),
            "mode": file.mode, "link": file.link, "size": file.size, "age": file.age,
        }
        for path, file in {**inits.files(world, PYTHON), **world.files}.items()
    }  # fmt: skip
    mine = {address for address in world.hosts.values() if address.startswith("10.77.0.")}
    return {
        "root": str(root), "groups": list(groups), "ordinary": ORDINARY, "mb": world.mb,
        "hostname": world.hostname, "shown": shown, "booted": world.booted,
        "hidden": [str(HERE.parent), *(["/usr/lib/systemd/system"] if world.booted else [])],
        "mounts": [{"path": m.path, "mb": m.mb, "inodes": m.inodes} for m in world.mounts],
        "folders": dict(world.folders), "files": files, "setup": list(world.setup),
        "init": inits.first(world, PYTHON),
        "environment": {**ENVIRONMENT, **({"container": "box"} if world.booted else {})},
        "addresses": sorted(mine),
    }  # fmt: skip


def _supervisor() -> str:
    found = find_spec("supervisor")
    if found is None or found.origin is None:
        raise DrillError("supervisor is not installed", "`hermes add drills`")
    return str(Path(found.origin).parent)


def _nudge(pid: int) -> None:
    """The supervisor sleeps a second before it starts anything, unless somebody calls."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as call, contextlib.suppress(OSError):
            call.connect(f"/proc/{pid}/root{inits.SUPERVISOR_SOCKET}")
            return
        time.sleep(POLL_SECONDS)
    raise DrillError("the box's supervisor did not start")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
