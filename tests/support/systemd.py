"""A real manager of systemd, for units of a folder: that of a user, in namespaces of its own, on a
machine that systemd need not have started."""

import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemons import check_root
from tests.support.patience import PATIENCE

HIERARCHIES = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
BOOT = """
for group; do echo $$ >"$group/cgroup.procs"; done
exec unshare --mount --cgroup --pid --fork --kill-child --mount-proc --propagation slave sh -c '
    mkdir -p /run/systemd && mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system
    /lib/systemd/systemd --user & # it refuses to be the first process
    wait'
"""
ASK = """#!/bin/sh
exec nsenter --target {pid} --pid --mount /usr/bin/env XDG_RUNTIME_DIR={run} \\
    XDG_CONFIG_HOME={config} /usr/bin/systemctl --user "$@"
"""
START_SECONDS = 60


class Manager:
    """`units` is where its unit files lie; with `path` first in PATH, `systemctl` asks it."""

    def __init__(self, folder: Path) -> None:
        self.units = folder / "config/systemd/user"
        self.path = folder / "bin"
        self._run = folder / "run"
        self._config = folder / "config"
        self.enter: list[str] = []
        """What runs a command where it is."""
        for one in (self.units, self.path, self._run):
            one.mkdir(parents=True, mode=0o700)
        (self.units / "default.target").write_text("[Unit]\nDefaultDependencies=no\n")

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": f"{self.path}:{os.environ['PATH']}"}

    @property
    def inside(self) -> dict[str, str]:
        """The environment of commands that are run by `enter`."""
        return {"XDG_RUNTIME_DIR": str(self._run), "XDG_CONFIG_HOME": str(self._config)}

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            [self.path / "systemctl", *words], capture_output=True, text=True, timeout=PATIENCE
        )
        return done.stdout.strip()

    def start(self, groups: list[Path]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["sh", "-c", BOOT, "sh", *map(str, groups)], env={**os.environ, **self.inside},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while True:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if children:  # the first process of the namespace
                self.enter = ["nsenter", "--target", children[0], "--pid", "--mount"]
                text = ASK.format(pid=children[0], run=self._run, config=self._config)
                (self.path / "systemctl").write_text(text)
                (self.path / "systemctl").chmod(0o755)
                if self.ask("is-system-running") in ("running", "degraded"):
                    return process
            assert process.poll() is None, "the manager has ended"
            assert time.monotonic() < deadline, "the manager does not start"
            time.sleep(0.1)


@contextlib.contextmanager
def manager(folder: Path) -> Iterator[Manager]:
    check_root("a manager of systemd")
    name = f"hermes-{uuid.uuid4().hex[:8]}"
    groups = [Path(one, name) for one in HIERARCHIES if Path(one, "cgroup.procs").exists()]
    for group in groups:
        group.mkdir()
    made = Manager(folder)
    process = made.start(groups)
    try:
        yield made
    finally:
        process.kill()
        process.wait()
        for group in groups:
            _remove(group)


def _remove(group: Path) -> None:
    """Its groups, from the innermost; they are busy until the last process is gone."""
    deadline = time.monotonic() + START_SECONDS
    for one in sorted((path.parent for path in group.rglob("cgroup.procs")), reverse=True):
        while True:
            try:
                one.rmdir()
                break
            except OSError:
                assert time.monotonic() < deadline, f"{one} stays busy"
                time.sleep(0.05)


JOURNAL = """
mount --make-rprivate / && mount -t tmpfs tmpfs /run
mkdir -p /run/log/journal /run/systemd/journal /run/systemd/journald.conf.d
printf '[Journal]\\nReadKMsg=no\\n' >/run/systemd/journald.conf.d/no-kernel.conf
exec /lib/systemd/systemd-journald
"""


class Machine:
    """A mount namespace with a journal of its own."""

    def __init__(self, pid: int) -> None:
        self.enter = ["nsenter", "--target", str(pid), "--mount"]

    def run(self, *words: str | Path) -> str:
        done = subprocess.run([*self.enter, *words], check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def log(self, name: str, priority: str, text: str) -> None:
        """Write to the journal, and wait until it is there."""
        written = ("journalctl", "--quiet", "--output=cat", f"--identifier={name}")
        before = self.run(*written).count("\n")
        self.run("systemd-cat", "-t", name, "-p", priority, "printf", "%s", text)
        deadline = time.monotonic() + PATIENCE
        while self.run(*written).count("\n") == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextlib.contextmanager
def journal_daemon() -> Iterator[Machine]:
    """A real journald in a mount namespace of its own."""
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", JOURNAL],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    made = Machine(process.pid)
    try:
        deadline = time.monotonic() + START_SECONDS
        ready = [*made.enter, "test", "-S", "/run/systemd/journal/stdout"]
        while subprocess.run(ready, check=False, stderr=subprocess.DEVNULL).returncode:
            assert process.poll() is None, "journald has ended"
            assert time.monotonic() < deadline, "journald does not start"
            time.sleep(0.05)
        yield made
    finally:
        process.terminate()
        process.wait(PATIENCE)
