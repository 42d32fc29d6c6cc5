"""A program that uses the library while a runtime runs on its home."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_agent import Agent, HermesError, Tool
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import Reply, Request, ToolCall, ToolMessage
from hermes_agent.core.tools import ToolContext
from tests.support.openai_server import OpenAIServer
from tests.support.patience import PATIENCE

PAY = Reply("", (ToolCall.of("c1", "pay", amount=5),), stop="calls")
PAY_AGAIN = Reply("", (ToolCall.of("c2", "pay", amount=6),), stop="calls")

PROGRAM = """
import os, sys
from hermes_agent import Agent, HermesError, Tool

def pay(amount: int, currency: str = "EUR") -> str:
    '''Pay somebody.'''
    print("paying", amount, currency, flush=True)
    if sys.argv[1] == "slow":
        sys.stdin.readline()
    return f"paid by {os.getpid()}"

with Agent("payer", session=sys.argv[2], capabilities=sys.argv[3:] or None) as agent:
    agent.register_tool(Tool("pay", pay, capabilities=["network"]))
    if sys.argv[1] == "decide":
        agent.decide(agent.parked()[0].effect, "it-happened")
    try:
        result = agent.run("pay 5")
        print(result.text, result.session, agent.state.tool_history[-1:])
    except HermesError as error:
        print("stopped:", error.message)
"""

Serve = Callable[..., OpenAIServer]


def hermes(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hermes_agent", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def serve(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a runtime on the home, whose model answers from a script."""
    servers: list[OpenAIServer] = []

    def start(*script: object) -> OpenAIServer:
        servers.append(OpenAIServer(script).__enter__())  # type: ignore[arg-type]
        monkeypatch.setenv("OPENAI_BASE_URL", servers[0].url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-0123456789")
        monkeypatch.setenv("HERMES_MODEL", "openai/test")
        assert hermes("up").returncode == 0
        return servers[0]

    yield start
    hermes("down")
    for server in servers:
        server.assert_prefix_stable()
        server.__exit__(None, None, None)


class Program:
    def __init__(self, folder: Path, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
        )
        self.pid = self._process.pid

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self, said: str = "") -> str:
        return self._process.communicate(said, timeout=PATIENCE)[0].strip()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


def parked() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(hermes("parked", "--json").stdout)
    return rows


def wait_for(client: RuntimeClient, session: str, kind: str) -> None:
    next(event for event in client.events(session, 0) if event["event"]["kind"] == kind)


def killed(program: Program) -> tuple[RuntimeClient, str]:
    """Kill it in its call, and wait until the call is parked; its session."""
    program.kill()
    client = RuntimeClient()
    (session,) = client.get("/v1/sessions")
    wait_for(client, session["id"], "call_parked")
    return client, session["id"]


def told(request: Request) -> str:
    return next(m.text for m in reversed(request.messages) if isinstance(m, ToolMessage))


