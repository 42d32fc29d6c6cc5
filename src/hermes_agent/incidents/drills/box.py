"""A box: a small machine of its own in namespaces, with a supervisor and its programs, made without
privileges. It outlives whoever made it, until it is removed."""

import base64
import contextlib
import json
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

import hermes_agent
from hermes_agent.core.errors import HermesError
from hermes_agent.core.places import BoxPlace, Limits
from hermes_agent.incidents.drills import layout
from hermes_agent.incidents.drills.world import World
from hermes_agent.terminals import sandbox_limits
from hermes_agent.terminals.box import ENVIRONMENT, door, first_process, started_at

HERE = Path(__file__).parent
PYTHON = os.path.realpath(sys.executable)
ORDINARY = 714_000
"""Who the box's root is on this machine where we are root: nobody else."""
START_SECONDS = 60.0
LIMITS = Limits(memory_mb=768, processes=256, cpus=2.0)
POLL_SECONDS = 0.02
GOING_SECONDS = 5.0
WAIT = """
last=${{EPOCHREALTIME/[.,]/}} waited=0
until ({test}) 2>/dev/null; do
    ((waited < {limit})) || exit 1
    sleep {poll}
    now=${{EPOCHREALTIME/[.,]/}}
    ((step = now - last, waited += step < 1000000 ? step : 1000000, last = now))
done
"""
"""In microseconds; a step that took longer than a second was none of waiting."""
OWNER = "owner"
"""The file that says whose box it is: when that process is gone, nobody wants it any more."""


class Ran(Struct, frozen=True):
    code: int
    stdout: str = ""
    stderr: str = ""


class TooLong(HermesError):
    """What was run in a box did not end in time."""


