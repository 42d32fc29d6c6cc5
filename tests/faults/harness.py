"""Turns of mixed effects, runtimes that are killed, and what must be true afterwards."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.core.errors import Degraded, HermesError, NotFound
from tests.support.patience import PATIENCE, pauses
from tests.support.terminals import lives

"""How long a runtime may take for what normally takes a blink."""

Event = dict[str, Any]


class ForkServer:
    """Forks runtimes from a process that has imported them."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "HERMES_POLICY": "sandbox",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )

    def start(self, home: Path, phase: str = "never", number: int = 0) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{home} {phase} {number}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def wait_until(met: Any, what: str) -> None:
    deadline, pause = time.monotonic() + PATIENCE, pauses()
    while not met():
        assert time.monotonic() < deadline, f"waited too long: {what}"
        time.sleep(next(pause))


LOOK = "wc -l < effects.log; getent passwd root | cut -d: -f1"
LOOKS = """
version: 1
rules:
  - {id: looks, match: {program: [wc, cut]}, then: allow, confine: read-only}
  - {id: read, match: {access: read}, then: allow, confine: read-only}
  - {id: asks, match: {program: getent}, then: allow, confine: around}
"""


def script(folder: Path, work: Path, turns: int, *, looks: bool = False) -> Path:
    """Each turn changes things in every way there is: commands, files, a tool that leaves no
    trace, several at once, and one that only looks. Each effect adds a line of its own. `looks`
    adds a confined command, which calls a program outside."""
    log = work / "effects.log"
    entries = []
    for turn in range(turns):

        def line(name: str, turn: int = turn) -> str:
            return f"t{turn}-{name}"

        def command(name: str) -> Event:
            return {"tool": "terminal", "with": {"command": f"echo {line(name)} >> effects.log"}}

        def append(name: str) -> Event:
            return {"tool": "append_line", "with": {"path": str(log), "line": line(name)}}

        note = f"note-{turn}.txt"
        entries.append(
            {
                "replies": [
                    {"say": "First a command.", "calls": [command("command")]},
                    {
                        "calls": [
                            {"tool": "write_file", "with": {"path": note, "content": line("file")}},
                            {"tool": "count_lines", "with": {"path": str(log)}},
                            *([{"tool": "terminal", "with": {"command": LOOK}}] if looks else ()),
                        ]
                    },
                    {"calls": [append("left"), append("right"), command("beside")]},
                    {
                        "calls": [
                            {
                                "tool": "patch",
                                "with": {"path": note, "old": "file", "new": "patched"},
                            }
                        ]
                    },
                    {"say": f"Turn {turn} is done."},
                ]
            }
        )
    path = folder / "script.json"
    path.write_text(json.dumps({"name": "scripted/faults", "turns": entries}))
    return path


LINES = ("command", "left", "right", "beside")


class Site(Struct, frozen=True):
    """Where the session of a case works."""

    terminal: str = "local"
    config: str = ""
    """What config.yaml says of the terminal."""
    work: Path | None = None
    """Its workspace as this machine sees it, where that is not the session's own."""
    looks: bool = False
    """Whether it runs confined commands as well."""


