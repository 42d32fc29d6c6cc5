"""A runtime's life: one per home, picked up after a death, asleep when nothing needs it."""

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.client.follower import reach
from hermes_agent.core.events import CallFinished, RuntimeChanged
from hermes_agent.core.records import SessionMessage
from hermes_agent.core.tools import Tool
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.store.store import Store
from tests.faults.harness import Case, end_daemons, wait_until
from tests.support.cli import Pane
from tests.support.patience import PATIENCE
from tests.support.terminals import lives

UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"
"""A command that ends when there is a file."""


def write_script(one: Case, *replies: dict) -> None:
    one.script.write_text(json.dumps({"turns": [{"replies": list(replies)}]}))


def hermes(home: Path, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes_agent", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HERMES_HOME": str(home), **extra},
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
    )


def test_a_command_that_ran_when_the_runtime_died_is_picked_up_whole(one: Case) -> None:
    command = f"echo begun; {UNTIL_GO}; echo ran >> runs.log; echo done"
    call = {"tool": "terminal", "with": {"command": command}}
    write_script(one, {"calls": [call]}, {"say": "It is done."})
    one.start()
    assert one.send("m1")

    def has_begun() -> bool:
        spool = one.home / "terminals" / one.session / "local"
        return any("begun" in file.read_text() for file in spool.glob("*.o"))

    wait_until(has_begun, "the command to begin")
    one.kill()
    assert not (one.work / "runs.log").exists()
    one.start()
    (one.work / "go").touch()
    one.finish()
    (result,) = [e["event"] for e in one.journal() if e["event"]["kind"] == "call_finished"]
    assert result["text"].split() == ["begun", "done"]
    assert (one.work / "runs.log").read_text() == "ran\n"
    resumed = [e["event"] for e in one.journal() if e["event"]["kind"] == "turn_resumed"]
    assert [event["unfinished"] for event in resumed] == [1]


def test_a_second_runtime_on_the_same_home_is_refused_with_a_hint(one: Case) -> None:
    one.start()
    second = hermes(one.home, "serve")
    assert second.returncode == 1
    assert f"(pid {one.pid}) owns the home" in second.stderr
    assert "hint: " in second.stderr
    assert "Traceback" not in second.stderr
    inside = hermes(one.home, "ask", "--no-runtime", "hi", HERMES_MODEL="scripted/demo")
    assert inside.returncode == 1
    assert "owns the home" in inside.stderr
    assert one.api.is_up()


def test_a_stopped_runtime_takes_its_turn_up_again(one: Case) -> None:
    call = {"tool": "terminal", "with": {"command": f"{UNTIL_GO}; echo ran >> runs.log"}}
    write_script(one, {"calls": [call]}, {"say": "Done."})
    one.start()
    assert one.send("m1")
    wait_until(lambda: any((one.home / "terminals").rglob("*.s")), "the command to begin")
    one.api.post("/v1/stop")
    wait_until(lambda: not lives(one.pid), "the runtime to stop")
    one.start()
    (one.work / "go").touch()
    one.finish()
    assert (one.work / "runs.log").read_text() == "ran\n"


def test_stopping_waits_for_an_effect_that_leaves_no_trace(tmp_path: Path) -> None:
    """Nothing is parked by an orderly stop."""
    program = f"""
import os, sys, time
from pathlib import Path
from hermes_agent.core.tools import Tool
from hermes_agent.runtime.process import serve
def slow(line: str) -> str:
    Path({str(tmp_path)!r}, "begun").touch()
    time.sleep(0.6)
    Path({str(tmp_path)!r}, "ran").open("a").write(line)
    return "ok"
serve(Path({str(tmp_path / "home")!r}), os.environ, tools=[Tool("slow", slow, "Slow")])
"""
    script = tmp_path / "script.json"
    reply = {"calls": [{"tool": "slow", "with": {"line": "x"}}]}
    script.write_text(json.dumps({"turns": [{"replies": [reply, {"say": "ok"}]}]}))
    api = RuntimeClient(str(tmp_path / "home"))
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        wait_until(api.is_up, "the runtime to start")
        message = {"text": "go", "workspace": str(tmp_path), "model": f"scripted/{script}"}
        api.post("/v1/messages", {**message, "policy": "sandbox"})
        wait_until((tmp_path / "begun").exists, "the effect to begin")
        api.post("/v1/stop")
        assert process.wait(PATIENCE) == 0
    assert (tmp_path / "ran").read_text() == "x"


