"""The demo where no box can be made: one task with real commands, killed with SIGKILL in the
middle, that goes on by itself. The model's words come from a script; everything else is real."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hermes_drills.errors import DrillError
from hermes_drills.needs import find
from hermes_drills.run.client import Runtime
from hermes_drills.run.view import View

ALONE = ("--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "true")
TASK = "The nightly report is empty. Find out why, fix it, and show me that it works."
REPORT = """\
# Adds up yesterday's orders.
echo "reading orders"
sleep 4
awk -F, 'NR > 1 { total += $2 } END { printf "total %.2f\\n", total }' orders.csv > report.txt
echo ran >> runs.log
echo "report written"
"""
ORDERS = "order;amount\n1001;19.50\n1002;49.00\n1003;40.00\n"
SECONDS = 120.0


def no_namespaces() -> str:
    """Why no box can be made here; empty where one can."""
    if lack := [name for name in ("unshare", "nsenter") if find(name) is None]:
        return f"{', '.join(lack)} not found (apt-get install util-linux)"
    done = subprocess.run([str(find("unshare")), *ALONE], capture_output=True, check=False)
    return "namespaces are not allowed" if done.returncode else ""


class LocalRuntime(Runtime):
    """A runtime of its own on this machine, started and stopped by the command `hermes`."""

    def __init__(self, home: Path) -> None:
        self._sockets_found: list[str] = []
        super().__init__(home, self._sockets_found, self._up)

    def _hermes(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "hermes_agent", *words], capture_output=True, text=True,
            check=False, env={**os.environ, "HERMES_HOME": str(self.home)},
        )  # fmt: skip

    def _up(self) -> None:
        done = self._hermes("up", "--json")
        if done.returncode:
            raise DrillError(f"the runtime did not start: {done.stderr.strip()}")
        self._sockets_found[:] = [json.loads(done.stdout)["socket"]]

    def stop(self) -> None:
        if self.home.is_dir():
            self._hermes("down")
        for path in map(Path, self._sockets_found):
            if not path.is_relative_to(self.home):
                shutil.rmtree(path.parent, ignore_errors=True)


def play_small(runtime: Runtime, work: Path, view: View) -> int:
    work.mkdir(parents=True)
    (work / "report.sh").write_text(REPORT)
    (work / "orders.csv").write_text(ORDERS)
    view.write(f"\nThe task, for a scripted model: {TASK}\n")
    sent = runtime.post("/v1/messages", {
        "text": TASK, "workspace": str(work), "model": "scripted/demo", "policy": "sandbox",
    })  # fmt: skip
    killed, journal = _follow(runtime, sent["session"], view)
    kinds = [row["event"]["kind"] for row in journal]
    runs, report = _text(work / "runs.log").count("ran"), _text(work / "report.txt").strip()
    now = runtime.get("/v1/status")["pid"]
    good = killed and "turn_resumed" in kinds and (runs, report) == (1, "total 108.50")
    view.write(
        f"\nRuntime {killed} was killed in the middle of a command; runtime {now} resumed the turn."
        f"\nThe command ran once, its output was saved ({report}), and the journal has all "
        f"{len(kinds)} events: nothing lost, nothing repeated."
        if good
        else f"\nThe demo failed: killed {killed}, runs {runs}, {report!r}: {kinds}"
    )
    return 0 if good else 1


def _follow(runtime: Runtime, session: str, view: View) -> tuple[int, list[dict[str, Any]]]:
    """Show what it does; kill the runtime while the long command runs."""
    killed, shown, deadline = 0, 0, time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        journal: list[dict[str, Any]] = runtime.get(f"/v1/sessions/{session}/journal", after=0)
        for row in journal[shown:]:
            event = row["event"]
            if event["kind"] == "replied":
                calls = [
                    json.loads(call["arguments"]).get("command", "") for call in event["calls"]
                ]
                view.write(
                    "\n".join(filter(None, (event["text"], *(f"  $ {c}" for c in calls if c))))
                )
            elif event["kind"] == "turn_finished":
                return killed, journal
        shown = len(journal)
        intended = [row for row in journal if row["event"]["kind"] == "call_intended"]
        if not killed and intended and _is_sleeping(journal):
            killed = int(runtime.get("/v1/status")["pid"])
            view.write(
                f"\n  kill -9 {killed}    # the runtime is dead; its command is still running\n"
            )
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.25)
    return killed, journal


def _is_sleeping(journal: list[dict[str, Any]]) -> bool:
    """Whether the last call has been under way for a second."""
    last = journal[-1]
    return bool(last["event"]["kind"] == "call_intended" and time.time() - last["time"] > 1.0)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
