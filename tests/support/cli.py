"""The real `hermes`, run as a person runs it, on a home of its own; and a terminal to run it in."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.core.errors import HermesError
from hermes_agent.host.inspect import lock_owner, supervisor
from hermes_agent.host.paths import other_run_folder
from hermes_agent.terminals.shell import daemon
from tests.support.forked_cli import can_fork, forked
from tests.support.patience import PATIENCE, pauses
from tests.support.prompt_prefix import check_prefixes

SCRIPT = """
price: {input: 1.0, output: 2.0}
turns:
  - when: write a file
    replies:
      - say: I will write it.
        calls: [{tool: terminal, with: {command: "echo written >> made.txt; echo shown"}}]
      - say: The file is **written**.
  - when: work long
    replies:
      - calls: [{tool: terminal, with: {command: "echo begun; sleep 300"}}]
      - say: The long work is over.
  - when: work a little
    replies:
      - calls: [{tool: terminal, with: {command: "echo begun; sleep 3; echo once >> little.txt"}}]
      - say: A little work was done.
  - when: which colour
    replies:
      - calls: [{tool: ask_user, with: {question: Which colour?, choices: [red, blue]}}]
      - say: A fine colour.
  - replies:
      - say: Good day to you.
"""


STOP_SECONDS = 20.0


def wait_until(met: Callable[[], Any], what: str) -> Any:
    """What `met` returns once that is true."""
    deadline, pause = time.monotonic() + PATIENCE, pauses()
    while not (found := met()):
        assert time.monotonic() < deadline, f"waited too long: {what}"
        time.sleep(next(pause))
    return found


class Hermes:
    """Runs commands with a home, a workspace and a script beside each other in a folder."""

    def __init__(self, folder: Path, script: str = SCRIPT) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.script = folder / "script.yaml"
        self.script.write_text(script)
        self.environ = {
            **os.environ,
            "HERMES_HOME": str(self.home),
            "HERMES_MODEL": f"scripted/{self.script}",
            "HERMES_POLICY": "sandbox",
            "NO_COLOR": "1",
        }
        self.api = RuntimeClient(str(self.home))

    def beside(self, folder: Path) -> "Hermes":
        """The same home and runtime, with a workspace, a script and variables of its own."""
        made = copy(self)
        made.work, made.script = folder / "work", folder / "script.yaml"
        made.work.mkdir(parents=True)
        made.script.write_text(self.script.read_text())
        made.environ = {**self.environ, "HERMES_MODEL": f"scripted/{made.script}"}
        return made

    def sessions(self) -> list[dict[str, Any]]:
        """The sessions that work here."""
        rows: list[dict[str, Any]] = self.api.get("/v1/sessions", limit=1000)
        return [row for row in rows if row["workspace"] == str(self.work)]

    def run(
        self, *words: str | bytes, input: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. A variable set to nothing is taken away."""
        given = {name: value for name, value in {**self.environ, **environ}.items() if value}
        if can_fork(given) and all(isinstance(word, str) for word in words):
            return forked([str(word) for word in words], self.work, given, input, PATIENCE)
        return subprocess.run(
            [sys.executable, "-m", "hermes_agent", *words],
            cwd=self.work,
            env=given,
            input=input,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def good(self, *words: str, input: str = "", **environ: str) -> str:
        done = self.run(*words, input=input, **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.good(*words, "--json"))

    def ask(self, text: str, *words: str) -> str:
        """A turn in a new session, which is returned."""
        answer = self.json("ask", text, *words)
        return str(answer["session"])

    def send(self, text: str, **more: object) -> str:
        """A message that nobody waits for; its session is returned."""
        self.good("up")
        message: dict[str, object] = {
            "text": text,
            "workspace": str(self.work),
            "model": self.environ["HERMES_MODEL"],
            **more,
        }
        return str(self.api.post("/v1/messages", message)["session"])

    def wait_for_command(self, session: str) -> None:
        spool = self.home / "terminals" / session / "local"
        wait_until(lambda: any(out.read_bytes() for out in spool.glob("*.o")), "a command's output")

    def kill_supervisor(self) -> None:
        """Before a runtime is killed: it would restart it."""
        if pid := supervisor(str(self.home))[0]:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not supervisor(str(self.home))[0], "the supervisor to be gone")

    def kill_runtime(self) -> None:
        self.kill_supervisor()
        pid = lock_owner(str(self.home))
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: lock_owner(str(self.home)) is None, "the runtime to be gone")

    def end_shells(self) -> None:
        """At once: a daemon that saw its command die would write down how it ended."""
        for session in [*self.home.glob("terminals/*")]:
            with suppress(FileNotFoundError):  # it may be removing those of its checks
                for spool in [*session.iterdir()]:
                    _end_shell(spool)

    def close(self) -> None:
        self.kill_supervisor()
        with suppress(HermesError):
            self.api.post("/v1/stop")
        deadline = time.monotonic() + STOP_SECONDS
        while (pid := lock_owner(str(self.home))) is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: lock_owner(str(self.home)) is None, "the runtime to be gone")
        self.end_shells()
        shutil.rmtree(other_run_folder(str(self.home)), ignore_errors=True)
        if (self.home / "state.db").exists():
            check_prefixes(self.home / "state.db")


