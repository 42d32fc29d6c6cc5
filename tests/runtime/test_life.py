"""A runtime's life: one per home, picked up after a death, asleep when nothing needs it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from hermes_agent.cli.client import Api
from tests.faults.harness import Case, end_keepers, is_alive, wait_until


def write_script(one: Case, *replies: dict) -> None:
    one.script.write_text(json.dumps({"turns": [{"replies": list(replies)}]}))


def hermes(home: Path, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes_agent", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HERMES_HOME": str(home), **extra},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def test_a_command_that_ran_when_the_runtime_died_is_picked_up_whole(one: Case) -> None:
    command = "echo begun; sleep 2; echo ran >> runs.log; echo done"
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
    call = {"tool": "terminal", "with": {"command": "sleep 1; echo ran >> runs.log"}}
    write_script(one, {"calls": [call]}, {"say": "Done."})
    one.start()
    assert one.send("m1")
    wait_until(lambda: any((one.home / "terminals").rglob("*.s")), "the command to begin")
    one.api.post("/v1/stop")
    wait_until(lambda: not is_alive(one.pid), "the runtime to stop")
    one.start()
    one.finish()
    assert (one.work / "runs.log").read_text() == "ran\n"


def test_stopping_waits_for_an_effect_that_leaves_no_trace(tmp_path: Path) -> None:
    """Nothing is parked by an orderly stop."""
    program = f"""
import os, sys, time
from pathlib import Path
from hermes_agent.core.tools import Tool
from hermes_agent.runtime.serve import serve
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
    api = Api(str(tmp_path / "home"))
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        wait_until(api.is_up, "the runtime to start")
        message = {"text": "go", "workspace": str(tmp_path), "model": f"scripted/{script}"}
        api.post("/v1/messages", {**message, "policy": "sandbox"})
        wait_until((tmp_path / "begun").exists, "the effect to begin")
        api.post("/v1/stop")
        assert process.wait(30) == 0
    assert (tmp_path / "ran").read_text() == "x"


def test_it_goes_to_sleep_when_idle_and_a_client_wakes_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("runtime: {idle_seconds: 0.5}\nmodel: scripted/demo\n")
    up = hermes(home, "up", "--json")
    pid = json.loads(up.stdout)["pid"]
    wait_until(lambda: not is_alive(pid), "the runtime to fall asleep")
    answer = hermes(home, "ask", "--json", "hello")
    assert json.loads(answer.stdout)["reason"] == "done", answer.stderr
    hermes(home, "down")
    end_keepers(home)


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
    """Counted in ticks of the processor, not in seconds of the clock."""
    one.start()

    def ticks() -> int:
        words = Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(words[11]) + int(words[12])

    before = ticks()
    time.sleep(1.0)
    assert ticks() - before <= 5
