"""A runtime that is killed is restarted where neither a client nor systemd does it."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from hermes_agent.host import paths
from hermes_agent.host.inspect import alive, lock_owner, supervisor
from tests.support.cli import Hermes, wait_until
from tests.support.systemd import manager

SCRIPT = Path(paths.__file__).with_name("supervisor.sh")


def owner(hermes: Hermes) -> int:
    return lock_owner(str(hermes.home)) or 0


def test_a_killed_runtime_is_restarted_without_a_client_until_it_is_stopped(
    hermes: Hermes,
) -> None:
    up = hermes.json("up")
    watcher = up["supervisor"]
    wait_until(lambda: supervisor(str(hermes.home))[0] == watcher, "the supervisor")
    assert hermes.json("up")["supervisor"] == watcher, "one is enough"
    os.kill(up["pid"], signal.SIGKILL)
    wait_until(lambda: owner(hermes) not in (0, up["pid"]), "the runtime to be restarted")
    wait_until(hermes.api.is_up, "it to answer")
    assert "restarts   after a crash" in hermes.good("status")
    resident = Path(f"/proc/{watcher}/status").read_text().partition("RssAnon:")[2].split()[0]
    assert int(resident) < 3_000, "kilobytes of its own"
    hermes.good("down")
    assert not alive(watcher)
    assert hermes.json("status")["state"] == "stopped"


def test_a_supervisor_ends_with_a_runtime_that_ends_in_order(hermes: Hermes) -> None:
    watcher = hermes.json("up")["supervisor"]
    wait_until(lambda: supervisor(str(hermes.home))[0], "the supervisor")
    hermes.api.post("/v1/stop")
    wait_until(lambda: not alive(watcher), "the supervisor to end")
    assert owner(hermes) == 0


def test_a_runtime_that_keeps_crashing_is_given_up_and_status_says_so(hermes: Hermes) -> None:
    hermes.home.mkdir()
    for folder in ("run", "logs"):
        (hermes.home / folder).mkdir()
    socket_path, log = (
        Path(next(paths.socket_paths(str(hermes.home)))),
        hermes.home / "logs/runtime.log",
    )
    socket_path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:  # a runtime that ends in order removes it
        left.bind(str(socket_path))
    note = paths.supervisor_note(str(hermes.home))
    gone = subprocess.Popen(["true"])
    gone.wait()
    words = (note, log, socket_path, hermes.home / "run/lock", gone.pid, 3, 600, 0, "false")
    done = subprocess.run(["bash", SCRIPT, *map(str, words)], check=False)
    assert done.returncode == 1
    assert log.read_text().count("was killed or crashed; restarting it") == 3
    shown = hermes.run("status")
    assert shown.returncode == 1
    assert "it ended 4 times within 10 minutes, and is not restarted again" in shown.stdout
    assert "`hermes up` starts it again" in shown.stdout


def test_systemd_takes_over_from_a_runtime_that_something_else_started(
    hermes: Hermes, tmp_path: Path
) -> None:
    with manager(tmp_path / "systemd") as there:
        environ = {**hermes.environ, **there.inside}

        def run(*words: str) -> str:
            done = subprocess.run(
                [*there.enter, *words], env=environ, stdout=subprocess.PIPE, text=True
            )
            return done.stdout

        def said(word: str, *more: str) -> Any:
            return json.loads(run(sys.executable, "-m", "hermes_agent", word, *more, "--json"))

        def taken_over() -> bool:
            status = said("status")  # its exit code is 1 until the new one answers
            return (status["state"], status["pid"]) == ("running", main)

        assert said("up", "--unit")["unit"]
        assert said("down")["was"]
        said("sessions", "list")
        other = said("status")["pid"]
        up = said("up")
        assert (up["unit"], up["pid"], up["supervisor"]) == (True, other, None)
        main = int(there.ask("show", "--value", "--property=MainPID", paths.UNIT))
        assert main not in (0, other), "it waits"
        run("kill", "-9", str(other))
        wait_until(taken_over, "it to take over")
        assert said("down")["was"] == main
        assert there.ask("is-active", paths.UNIT) == "inactive"
        assert said("status")["state"] == "stopped"