class Cli:
    """Commands beside the platform, which lives in this process."""

    def __init__(self, hermes: Hermes) -> None:
        self._hermes = hermes

    async def run(self, *words: str, input: str = "") -> tuple[int, str, str]:
        done = await asyncio.to_thread(self._hermes.run, *words, input=input)
        return done.returncode, done.stdout, done.stderr

    async def good(self, *words: str, input: str = "") -> str:
        code, out, err = await self.run(*words, input=input)
        assert code == 0, out + err
        return out

    async def json(self, *words: str) -> Any:
        return json.loads(await self.good(*words, "--json"))


def _end_shell(spool: Path) -> None:
    for file in (*spool.glob("daemon.*"), *spool.glob("spine")):
        with suppress(ProcessLookupError, FileNotFoundError, ValueError, IndexError):
            os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
    subprocess.run(["bash", str(daemon.SCRIPT), "destroy", str(spool)], capture_output=True)


class Pane:
    """A command in a terminal of its own, typed at and looked at as a person would."""

    def __init__(self, folder: Path, command: list[str], environ: dict[str, str]) -> None:
        self._socket = str(folder / f"tmux-{os.urandom(4).hex()}")  # the last may not be gone
        self._environ = {**environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        # In one request: a command may end before a second one is made.
        stays = ("start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";")
        size = ("-x", "140", "-y", "50")
        self._tmux(*stays, "new-session", "-d", *size, "-c", str(folder), *command)
        self._open = True

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-u", "-S", self._socket, "-f", "/dev/null", *words],
            env=self._environ,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        ).stdout

    def text(self) -> str:
        """The screen and everything that has scrolled off it."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-2000")

    def shows(self, words: str, times: int = 1) -> str:
        """Wait until the words are there; the whole text."""
        try:
            wait_until(lambda: self.text().count(words) >= times, words)
        except AssertionError:
            raise AssertionError(f"{words!r} is not shown:\n{self.text()}") from None
        return self.text()

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, rows: int) -> None:
        self._tmux("resize-window", "-x", "140", "-y", str(rows))

    def paste(self, text: str) -> None:
        """As a terminal does that marks what is pasted."""
        self._tmux("set-buffer", text, ";", "paste-buffer", "-p")

    def enter(self, text: str) -> None:
        self.type(text)
        self.press("Enter")

    def has_ended(self) -> bool:
        return self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1"

    def close(self) -> None:
        """Also when it is closed already."""
        if self._open:
            self._tmux("kill-server")
            self._open = False
