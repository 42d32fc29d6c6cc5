"""`make demo` where no box can be made: one task with real commands, killed with SIGKILL in the
middle, that goes on by itself. The model's words come from a script; everything else is real."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hermes_agent.cli.client import Api
from hermes_agent.cli.follow import Following, send
from hermes_agent.cli.show import Printer

TASK = "The nightly report is empty. Find out why, mend it, and show me that it works."

REPORT = """\
# Adds up yesterday's orders.
echo "reading orders"
sleep 4
awk -F, 'NR > 1 { total += $2 } END { printf "total %.2f\\n", total }' orders.csv > report.txt
echo ran >> runs.log
echo "report written"
"""

ORDERS = "order;amount\n1001;19.50\n1002;49.00\n1003;40.00\n"


def play(api: Api, folder: Path) -> int:
    work = folder / "work"
    work.mkdir()
    (work / "report.sh").write_text(REPORT)
    (work / "orders.csv").write_text(ORDERS)
    _say(f"The task, for a scripted model: {TASK}\n")
    killed, end = _play(api, work)
    return _sum_up(api, work, killed, end)


def _play(api: Api, work: Path) -> tuple[int, dict[str, Any]]:
    """Send the task and watch it; kill the runtime while the long command runs."""
    message: dict[str, object] = {
        "text": TASK,
        "workspace": str(work),
        "model": "scripted/demo",
        "policy": "sandbox",
    }
    sent = send(api, message)
    printer = Printer(live=True, quiet=False, side=sys.stdout)
    killed = 0
    end: dict[str, Any] = {"session": sent["session"]}
    for event in Following(api, sent["session"], sent["key"], sent["after"]).events():
        printer.show(event)
        if event["kind"] == "output_arrived" and not killed:
            killed = int(api.get("/v1/status")["pid"])
            _say(f"\n    kill -9 {killed}    # the runtime is gone; its command is still running")
            os.kill(killed, signal.SIGKILL)
            time.sleep(1)
        if event["kind"] == "turn_finished":
            end.update(event)
    return killed, end


def _sum_up(api: Api, work: Path, killed: int, end: dict[str, Any]) -> int:
    journal = api.get(f"/v1/sessions/{end['session']}/journal")
    kinds = [one["event"]["kind"] for one in journal]
    runs = (work / "runs.log").read_text().count("ran")
    report = (work / "report.txt").read_text().strip()
    now = api.get("/v1/status")["pid"]
    good = bool(killed) and "turn_resumed" in kinds and end["reason"] == "done"
    good = good and runs == 1 and report == "total 108.50"
    _say(
        f"\nWhat happened: runtime {killed} was killed in the middle of a command; runtime {now} "
        f"took the turn up by itself.\nThe command ran {runs} time, its output was kept "
        f"({report}), and the journal holds all {len(kinds)} events: nothing lost, nothing twice."
        if good
        else f"\nThe demo went wrong: killed {killed}, runs {runs}, {end.get('reason')}: {kinds}"
    )
    if good:
        _say(
            "\nNext: set HERMES_MODEL and a key, then `.venv/bin/hermes chat`. "
            "docs/guides/first-steps.md shows how."
        )
    return 0 if good else 1


def _say(text: str) -> None:
    print(text, flush=True)