class Box:
    """`folder` is private to it: who runs, and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = BoxPlace(str(folder))

    @property
    def pid(self) -> int:
        """Its first process, as this machine counts them. Raises where the box is gone."""
        return first_process(self.place)

    @property
    def alive(self) -> bool:
        try:
            return bool(self.pid)
        except HermesError:
            return False

    def boot(self, world: World) -> None:
        """Make it, and wait until its programs are up."""
        self.folder.mkdir(mode=0o700, parents=True)
        (self.folder / OWNER).write_text(f"{os.getpid()} {started_at(os.getpid())}\n")
        (self.folder / "root").mkdir()
        groups = sandbox_limits.join(LIMITS, self.folder)
        spec = _spec(world, self.folder / "root", sorted(set(groups.values())))
        pid = _launch(spec, self.folder)
        (self.folder / "pid").write_text(f"{pid} {started_at(pid)}\n")
        _nudge(pid)
        for program in world.programs:
            if program.autostart and program.ready:
                self.wait(program.ready, node=program.node)
        if any(program.autostart and program.start_seconds for program in world.programs):
            # Who ends while the supervisor still calls it starting is started again.
            self.run("while supervisorctl status | grep -q STARTING; do sleep 0.1; done")

    def run(self, text: str, *, check: bool = True, node: str = "", seconds: float = 60.0) -> Ran:
        """A line of bash, as root of the box."""
        words = [*door(self.place), *_on(node), "bash", "--noprofile", "--norc", "-c", text]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds,
                env=ENVIRONMENT, cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TooLong(f"in the box, {text!r} took longer than {seconds:g} s") from None
        ran = Ran(done.returncode, _text(done.stdout), _text(done.stderr))
        if check and ran.code:
            raise HermesError(f"in the box, {text!r} ended with {ran.code}: {ran.stderr.strip()}")
        return ran

    def spawn(self, text: str, *, node: str = "") -> None:
        """Leave a process behind, whose parent is process 1."""
        inner = f"setsid bash --noprofile --norc -c {shlex.quote(text)} </dev/null &>/dev/null &"
        self.run(inner, node=node)

    def write(self, path: str, text: str | bytes, mode: int | None = None) -> None:
        data = text.encode() if isinstance(text, str) else text
        words = [*door(self.place), "bash", "-c", 'mkdir -p "${1%/*}" && cat >"$1"', "-", path]
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
            f"if ((n > 0)); then dd if=/dev/urandom of={quoted} bs=1k count=$n status=none; fi"
        )

    def wait(self, what: str, seconds: float = 20.0, *, node: str = "") -> None:
        """Until `tcp:PORT` answers, `down:PORT` does not, `unix:PATH` or `file:PATH` is there. The
        box waits by itself: a machine that stands still does not use up its time."""
        kind, _, name = what.partition(":")
        test = {
            "tcp": f"exec 3<>/dev/tcp/127.0.0.1/{name}",
            "down": f"! (exec 3<>/dev/tcp/127.0.0.1/{name})",
            "unix": f"[[ -S {shlex.quote(name)} ]]",
            "file": f"[[ -e {shlex.quote(name)} ]]",
        }[kind]
        loop = WAIT.format(test=test, poll=POLL_SECONDS, limit=int(seconds * 1e6))
        try:
            came = not self.run(loop, check=False, node=node, seconds=seconds + START_SECONDS).code
        except TooLong:
            came = False
        if not came:
            said = self.run("tail -qn 5 /var/log/supervisor/*.log", check=False).stdout
            raise HermesError(
                f"{what} did not come in the box within {seconds:g} s: {said.strip()[-1500:]}"
            )

    def keep(self) -> None:
        """It is to stay when its owner goes."""
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
        with contextlib.suppress(HermesError):
            pid = self.pid
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + GOING_SECONDS
            while started_at(pid) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        sandbox_limits.leave(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def boxes(drills: Path) -> list[Box]:
    """All that there are below a folder, running or not."""
    found = [*drills.glob("*/pid"), *drills.glob(f"*/{OWNER}")] if drills.is_dir() else []
    return [Box(folder) for folder in sorted({path.parent for path in found})]


def _launch(spec: dict[str, Any], folder: Path) -> int:
    file = os.memfd_create("box")
    os.write(file, json.dumps(spec).encode())
    os.lseek(file, 0, os.SEEK_SET)
    heard, tell = os.pipe()
    try:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [PYTHON, "-I", "-S", str(HERE / "box_program.py"), str(file), str(tell)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(file, tell), cwd="/",
                env=ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        os.close(tell)
        tell = -1
        readable, _, _ = select.select([heard], [], [], START_SECONDS)
        words = os.read(heard, 64).decode().split() if readable else []
    finally:
        for number in (file, heard, tell):
            if number >= 0:
                os.close(number)
    if len(words) != 2:
        process.kill()
        process.wait()
        said = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
        raise HermesError(
            f"the box did not start: {said[0] if said else 'no reason was given'}",
            "unprivileged user namespaces must be allowed: sysctl kernel.unprivileged_userns_clone,"
            " kernel.apparmor_restrict_unprivileged_userns",
        )
    threading.Thread(target=process.wait, name="box", daemon=True).start()  # no zombie is left
    return int(words[1])


def _spec(world: World, root: Path, groups: Sequence[str]) -> dict[str, Any]:
    base = str(Path(sys.base_prefix).resolve())
    shown = [("/usr", "/usr"), (_supervisor(), "/opt/lib/supervisor")]
    if not Path(base).is_relative_to("/usr"):
        shown.insert(1, (base, base))
    files = {
        path: {
            "data": base64.b64encode(file.data or file.text.encode()).decode(),
            "mode": file.mode, "link": file.link, "size": file.size, "age": file.age,
        }
        for path, file in {**layout.files(world, PYTHON), **world.files}.items()
    }  # fmt: skip
    return {
        "root": str(root), "groups": list(groups), "ordinary": ORDINARY, "mb": world.mb,
        "hostname": world.hostname, "shown": shown,
        "hidden": [str(Path(hermes_agent.__file__).parent)],
        "mounts": [{"path": m.path, "mb": m.mb, "inodes": m.inodes} for m in world.mounts],
        "folders": dict(world.folders), "files": files,
        "setup": [*layout.setup(world), *world.setup],
        "init": layout.INIT, "environment": ENVIRONMENT,
    }  # fmt: skip


def _supervisor() -> str:
    found = find_spec("supervisor")
    if found is None or found.origin is None:
        raise HermesError(
            "the library supervisor is not installed", "pip install 'hermes-agent[drills]'"
        )
    return str(Path(found.origin).parent)


def _nudge(pid: int) -> None:
    """The supervisor sleeps a second before it starts anything, unless somebody calls."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as call, contextlib.suppress(OSError):
            call.connect(f"/proc/{pid}/root{layout.SOCKET}")
            return
        time.sleep(POLL_SECONDS)
    raise HermesError("the supervisor of the box did not start")


def _on(node: str) -> list[str]:
    return ["/opt/bin/on-node", node] if node else []


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
