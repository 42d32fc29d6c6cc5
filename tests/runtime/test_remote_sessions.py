"""Sessions whose commands run elsewhere, when the runtime, the way or the settings go away."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.runtime.backup import restore_backup, write_backup
from tests.faults.harness import Case, ForkServer, end_daemons, wait_until
from tests.faults.sites import ssh
from tests.support.sshd import Sshd
from tests.support.terminals import lives

SECRET = "lent-for-one-command-4711"
POLICY = """
version: 1
name: lending
profile: sandbox
rules:
  - id: lend
    match: {program: [touch, printenv, tr, sleep, "["]}
    then: allow
    secrets: [LENT_TOKEN]
    reason: it is lent
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    made = Sshd()
    yield made
    end_daemons(made.home)  # of the session that was deleted while it was away
    made.remove()


@pytest.fixture
def far(tmp_path: Path, fork_server: ForkServer, server: Sshd) -> Iterator[Case]:
    made = Case(tmp_path, fork_server, 1, ssh(server))
    yield made
    made.close()


def command(text: str, **more: object) -> dict[str, Any]:
    return {"tool": "terminal", "with": {"command": text, **more}}


def play(one: Case, *turns: list[dict[str, Any]]) -> None:
    """Each turn makes these calls, one after the other."""
    entries = [
        {"replies": [*({"calls": [call]} for call in calls), {"say": "done"}]} for calls in turns
    ]
    one.script.write_text(json.dumps({"turns": entries}))


def results(one: Case) -> list[dict[str, Any]]:
    return [e["event"] for e in one.journal() if e["event"]["kind"] == "call_finished"]


def spool(server: Sshd, one: Case) -> Path:
    (found,) = (server.home / ".cache" / "hermes").glob(f"{one.session}-*")
    return found


def until_running(one: Case) -> Callable[[], bool]:
    return lambda: bool(one.session) and (one.work / "begun").exists()


def test_a_terminal_that_is_taken_out_of_the_settings_parks_what_ran_there(far: Case) -> None:
    play(far, [command("touch begun; sleep 60")], [command("echo here", at="local")])
    far.start()
    far.send_plainly("m1", "go", terminals=("far", "local"))
    wait_until(until_running(far), "the command to run")
    far.kill()
    config = far.home / "config.yaml"
    said = config.read_text()
    config.write_text("")
    far.start()
    wait_until(lambda: far.api.get("/v1/parked"), "the call to be parked")
    (parked,) = far.api.get("/v1/parked")
    far.api.post(f"/v1/parked/{parked['effect']}", {"decision": "skip"})
    wait_until(lambda: far.state() == "idle", "the turn to end")
    far.send("m2")
    far.finish()
    assert [one["text"] for one in results(far)][1:] == ["here"]
    far.kill()
    config.write_text(said)


def test_a_call_whose_terminal_is_gone_waits_for_it(far: Case) -> None:
    play(far, [command("touch begun; echo once >> lines; until [ -e go ]; do sleep 0.1; done")])
    far.start()
    far.send_plainly("m1", "go", terminals=("far", "local"))
    wait_until(until_running(far), "the command to run")
    far.kill()
    config = far.home / "config.yaml"
    said = config.read_text()
    config.write_text("")
    far.start()
    wait_until(lambda: far.api.get("/v1/parked"), "the call to be parked")
    assert "no terminal called 'far'" in far.api.get("/v1/parked")[0]["reason"]
    config.write_text(said)
    (far.work / "go").touch()
    wait_until(lambda: far.state() == "idle", "the turn to end")
    (result,) = results(far)
    assert result["data"]["code"] == 0
    assert (far.work / "lines").read_text() == "once\n"
    assert far.api.get("/v1/parked") == []


def test_an_interrupt_that_outlives_the_runtime_stops_the_far_command(
    far: Case, server: Sshd
) -> None:
    play(far, [command("echo $$ > pid; touch begun; sleep 600", timeout=600)])
    far.start()
    assert far.send("m1")
    wait_until(until_running(far), "the command to run")
    server.stop()
    try:
        far.api.post(f"/v1/sessions/{far.session}/interrupt")
        far.kill()
    finally:
        server.start()
    sleeper = int((far.work / "pid").read_text())
    assert lives(sleeper)
    far.start()
    wait_until(lambda: far.state() == "idle", "the turn to end")
    (result,) = results(far)
    assert "interrupted" in result["text"]
    (end,) = [e["event"] for e in far.journal() if e["event"]["kind"] == "turn_finished"]
    assert end["reason"] == "interrupted"
    wait_until(lambda: not _sleeps(sleeper), "the command to be stopped")


