"""Turns: what a durable tool call costs, a long session taken up again, many at once."""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.commands import HERMES, environment, model_server
from bench.table import Figure, scaled
from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.turn import TurnWorker
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.core import events as ev
from hermes_agent.core.messages import Prompt, Reply, Request, ToolCall
from hermes_agent.core.records import NewSession, SessionMessage
from hermes_agent.core.settings.root import LoopSettings, Settings
from hermes_agent.core.tools import Tool
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.tools.builtin import load_tools
from hermes_agent.store.store import Store
from hermes_agent.terminals.local.terminal import LocalTerminal

CALLS = scaled(500, 60)
STEPS = scaled(1000, 40)
SESSIONS = scaled(200, 4)


def figures() -> Iterator[Figure]:
    yield from durable_calls()
    yield from long_session()
    yield from many_sessions()


def durable_calls() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        floor = _floor(Path(folder))
        taken = asyncio.run(_calls(Path(folder)))
    middle = statistics.median(taken) * 1000
    yield Figure(
        f"one durable tool call (`echo hi`), median of {CALLS}",
        middle, "ms", floor * 1000, "ms bash pipe round trip + 2 fsyncs", 10, "ms",
    )  # fmt: skip
    last, first = statistics.median(taken[-50:]), statistics.median(taken[5:55])
    yield Figure("the last 50 of them, times the first 50", last / first, "x", 1.0, "", 1.5, "x")


def _floor(folder: Path) -> float:
    """The least it could cost: a line through a shell's pipes and two writes that are on disk."""
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    taken = []
    with (folder / "floor").open("wb", buffering=0) as file:
        for _ in range(CALLS):
            began = time.perf_counter()
            for part in (b"intended", b"done"):
                file.write(part * 50)
                os.fsync(file.fileno())
            shell.stdin.write(b"echo hi\n")
            shell.stdin.flush()
            shell.stdout.readline()
            taken.append(time.perf_counter() - began)
    shell.stdin.close()
    shell.wait()
    shell.stdout.close()
    return statistics.median(taken)


async def _calls(folder: Path) -> list[float]:
    def answer(request: Request) -> Reply:
        n = len(request.messages)
        return Reply("", (ToolCall.of(f"c{n}", "terminal", command="echo hi"),))

    model = ScriptedModel(*[answer] * CALLS, Reply("done"))
    settings = Settings(loop=LoopSettings(max_steps=CALLS + 1))
    work = folder / "work"
    work.mkdir()
    store = await Store.open(folder)
    terminal = LocalTerminal(str(work), folder / "spool", settings.terminal)
    tools = {tool.name: tool for tool in load_tools()}
    prompt = Prompt("bench", tuple(tool.spec for tool in tools.values()))
    session = await store.open_session(NewSession(str(work), "sandbox", model.name), prompt)
    taken: list[float] = []
    asked = 0.0

    def publish(recorded: ev.Recorded) -> None:
        nonlocal asked
        match recorded.event:
            case ev.Replied():
                asked = time.perf_counter()
            case ev.CallFinished():
                taken.append(time.perf_counter() - asked)

    parts = TurnDependencies(
        journal=store, route=lambda _use, _name: model, tools=tools,
        gate=Policies.of_home(folder, folder).gate("sandbox"),
        terminals={"local": terminal}, settings=settings, publish=publish, redact=Redactor({}),
        results=folder / "results", clock=time.time, ticks=time.monotonic,
        reservations=BudgetReservations(time.time),
    )  # fmt: skip
    await store.receive(session.id, SessionMessage("1", "go"))
    turn = await store.start_turn(session.id)
    assert turn is not None
    talk = ConversationState(session.id, prompt).apply_all(await store.events(session.id))
    end = await TurnWorker(parts, turn, talk).run()
    assert end is not None
    assert end.reason == "done"
    assert len(taken) == CALLS
    await terminal.destroy()
    await store.close()
    return taken


def long_session() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        taken, floor = asyncio.run(_resume(Path(folder)))
    yield Figure(
        f"a session of {STEPS:,} steps, killed and resumed",
        taken, "s", floor, "s reading its journal as JSON", 1.0, "s",
    )  # fmt: skip


def _look(what: str) -> str:
    return f"saw {what} " * 20