def test_a_program_works_in_the_runtime_and_its_tool_in_the_program(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(PAY, Reply("it is paid"), Reply("still here"))
    pid = RuntimeClient().get("/v1/status")["pid"]
    program = Program(tmp_path, "fast", "")
    lines = program.end().splitlines()
    assert lines[0] == "paying 5 EUR"
    assert lines[1].startswith("it is paid")
    assert f"paid by {program.pid}" in lines[1]
    assert RuntimeClient().get("/v1/status")["pid"] == pid
    session = lines[1].split()[3]
    kinds = [row["event"]["kind"] for row in RuntimeClient().journal(session)]
    of_call = [kind for kind in kinds if kind.startswith("call_")]
    assert of_call == ["call_judged", "call_intended", "call_finished"]
    assert hermes("ask", "hello").returncode == 0
    others = server.requests[-1].json["tools"]
    assert "pay" not in [tool["function"]["name"] for tool in others]
    refused = hermes("ask", "--session", session, "hello?")
    assert "belongs to a program" in refused.stderr
    assert Program(tmp_path, "fast", session).end().startswith("still here")


def test_the_effect_of_a_killed_program_is_parked_and_later_calls_fail(
    serve: Serve, tmp_path: Path
) -> None:
    after: list[str] = []

    def end(request: Request) -> Reply:
        after.append(told(request))
        return Reply("the program is gone")

    serve(PAY, PAY_AGAIN, end, Reply("welcome back"))
    program = Program(tmp_path, "slow", "")
    assert program.line() == "paying 5 EUR"
    client, session = killed(program)
    (row,) = parked()
    assert row["reason"] == "the program ended while pay ran"
    again = Program(tmp_path, "fast", session).end()
    assert again.startswith("stopped: the outcome of pay")
    assert hermes("parked", "it-happened", row["effect"]).returncode == 0
    wait_for(client, session, "turn_finished")
    assert "the program that runs pay has ended" in after[0]
    assert Program(tmp_path, "fast", session).end().startswith("welcome back")


def test_a_program_that_comes_back_decides_and_goes_on(serve: Serve, tmp_path: Path) -> None:
    serve(PAY, PAY_AGAIN, Reply("both are paid"), Reply("both are paid"))
    program = Program(tmp_path, "slow", "")
    assert program.line() == "paying 5 EUR"
    (row,) = RuntimeClient().get("/v1/sessions")
    assert "another program is using session" in Program(tmp_path, "fast", row["id"]).end()
    _client, session = killed(program)
    lines = Program(tmp_path, "decide", session).end().splitlines()
    assert lines[0] == "paying 6 EUR"
    assert lines[1].startswith("both are paid")


@pytest.mark.parametrize("way", ["capability", "rule"])
def test_a_tool_that_the_policy_refuses_does_not_reach_the_program(
    serve: Serve, home: Path, tmp_path: Path, way: str
) -> None:
    if way == "rule":
        rule = "{id: no-payments, match: {tool: pay}, then: deny, reason: no payments}"
        (home / "policies").mkdir()
        (home / "policies" / "mine.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    seen: list[str] = []

    def end(request: Request) -> Reply:
        seen.append(told(request))
        return Reply("I may not")

    serve(PAY, end)
    said = Program(tmp_path, "fast", "", *(["filesystem"] if way == "capability" else [])).end()
    assert said.startswith("I may not")
    assert ("no payments" if way == "rule" else "network") in seen[0]


def test_a_runtime_that_stops_waits_for_the_call_and_the_program_goes_on_itself(
    serve: Serve, tmp_path: Path
) -> None:
    serve(PAY, Reply("it is paid"), Reply("here I am"))
    program = Program(tmp_path, "slow", "")
    assert program.line() == "paying 5 EUR"
    client = RuntimeClient()
    (session,) = client.get("/v1/sessions")
    client.post("/v1/stop")
    # It may get the answer before the runtime ends.
    assert program.end("go on\n").startswith(("it is paid", "stopped: the "))
    again = Program(tmp_path, "fast", session["id"]).end()
    assert again.startswith(("it is paid", "here I am")), again
    assert not parked()
    events = [row["event"] for row in client.journal(session["id"])]
    (paid,) = [event["text"] for event in events if event["kind"] == "call_finished"]
    assert paid == f"paid by {program.pid}"


def test_a_runtime_that_is_killed_leaves_the_call_to_a_decision(
    serve: Serve, tmp_path: Path
) -> None:
    serve(PAY, Reply("it is paid"), Reply("here I am"))
    program = Program(tmp_path, "slow", "")
    assert program.line() == "paying 5 EUR"
    client = RuntimeClient()
    (session,) = client.get("/v1/sessions")
    os.kill(client.get("/v1/status")["pid"], signal.SIGKILL)
    assert program.end("go on\n").startswith("stopped: the ")
    (row,) = parked()
    assert row["tool"] == "pay"
    decided = Program(tmp_path, "decide", session["id"]).end()
    assert decided.startswith(("it is paid", "here I am")), decided


def test_an_agent_in_this_process_finds_the_runtime_that_comes_and_goes(serve: Serve) -> None:
    serve(Reply("one"), Reply("two"), Reply("three"))
    with Agent("talker") as agent:
        first = agent.run("hi")
        assert hermes("down").returncode == 0
        assert (agent.run("hi").text, agent.state.session) == ("two", first.session)
    assert hermes("up").returncode == 0
    with Agent("talker", session=first.session) as agent:
        assert agent.run("hi").text == "three"


def test_agents_of_one_program_take_turns_with_a_session(serve: Serve) -> None:
    serve(*(Reply("hello") for _ in range(10)))
    with Agent("first") as first, Agent("other") as other:
        session = first.run("hi").session
        other.run("hi")
        with Agent(session=session) as second:
            with pytest.raises(UsageError, match="another agent of this program"):
                second.run("hi")
            first.close()
            assert second.run("hi").session == session
        for _ in range(5):
            with Agent(session=session) as again:
                assert again.run("hi").text == "hello"
    for _ in range(3):
        with Agent(session=session) as again:
            assert again.run("hi").text == "hello"


def test_what_another_process_cannot_have_is_refused(serve: Serve) -> None:
    serve(Reply("hello"))

    def look(context: ToolContext, path: str) -> str:
        return path

    with Agent("looker") as agent:
        agent.register_tool(Tool("look", look))
        with pytest.raises(UsageError, match="uses ToolContext") as caught:
            agent.run("hi")
    assert "hermes down" in caught.value.hint
    tool = {"name": "terminal", "description": "", "parameters": {"type": "object"}}
    body = {"name": "x", "workspace": str(Path.cwd()), "granted": [], "tools": [tool]}
    with pytest.raises(UsageError, match="already exists"):
        RuntimeClient().post("/v1/programs", body)
    asked = json.loads(hermes("ask", "hello", "--json").stdout.splitlines()[-1])
    with Agent(session=asked["session"]) as agent, pytest.raises(HermesError, match="not a prog"):
        agent.run("hi")


async def test_an_interrupt_reaches_the_tool(serve: Serve) -> None:
    serve(PAY, Reply("never"))
    began, cancelled = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def pay(amount: int) -> str:
        here.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        finally:
            here.call_soon_threadsafe(cancelled.set)
        return ""

    with Agent("payer") as agent:
        agent.register_tool(Tool("pay", pay, "Pay"))
        running = asyncio.create_task(agent.arun("pay"))
        await began.wait()
        await asyncio.to_thread(
            RuntimeClient().post, f"/v1/sessions/{agent.state.session}/interrupt"
        )
        await cancelled.wait()
        assert (await running).reason == "interrupted"