def _written(path: Path) -> str:
    """What a command has written by now: a file is there before its line is."""
    return path.read_text().strip() if path.exists() else ""


def _sleeps(shell: int) -> bool:
    children = Path(f"/proc/{shell}/task/{shell}/children")
    return children.exists() and bool(children.read_text().split())


def test_a_session_that_is_deleted_while_its_machine_is_away_says_what_may_be_left(
    far: Case, server: Sshd
) -> None:
    play(far, [command("echo hello")])
    far.start()
    assert far.send("m1")
    far.finish()
    server.stop()
    try:
        told = far.api.delete(f"/v1/sessions/{far.session}")
    finally:
        server.start()
    (left,) = told["left"]
    assert "'far' may still have files or processes" in left
    assert "cannot be reached" in left


def test_a_session_that_is_deleted_leaves_nothing_on_its_machine(far: Case, server: Sshd) -> None:
    play(far, [command("sleep 600 & echo $! > pid; sleep 601", background=True)])
    far.start()
    assert far.send("m1")
    far.finish()
    wait_until(lambda: _written(far.work / "pid"), "the command to run")
    sleeper = int(_written(far.work / "pid"))
    folder = spool(server, far)
    assert far.api.delete(f"/v1/sessions/{far.session}")["left"] == []
    assert not folder.exists()
    assert not lives(sleeper)


def test_a_command_that_is_picked_up_after_a_death_leaves_no_secret_behind(
    far: Case, server: Sshd
) -> None:
    (far.home / ".env").write_text(f"LENT_TOKEN={SECRET}\n")
    (far.home / ".env").chmod(0o600)
    (far.home / "policies").mkdir()
    (far.home / "policies" / "lending.yaml").write_text(POLICY)
    told = "printenv LENT_TOKEN | tr 4 5; printenv LENT_TOKEN"
    play(far, [command(f"touch begun; {told}; until [ -e go ]; do sleep 0.05; done")])
    far.start()
    assert far.send("m1")
    wait_until(until_running(far), "the command to run")
    far.kill()
    far.start()
    (far.work / "go").touch()
    far.finish()
    (result,) = results(far)
    assert SECRET.replace("4", "5") in result["text"], result
    far.kill()
    (far.home / ".env").unlink()
    holders = [
        path
        for top in (far.home, spool(server, far))
        for path in top.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert holders == []


@pytest.mark.parametrize("by", ["the model", "a program"])
def test_what_ran_when_a_backup_was_made_is_parked_when_it_is_restored(
    far: Case, server: Sshd, tmp_path: Path, by: str
) -> None:
    text = "touch begun; until [ -e go ]; do sleep 0.05; done; echo ran >> runs"
    program = {"tool": "execute_code", "with": {"code": f"print(terminal(command={text!r}))"}}
    play(far, [command(text) if by == "the model" else program])
    far.start()
    assert far.send("m1")
    wait_until(until_running(far), "the command to run")
    archive = tmp_path / "kept.tar.gz"
    _back_up(far, archive)
    (far.work / "go").touch()
    far.finish()
    far.kill()
    restore_backup(archive, far.home, datetime.now().astimezone())
    far.start()
    wait_until(lambda: far.api.get("/v1/parked"), "the call to be parked")
    assert (far.work / "runs").read_text() == "ran\n"


def test_a_restored_home_does_not_take_later_results_for_its_own(
    far: Case, server: Sshd, tmp_path: Path
) -> None:
    many = "head -c 9000 /dev/zero | tr '\\0' x; "
    play(far, [command("echo hello")], [command(f"{many} echo first")])
    far.start()
    assert far.send("m1")
    far.finish()
    archive = tmp_path / "kept.tar.gz"
    _back_up(far, archive)
    assert far.send("m2")
    far.finish()
    far.kill()
    restore_backup(archive, far.home, datetime.now().astimezone())
    play(far, [command("echo hello")], [command("echo second")])
    far.start()
    far.acknowledged.remove("m2")
    assert far.send("m2")
    far.finish()
    assert [one["text"] for one in results(far)] == ["hello", "second"]


def _back_up(one: Case, archive: Path) -> None:
    """As `hermes backup` does beside a runtime."""

    def copy(target: Path) -> None:
        one.api.post("/v1/backup", to=str(target))

    write_backup(one.home, archive, datetime.now().astimezone(), copy, lambda *_: None)