async def _resume(folder: Path) -> tuple[float, float]:
    """Write a turn of 1,000 steps, leave it unfinished, and take it up with a new runtime."""
    store = await Store.open(folder)
    tool = Tool("look", _look, "Look", repeatable=True)
    prompt = Prompt("bench", (tool.spec,))
    script = folder / "end.json"
    script.write_text(json.dumps({"turns": [{"replies": [{"say": "x"}] * 2000}]}))
    session = await store.open_session(
        NewSession(str(folder), "sandbox", f"scripted/{script}"), prompt
    )
    await store.receive(session.id, SessionMessage("1", "go"))
    turn = await store.start_turn(session.id)
    assert turn is not None
    talk = ConversationState(session.id, prompt).apply_all(await store.events(session.id))
    for step in range(STEPS):
        request = ev.ModelRequested(step + 1, "bench", len(talk.messages), talk.digest)
        call = ToolCall.of(f"c{step}", "look", what=str(step))
        recorded = await store.append(turn, request, ev.Replied(step + 1, "on", (call,)))
        effect = f"{session.id}-{recorded[-1].number}-0"
        recorded = [
            *recorded,
            *await store.append(
                turn,
                ev.CallJudged(effect, "look", "allow", "bench"),
                ev.CallIntended(effect, call.id, "look"),
                ev.CallFinished(effect, call.id, "look", _look(str(step))),
            ),
        ]
        for one in recorded:
            talk.apply(one)
    bodies = [ev.encode(one) for one in await store.events(session.id)]
    await store.close()
    began = time.perf_counter()
    for body in bodies:
        json.loads(body)
    floor = time.perf_counter() - began
    settings = Settings(loop=LoopSettings(max_steps=3 * STEPS))
    runtime = Runtime(folder, {}, settings=settings, tools=[tool])
    with runtime.context.bus.listen() as listener:
        began = time.perf_counter()
        await runtime.start()
        while True:
            heard = await listener.next()
            assert heard is not None
            if isinstance(heard.event, ev.ModelRequested):
                break
        taken = time.perf_counter() - began
        await runtime.sessions.interrupt(session.id)
        while not isinstance(heard.event, ev.TurnFinished):
            heard = await listener.next()
            assert heard is not None
    await runtime.stop()
    return taken, floor


def many_sessions() -> Iterator[Figure]:
    """200 conversations with a tool call each, one after the other and all at once."""
    call = {"tool": "terminal", "with": {"command": "echo hi"}}
    script: dict[str, object] = {
        "turns": [{"when": ".", "replies": [{"calls": [call]}, {"say": "done"}]}]
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        model_server(script, Path(folder), "--first-delay", "0.05") as url,
    ):
        env = environment(Path(folder, "home"), url)
        subprocess.run([HERMES, "up"], env=env, capture_output=True, check=True)
        api = RuntimeClient(env["HERMES_HOME"])
        began = time.perf_counter()
        ends = [_ask(api, folder) for _ in range(SESSIONS)]
        one_by_one = time.perf_counter() - began
        began = time.perf_counter()
        ends += _all_at_once(api, folder)
        at_once = time.perf_counter() - began
        subprocess.run([HERMES, "down"], env=env, capture_output=True, check=True)
    failed = sum(end != ("done", "done") for end in ends)
    yield Figure(f"{SESSIONS} sessions at once, failures", failed, "", 0, "", 0, "")
    yield Figure(
        f"{SESSIONS} sessions at once, times {SESSIONS} one after the other",
        at_once / one_by_one, "x", one_by_one, "s one after the other", 1.0, "x",
    )  # fmt: skip


def _all_at_once(api: RuntimeClient, folder: str) -> list[tuple[str, str]]:
    ends: list[tuple[str, str]] = []
    threads = [
        threading.Thread(target=lambda: ends.append(_ask(api, folder))) for _ in range(SESSIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def _ask(api: RuntimeClient, folder: str) -> tuple[str, str]:
    message: dict[str, object] = {
        "text": "go", "workspace": folder, "model": "openai/bench", "policy": "sandbox",
    }  # fmt: skip
    sent: dict[str, Any] = api.post("/v1/messages", message)
    with contextlib.closing(api.events(sent["session"], sent["after"])) as events:
        for recorded in events:
            if recorded["event"]["kind"] == "turn_finished":
                return recorded["event"]["reason"], recorded["event"]["text"]
    return "lost", ""


if __name__ == "__main__":
    sys.exit("run `python -m bench`")