class Case:
    """One home, a session on it, and what was acknowledged."""

    def __init__(
        self, folder: Path, fork_server: ForkServer, turns: int, site: Site | None = None
    ) -> None:
        self.folder = folder
        self.site = site or Site()
        self.home = folder / "home"
        self.near = folder / "work"
        for each in (self.home, self.near):
            each.mkdir(parents=True)
        self.work = self.site.work or self.near
        (self.home / "config.yaml").write_text(self.site.config)
        if self.site.looks:
            (self.home / "policies").mkdir()
            (self.home / "policies" / "looks.yaml").write_text(LOOKS)
        self.script = script(folder, self.work, turns, looks=self.site.looks)
        self.api = RuntimeClient(str(self.home))
        self.fork_server = fork_server
        self.pid = 0
        self.session = ""
        self.acknowledged: list[str] = []
        self.decided: set[str] = set()

    def start(self, phase: str = "never", number: int = 0) -> None:
        """Start a runtime and wait until it answers, or has died as told."""
        self.pid = self.fork_server.start(self.home, phase, number)
        wait_until(lambda: self.api.is_up() or not lives(self.pid), "the runtime to start")

    @property
    def died(self) -> bool:
        return not lives(self.pid)

    def has_died(self) -> bool:
        """Its connection broke, so it is about to be gone if it is not yet."""
        wait_until(lambda: self.died, "the runtime to die")
        return True

    def kill(self) -> None:
        if self.pid and lives(self.pid):
            with suppress(ProcessLookupError):  # it was about to die by itself
                os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: self.died, "the runtime to die")

    def send(self, key: str) -> bool:
        """Hand a message in; True when it was acknowledged."""
        try:
            return self.send_plainly(key, f"message {key}")
        except (RuntimeGone, Degraded):  # it died, or is stopping
            return False

    def send_plainly(self, key: str, text: str, **more: object) -> bool:
        message: dict[str, object] = {
            "text": text,
            "key": key,
            "session": self.session,
            "workspace": str(self.near),
            "model": f"scripted/{self.script}",
            "terminals": (self.site.terminal,),
            **more,
        }
        sent = self.api.post("/v1/messages", message)
        self.session = sent["session"]
        self.acknowledged.append(key)
        return True

    def journal(self) -> list[Event]:
        return list(self.api.get(f"/v1/sessions/{self.session}/journal"))

    def state(self) -> str:
        return str(self.api.get(f"/v1/sessions/{self.session}")["state"])

    def finish(self) -> None:
        """Let it work until nothing is left to do; a parked effect is decided by looking."""
        deadline, pause = time.monotonic() + PATIENCE, pauses()
        while time.monotonic() < deadline:
            if not self.session:
                return
            for parked in self.api.get("/v1/parked"):
                self._decide(parked)
            if self.is_done():
                return
            time.sleep(next(pause))
        raise AssertionError(f"it did not finish: {self.api.get('/v1/status')}")

    def finish_all(self) -> bool:
        """Let it work, and learn from what it did, until nothing is left to do; True when it died
        on the way. After a restart there is no waiting for what was to be learned: it is left
        alone for a minute."""
        try:
            self.finish()
            wait_until(lambda: self.died or self._has_learned(), "what comes after the turns")
            self.finish()
        except RuntimeGone:
            return self.has_died()
        return self.died

    def _has_learned(self) -> bool:
        """What is to be learned from a turn is wanted as the turn ends, and dropped when done."""
        with closing(sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True)) as db:
            waiting = db.execute("select 1 from tasks where kind = 'turn' limit 1").fetchone()
        return waiting is None

    def is_done(self) -> bool:
        taken = {e["event"]["key"] for e in self.journal() if e["event"]["kind"] == "message_taken"}
        # In this order: a turn that takes the last message is not seen to be idle before it began.
        return set(self.acknowledged) <= taken and self.state() == "idle"

    def _decide(self, parked: Event) -> None:
        assert parked["tool"] == "append_line", f"it leaves a trace and was parked: {parked}"
        line = json.loads(parked["input"])["line"]
        decision = "it-happened" if line in self.lines() else "retry"
        try:
            self.api.post(f"/v1/parked/{parked['effect']}", {"decision": decision})
        except HermesError:
            return  # the turn that owns it is not up yet
        self.decided.add(parked["effect"])

    def lines(self) -> list[str]:
        path = self.work / "effects.log"
        return path.read_text().splitlines() if path.exists() else []

    def check(self) -> None:
        """Nothing acknowledged is lost, nothing ran twice, everything came to its end."""
        lines = Counter(self.lines())
        twice = [line for line, times in lines.items() if times > 1]
        assert not twice, f"ran twice: {twice}"
        if not self.session:
            return
        events = [one["event"] for one in self.journal()]
        taken = Counter(e["key"] for e in events if e["kind"] == "message_taken")
        assert all(times == 1 for times in taken.values()), f"taken twice: {taken}"
        missing = [key for key in self.acknowledged if key not in taken]
        assert not missing, f"acknowledged and lost: {missing}"
        finished = Counter(e["effect"] for e in events if e["kind"] == "call_finished")
        assert all(times == 1 for times in finished.values()), "a call ended twice"
        parked = {e["effect"] for e in events if e["kind"] == "call_parked"}
        traceless = {e["effect"] for e in events if e.get("tool") == "append_line"}
        assert parked <= traceless, "an effect that leaves a trace was parked"
        started = [e for e in events if e["kind"] == "turn_started"]
        ended = [e for e in events if e["kind"] == "turn_finished"]
        assert len(started) == len(ended)
        failures = [e for e in events if e["kind"] == "call_finished" and not e["ok"]]
        assert not failures, failures
        assert {e["reason"] for e in ended} == {"done"}, ended
        for turn in range(len(ended)):
            for name in LINES:
                assert lines[f"t{turn}-{name}"] == 1, f"t{turn}-{name} is missing"
            assert (self.work / f"note-{turn}.txt").read_text() == f"t{turn}-patched"

    def _deleted(self) -> bool:
        try:
            self.api.post(f"/v1/sessions/{self.session}/interrupt")
            self.api.delete(f"/v1/sessions/{self.session}")
        except NotFound:
            return True
        except HermesError:  # its turn is just ending
            return False
        return True

    def close(self) -> None:
        """Shells outlive a runtime that is killed; a far one is ended with its session."""
        if self.site.terminal != "local" and self.session:
            if self.died:
                self.start()
            wait_until(self._deleted, "the session to be deleted")
        self.kill()
        end_daemons(self.home)


def end_daemons(home: Path) -> None:
    """End the shells of a home."""
    mark = str(home).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
                if mark in words and b"bash" in words:
                    os.kill(int(entry.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue


@contextmanager
def case(
    folder: Path, fork_server: ForkServer, turns: int = 3, site: Site | None = None
) -> Iterator[Case]:
    one = Case(folder, fork_server, turns, site)
    try:
        yield one
    finally:
        one.close()