async def test_stopping_waits_for_an_effect_though_everything_stood_still(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await go.wait()
        return "ok"

    script = tmp_path / "script.json"
    replies = [{"calls": [{"tool": "slow", "with": {}}]}, {"say": "ok"}]
    script.write_text(json.dumps({"turns": [{"replies": replies}]}))
    environ = {"HERMES_MODEL": f"scripted/{script}", "HERMES_POLICY": "sandbox"}
    runtime = Runtime(tmp_path / "home", environ, tools=[Tool("slow", slow, "Slow")])
    await runtime.start()
    session = await runtime.sessions.open_session(workspace=str(tmp_path))
    await runtime.sessions.submit(session, SessionMessage("k", "go"))
    await begun.wait()
    stopping = asyncio.create_task(runtime.stop(patience=3.0))
    await asyncio.sleep(0)
    time.sleep(3.2)  # noqa: ASYNC251  # everything stands still
    for _ in range(20):  # and then the effect takes its time
        await asyncio.sleep(0.02)
    go.set()
    await stopping
    store = await Store.open(tmp_path / "home", readonly=True)
    found = [one.event for one in await store.events(session.id)]
    await store.close()
    assert [one.text for one in found if isinstance(one, CallFinished)] == ["ok"]


def test_it_goes_to_sleep_when_idle_and_a_client_wakes_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("runtime: {idle_seconds: 0.5}\nmodel: scripted/demo\n")
    up = hermes(home, "up", "--json")
    pid = json.loads(up.stdout)["pid"]
    wait_until(lambda: not lives(pid), "the runtime to fall asleep")
    answer = hermes(home, "ask", "--json", "hello")
    assert json.loads(answer.stdout).get("reason") == "done", answer.stdout + answer.stderr
    hermes(home, "down")
    end_daemons(home)


CALLING = """
import subprocess, sys
from hermes_agent.cli.client.api import RuntimeClient, RuntimeNotRunning

api = RuntimeClient()
message = {"text": "hi", "model": "scripted/demo", "workspace": sys.argv[1]}

def stop():
    subprocess.run([sys.executable, "-m", "hermes_agent", "down"], check=True, capture_output=True)

for act in (lambda: api.get("/v1/sessions"), lambda: api.post("/v1/messages", message)):
    api.ensure()
    stop()
    act()
    stop()
    try:
        act()
    except RuntimeNotRunning:
        print("absent")
"""


def test_one_that_falls_asleep_before_the_first_request_is_started_again(tmp_path: Path) -> None:
    """Who stops it later means it."""
    done = subprocess.run(
        [sys.executable, "-c", CALLING, str(tmp_path)],
        env={**os.environ, "HERMES_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (0, "absent\nabsent\n"), done.stderr


def begin_message(slow: socket.socket, home: Path) -> bytes:
    """Hand in the first part of a message; the rest of it."""
    body = json.dumps({"text": "hello", "workspace": str(home.parent)}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    slow.settimeout(PATIENCE)
    slow.connect(str(home / "run" / "api.sock"))
    slow.sendall(head.encode() + body[:10])
    return body[10:]


def test_it_does_not_fall_asleep_while_a_message_comes_in(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("runtime: {idle_seconds: 0.3}\nmodel: scripted/demo\n")
    api = RuntimeClient(str(home))
    api.ensure = lambda: hermes(home, "up")  # type: ignore[method-assign]  # not as our own child

    def listen() -> Generator[dict[str, Any]]:
        message = {"text": "hello", "key": "first", "workspace": str(tmp_path)}
        heard = api.events(api.post("/v1/messages", message)["session"], 0)
        next(heard)
        return heard

    listening = reach(api, listen)  # and so keep it awake
    with socket.socket(socket.AF_UNIX) as slow:
        rest = begin_message(slow, home)
        assert api.is_up()  # which it says to whoever comes after the message
        listening.close()
        time.sleep(1.5)
        slow.sendall(rest)
        assert b" 202 " in slow.recv(1000).split(b"\r\n")[0]
    hermes(home, "down")
    end_daemons(home)


def test_it_does_not_fall_asleep_under_who_came_while_it_stood_still(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("runtime: {idle_seconds: 2}\nmodel: scripted/demo\n")
    with socket.socket(socket.AF_UNIX) as slow:
        rest = b""
        while not rest:
            pid = json.loads(hermes(home, "up", "--json").stdout)["pid"]
            with suppress(OSError):  # it may have fallen asleep before it is stopped
                os.kill(pid, signal.SIGSTOP)
                time.sleep(2.5)
                rest = begin_message(slow, home)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        time.sleep(1.5)
        slow.sendall(rest)
        assert b" 202 " in slow.recv(1000).split(b"\r\n")[0]
    hermes(home, "down")
    end_daemons(home)


def test_it_stays_awake_where_it_cannot_tell_whether_it_is_needed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("runtime: {idle_seconds: 0.3}\n")
    program = f"""
import asyncio, os
from pathlib import Path
from hermes_agent.runtime.process import serve
class Broken:
    name = "broken"
    def __init__(self, runtime): pass
    async def run(self): await asyncio.Future()
    def table(self): return ()
    def public(self): return ()
    @property
    def busy(self): raise RuntimeError("no idea")
    async def status(self): return {{}}
    async def close(self): pass
serve(Path({str(home)!r}), os.environ, services=[Broken])
"""
    api = RuntimeClient(str(home))
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        logged = home / "logs" / "runtime.log"
        wait_until(api.is_up, "the runtime to start")
        wait_until(lambda: logged.read_text().count("staying up") > 5, "it to look")
        assert "no idea" in logged.read_text()
        assert api.is_up()
        api.post("/v1/stop")
        assert process.wait(PATIENCE) == 0


LATE = """
import os, sys, time
if sys.orig_argv[-1] == "serve":
    while not os.path.exists({go!r}):
        time.sleep(0.02)
"""
"""Keeps a runtime from starting before there is a file."""


def test_who_waits_for_a_slow_start_is_told(tmp_path: Path) -> None:
    slow, go = tmp_path / "slow", tmp_path / "go"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(LATE.format(go=str(go)))
    home = tmp_path / "home"
    environ = {**os.environ, "HERMES_HOME": str(home), "PYTHONPATH": str(slow)}
    pane = Pane(tmp_path, [sys.executable, "-m", "hermes_agent", "up"], environ)
    try:
        pane.shows("slow to start")
        go.touch()
        shown = pane.shows("up, pid")
    finally:
        pane.close()
    hermes(home, "down")
    late = "import sys, time\nif sys.orig_argv[-1] == 'serve':\n    time.sleep(7)\n"
    (slow / "sitecustomize.py").write_text(late)
    aside = hermes(home, "up", PYTHONPATH=str(slow))  # who reads it is a program
    hermes(home, "down")
    assert shown.count("slow to start") == 1
    assert (aside.returncode, aside.stderr) == (0, "")


async def test_one_that_was_slow_to_start_is_not_tired_at_once(tmp_path: Path) -> None:
    times = itertools.count(1000.0, 60.0)
    runtime = Runtime(tmp_path / "home", {}, clock=lambda: next(times))
    await runtime.start()
    begun = runtime.context.started
    slept = runtime.idle_for()
    await runtime.stop()
    assert next(times) - begun > 300
    assert slept <= 120


async def test_it_is_needed_by_a_turn_that_is_still_put_together(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "home", {"HERMES_MODEL": "scripted/demo"})
    await runtime.start()
    session = await runtime.sessions.open_session(workspace=str(tmp_path))
    await runtime.sessions.submit(session, SessionMessage("k", "hello"))
    needed = await runtime.is_in_use()
    await runtime.sessions.wait_idle(session.id)
    await runtime.stop()
    assert needed


@pytest.mark.parametrize(("asleep", "told"), [(False, ["stopping"]), (True, [])])
async def test_one_that_only_falls_asleep_is_not_told_as_stopped(
    tmp_path: Path, asleep: bool, told: list[str]
) -> None:
    """Who follows a session wakes one that sleeps, and leaves alone one that was stopped."""
    runtime = Runtime(tmp_path / "home", {"HERMES_MODEL": "scripted/demo"})
    await runtime.start()
    session = await runtime.sessions.open_session(workspace=str(tmp_path))

    async def listen() -> list[str]:
        heard = [recorded.event async for recorded in runtime.sessions.events(session.id)]
        return [event.state for event in heard if isinstance(event, RuntimeChanged)]

    listening = asyncio.create_task(listen())
    while not runtime.context.bus.listeners:
        await asyncio.sleep(0.01)
    await runtime.stop(asleep=asleep)
    assert await asyncio.wait_for(listening, PATIENCE) == told


def test_many_clients_at_once_start_one_runtime(tmp_path: Path) -> None:
    home = tmp_path / "home"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "hermes_agent", "up", "--json"],
            stdout=subprocess.PIPE,
            env={**os.environ, "HERMES_HOME": str(home)},
        )
        for _ in range(4)
    ]
    pids = {json.loads(process.communicate()[0])["pid"] for process in started}
    assert len(pids) == 1
    assert hermes(home, "down").returncode == 0


def test_a_stale_socket_and_lock_do_not_keep_a_runtime_from_starting(one: Case) -> None:
    one.start()
    one.kill()
    assert (one.home / "run" / "api.sock").exists()
    one.start()
    assert one.api.get("/v1/status")["state"] == "running"


def test_an_idle_runtime_hardly_uses_the_processor(one: Case) -> None:
    """Counted in ticks of the processor, at most five in each second that it was looked at."""
    one.start()

    def ticks() -> int:
        words = Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(words[11]) + int(words[12])

    before, began = ticks(), time.monotonic()
    time.sleep(1.0)
    assert (ticks() - before) / (time.monotonic() - began) <= 5
