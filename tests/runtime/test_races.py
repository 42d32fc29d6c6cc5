"""Things that happen at the same moment, or at a bad one."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from hermes_agent.cli.client.follower import TurnFollower, send
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HomeLocked, NotFound
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession, SessionMessage
from hermes_agent.host.home import Home, HomeLock
from hermes_agent.runtime.runtime import Runtime
from tests.faults.harness import Case, wait_until
from tests.support.patience import PATIENCE
from tests.support.runtime_fixture import open_runtime, until


def script(folder: Path, *replies: dict) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps({"turns": [{"when": ".", "replies": list(replies)}]}))
    return f"scripted/{path}"


async def test_one_key_sent_twice_at_once_opens_one_session(tmp_path: Path) -> None:
    command = {"tool": "terminal", "with": {"command": "echo paid >> paid"}}
    model = script(tmp_path, {"calls": [command]}, {"say": "ok"})
    runtime = Runtime(tmp_path / "home", {"HERMES_MODEL": model, "HERMES_POLICY": "sandbox"})
    await runtime.start()
    try:

        async def deliver() -> bool:
            session = await runtime.sessions.open_session(
                workspace=str(tmp_path), key="cli:k1", once=True
            )
            return await runtime.sessions.submit(session, SessionMessage("k1", "pay"))

        new = await asyncio.gather(*(deliver() for _ in range(5)))
        sessions = await runtime.context.store.sessions()
        while (await runtime.context.store.session(sessions[0].id)).state != "idle":
            await asyncio.sleep(0.01)
    finally:
        await runtime.stop()
    assert sorted(new) == [False] * 4 + [True]
    assert len(sessions) == 1
    assert (tmp_path / "paid").read_text() == "paid\n"


async def test_a_question_that_is_listed_can_be_answered_before_its_turn_knows_of_it(
    tmp_path: Path,
) -> None:
    question = {"tool": "ask_user", "with": {"question": "Which colour?"}}
    model = script(tmp_path, {"calls": [question]}, {"say": "ok"})
    listed, go_on = threading.Event(), threading.Event()

    def hold_the_question(when: str, _names: tuple[str, ...]) -> None:
        """The write is done, and the turn not yet told."""
        if when == "after" and not go_on.is_set():
            with closing(apsw.Connection(str(tmp_path / "home" / "state.db"))) as database:
                if database.execute("select 1 from questions").fetchone():
                    listed.set()
                    go_on.wait(PATIENCE)

    environ = {"HERMES_MODEL": model, "HERMES_POLICY": "sandbox"}
    runtime = Runtime(tmp_path / "home", environ, store_hook=hold_the_question)
    await runtime.start()
    try:
        store = runtime.context.store
        session = await runtime.sessions.open_session(workspace=str(tmp_path))
        await runtime.sessions.submit(session, SessionMessage("k1", "go", "test", True))
        assert await asyncio.to_thread(listed.wait, PATIENCE)
        (asked,) = await store.questions()
        answering = asyncio.create_task(runtime.sessions.answer(asked.id, "blue", "test"))
        for _ in range(20):
            await store.questions()
        assert not answering.done()
        go_on.set()
        await answering
        await runtime.sessions.wait_idle(session.id)
        events = [one.event for one in await store.events(session.id)]
    finally:
        go_on.set()
        await runtime.stop()
    assert [one.answer for one in events if isinstance(one, ev.QuestionAnswered)] == ["blue"]


@pytest.mark.parametrize("write", [2, 3, 4, 5, 6])
def test_a_client_whose_acknowledgement_was_lost_still_gets_its_answer(
    one: Case, write: int
) -> None:
    """The runtime dies after a write and before its answer; the client sends again."""
    one.script.write_text(json.dumps({"turns": [{"replies": [{"say": "hello"}]}]}))
    one.pid = one.fork_server.start(one.home, "after", write)
    wait_until(lambda: one.api.is_up() or one.died, "the runtime to start")

    def again() -> None:
        if not one.api.is_up():
            one.pid = one.fork_server.start(one.home)
            wait_until(one.api.is_up, "the runtime to start again")

    one.api.ensure = again  # type: ignore[method-assign]  # by the fork_server, not by the command
    message = {"text": "hi", "workspace": str(one.work), "model": f"scripted/{one.script}"}
    sent = send(one.api, message)
    events = list(TurnFollower(one.api, sent["session"], sent["key"], sent["after"]).events())
    assert events[-1]["kind"] == "turn_finished"
    assert events[-1]["text"] == "hello"
    assert len(one.api.get("/v1/sessions")) == 1


def test_an_interrupt_that_was_acknowledged_is_not_forgotten_by_a_kill(one: Case) -> None:
    waiting = "until [ -e go ]; do sleep 0.02; done"
    stubborn = f"echo first >> effects.log; trap '' INT TERM; {waiting}"
    second = "echo second >> effects.log"
    calls = [{"tool": "terminal", "with": {"command": each}} for each in (stubborn, second)]
    one.script.write_text(json.dumps({"turns": [{"replies": [{"calls": calls}, {"say": "x"}]}]}))
    one.start()
    assert one.send("m1")
    wait_until(lambda: "first" in one.lines(), "the command to begin")
    assert one.api.post(f"/v1/sessions/{one.session}/interrupt") == {"interrupted": True}
    one.kill()
    one.start()
    (one.work / "go").touch()
    wait_until(lambda: one.state() == "idle", "the turn to end")
    assert one.lines() == ["first"]
    ends = [e["event"] for e in one.journal() if e["event"]["kind"] == "turn_finished"]
    assert [end["reason"] for end in ends] == ["interrupted"]


async def test_an_interrupt_right_after_the_message_counts(tmp_path: Path) -> None:
    command = {"tool": "terminal", "with": {"command": "echo ran >> ran"}}
    model = script(tmp_path, {"calls": [command]}, {"say": "ok"})
    runtime = Runtime(tmp_path / "home", {"HERMES_MODEL": model, "HERMES_POLICY": "sandbox"})
    await runtime.start()
    try:
        session = await runtime.sessions.open_session(workspace=str(tmp_path))
        await runtime.sessions.submit(session, SessionMessage("k", "go"))
        assert await runtime.sessions.interrupt(session.id)
        while (await runtime.context.store.session(session.id)).state != "idle":
            await asyncio.sleep(0.01)
        ends = [
            recorded.event.reason
            for recorded in await runtime.context.store.events(session.id)
            if isinstance(recorded.event, ev.TurnFinished)
        ]
    finally:
        await runtime.stop()
    assert ends == ["interrupted"]


async def test_a_session_whose_policy_is_gone_fails_and_says_so(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "home", {"HERMES_MODEL": "scripted/demo"})
    await runtime.start()
    try:
        new = NewSession(str(tmp_path), "of-yesterday", "scripted/demo")
        session = await runtime.context.store.open_session(new, Prompt("You are a test."))
        await runtime.sessions.submit(session, SessionMessage("k", "go"))
        while (await runtime.context.store.session(session.id)).state != "idle":
            await asyncio.sleep(0.01)
        end = (await runtime.context.store.events(session.id))[-1].event
    finally:
        await runtime.stop()
    assert isinstance(end, ev.TurnFinished)
    assert (end.reason, end.error) == ("failed", "no policy called 'of-yesterday'")


async def test_an_answer_to_a_turn_that_is_being_taken_up_is_heard(tmp_path: Path) -> None:
    write = {"tool": "terminal", "with": {"command": "echo done > made"}}
    model = script(tmp_path, {"calls": [write]}, {"say": "ok"})
    async with open_runtime(tmp_path) as h:
        session = await h.open(model, policy="careful")
        await h.send(session, "go", interactive=True)
        await until(h.runtime.context.store.questions)
        (question,) = await h.runtime.context.store.questions()
    async with open_runtime(tmp_path) as h:
        await h.runtime.sessions.answer(question.id, "yes", "ada")
        await h.idle(session)
    assert (tmp_path / "work" / "made").read_text() == "done\n"


async def test_a_message_to_a_session_that_is_being_deleted_is_refused(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "home", {"HERMES_MODEL": "scripted/demo"})
    await runtime.start()
    try:
        session = await runtime.sessions.open_session(workspace=str(tmp_path))
        deleting = asyncio.create_task(runtime.sessions.delete_session(session))
        await asyncio.sleep(0)
        with pytest.raises(NotFound):
            await runtime.sessions.submit(session, SessionMessage("k", "go"))
        await deleting
        assert await runtime.context.store.sessions() == []
    finally:
        await runtime.stop()


def test_the_lock_is_in_the_home_however_long_its_path_and_wherever_tmp_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / ("x" * 120))
    home.make()
    first = HomeLock(home.lock_folder(writable=True), home.path)
    first.take()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "elsewhere"))
    with pytest.raises(HomeLocked):
        HomeLock(home.lock_folder(writable=True), home.path).take()
    first.release()


def test_a_turn_of_another_session_goes_on_when_a_question_without_runtime_ends(
    one: Case,
) -> None:
    """`ask --no-runtime` takes up what is unfinished; its end must not stop those commands."""
    waiting = "echo began; until [ -e go ]; do sleep 0.02; done; echo ended > ended"
    command = {"tool": "terminal", "with": {"command": waiting}}
    one.script.write_text(
        json.dumps({"turns": [{"replies": [{"calls": [command]}, {"say": "x"}]}]})
    )
    one.start()
    assert one.send("m1")
    wait_until(lambda: any((one.home / "terminals").rglob("*.s")), "the command to begin")
    one.kill()
    asked = subprocess.run(
        [sys.executable, "-m", "hermes_agent", "ask", "--no-runtime", "hello"],
        env={
            "HERMES_HOME": str(one.home),
            "HERMES_MODEL": "scripted/demo",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=one.work,
        timeout=PATIENCE,
    )
    assert asked.returncode == 0, asked.stderr
    one.start()
    (one.work / "go").touch()
    one.finish()
    (result,) = [e["event"] for e in one.journal() if e["event"]["kind"] == "call_finished"]
    assert result["ok"]
    assert (one.work / "ended").read_text() == "ended\n"


def test_the_lock_of_a_process_that_was_just_killed_is_waited_for(tmp_path: Path) -> None:
    """Its first thread is gone, its last ones still hold the file."""
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True).stdout.strip()
    held = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.write(held, gone.encode())
    threading.Timer(0.1, os.close, [held]).start()
    lock = HomeLock(tmp_path, tmp_path)
    lock.take()
    assert (tmp_path / "lock").read_text() == str(os.getpid())
    lock.release()


TAKING = """
import fcntl, os, pathlib, sys, threading, time
from hermes_agent.host.home import HomeLock

folder = pathlib.Path(sys.argv[1])
held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(held, fcntl.LOCK_EX)
os.write(held, sys.argv[2].encode())

def end():
    for _ in range(50):
        time.sleep(0.01)
    os.close(held)

threading.Thread(target=end).start()
print("waiting", flush=True)
HomeLock(folder, folder).take()
print("taken")
"""
"""Waits for a lock that is held by one who stands still whenever it does itself."""


def test_the_lock_of_a_killed_process_is_waited_for_though_everything_stood_still(
    tmp_path: Path,
) -> None:
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True).stdout.strip()
    words = [sys.executable, "-c", TAKING, str(tmp_path), gone]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as taking:
        assert taking.stdout is not None
        assert taking.stdout.readline() == "waiting\n"
        taking.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        taking.send_signal(signal.SIGCONT)
        assert taking.stdout.read() == "taken\n"
