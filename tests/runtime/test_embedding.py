"""The library, as a program uses it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent import Agent, HermesError, Tool
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HomeLocked, UsageError
from hermes_agent.core.messages import Reply, Request, ToolCall, ToolMessage
from tests.support.openai_server import OpenAIServer
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.sample_file(5)

# The program in the README and in the feature list, word for word.
PROGRAM = '''\
from hermes_agent import Agent, Tool

def fetch_url(url: str) -> str:
    """Fetch content from a URL."""
    ...

agent = Agent(name="research_agent")
agent.register_tool(Tool(name="fetch_url", function=fetch_url,
                         description="Fetch content from a URL", capabilities=["network"]))
result = agent.run("Fetch the content from https://example.com")
print(agent.state.tool_history[-1])
'''

FETCH = Reply("", (ToolCall.of("c1", "fetch_url", url="https://example.com"),), stop="calls")


@pytest.fixture
def offline(home: Path, monkeypatch: pytest.MonkeyPatch):
    def use(server: OpenAIServer) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-0123456789")
        monkeypatch.setenv("HERMES_MODEL", "openai/test")

    return use


def test_a_capability_that_does_not_exist_is_refused_with_the_one_that_was_meant(
    home: Path,
) -> None:
    with pytest.raises(UsageError, match="no capability 'netwrok'") as caught:
        Tool(name="fetch_url", function=fetch_url, capabilities=["netwrok"])
    assert "did you mean 'network'?" in caught.value.hint
    with pytest.raises(UsageError, match="agent 'a': there is no capability 'procss'"):
        Agent("a", capabilities=["procss"])


def fetch_url(url: str) -> str:
    """Fetch content from a URL."""
    return f"<html>{url}</html>"


def fetcher(**options) -> Agent:
    agent = Agent(name="research_agent", **options)
    agent.register_tool(
        Tool(
            name="fetch_url",
            function=fetch_url,
            description="Fetch content from a URL",
            capabilities=["network"],
        )
    )
    return agent


def test_the_program_of_the_feature_list_works_word_for_word(home: Path, tmp_path: Path) -> None:
    body = '    return "<html>hello</html>"'
    with OpenAIServer([FETCH, Reply("It says hello")]) as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("    ...", body)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={
                **os.environ,
                "HERMES_HOME": str(home),
                "HERMES_MODEL": "openai/test",
                "OPENAI_BASE_URL": server.url,
                "OPENAI_API_KEY": "x",
            },
            timeout=PATIENCE,
        )
    assert (done.returncode, done.stderr) == (0, "")
    entry = eval(done.stdout)
    assert entry["tool"] == "fetch_url"
    assert entry["input"] == {"url": "https://example.com"}
    assert entry["output"] == "<html>hello</html>"
    assert isinstance(entry["duration"], float)


def test_run_gives_the_answer_and_the_conversation_goes_on(offline) -> None:
    with OpenAIServer([FETCH, Reply("It says hello"), Reply("As I said")]) as server:
        offline(server)
        with fetcher() as agent:
            first = agent.run("Fetch it")
            second = agent.run("And?")
            assert str(first) == "It says hello"
            assert (second.text, second.session) == ("As I said", first.session)
        assert [m["role"] for m in server.requests[-1].json["messages"]][:2] == ["system", "user"]
        server.assert_prefix_stable()


async def test_arun_and_stream_stand_beside_it(offline) -> None:
    with OpenAIServer([FETCH, Reply("It says hello"), Reply("once more now")]) as server:
        offline(server)
        with fetcher() as agent:
            result = await agent.arun("Fetch it")
            assert result.text == "It says hello"
            events = [event async for event in agent.stream("Again")]
    said = "".join(event.text for event in events if isinstance(event, ev.TextArrived))
    assert said == "once more now"
    assert isinstance(events[-1], ev.TurnFinished)


def test_a_tool_whose_capability_the_agent_lacks_is_refused_and_logged(offline) -> None:
    seen: list[str] = []

    def last(request: Request) -> Reply:
        seen.extend(m.text for m in request.messages if isinstance(m, ToolMessage))
        return Reply("I may not")

    with OpenAIServer([FETCH, last]) as server:
        offline(server)
        with fetcher(capabilities=["filesystem"]) as agent:
            agent.run("Fetch it")
    assert "network" in seen[0]
    assert "network" in agent.state.tool_history[-1]["output"]


def test_a_failed_turn_raises_with_a_hint(offline) -> None:
    with OpenAIServer([Reply("never")]) as server:
        offline(server)
        server.fail_next("401")
        with Agent() as agent, pytest.raises(HermesError) as caught:
            agent.run("hi")
    assert caught.value.hint


def test_a_missing_model_is_said_before_anything_happens(home: Path) -> None:
    with Agent() as agent, pytest.raises(UsageError, match="no model is configured"):
        agent.run("hi")


def test_tools_are_registered_before_the_first_run(offline) -> None:
    with OpenAIServer([Reply("hello")]) as server:
        offline(server)
        with Agent() as agent:
            agent.run("hi")
            with pytest.raises(UsageError, match="too late"):
                agent.register_tool(Tool(name="fetch_url", function=fetch_url))
    with pytest.raises(UsageError, match="already"):
        Agent().register_tool(Tool(name="terminal", function=fetch_url))


def test_two_agents_of_one_program_share_a_home_and_other_programs_wait(
    offline, home: Path
) -> None:
    with OpenAIServer([Reply("hello")]) as server:
        offline(server)
        with Agent("a") as first, Agent("b") as second:
            assert first.run("hi").text == second.run("hi").text == "hello"
            other = subprocess.run(
                [sys.executable, "-c", "from hermes_agent import Agent; Agent().run('hi')"],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            assert HomeLocked.__name__ in other.stderr
        with Agent("c") as third:
            assert third.run("hi").text == "hello"


def test_a_program_that_died_goes_on_with_its_session(offline, home: Path, tmp_path: Path) -> None:
    """The program is killed in its tool; the next one with the same tools finds the call parked
    and the session where it was."""
    program = """
import os, signal, sys
from hermes_agent import Agent, Tool
def act(line: str) -> str:
    open("ran", "a").write(line)
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "acted"
agent = Agent("worker", session=sys.argv[2], builtin_tools=False)
agent.register_tool(Tool("act", act, "Act", repeatable=True))
print(agent.run(sys.argv[3]).text)
"""
    act = Reply("", (ToolCall.of("c1", "act", line="x"),), stop="calls")
    with OpenAIServer([act, Reply("acted"), Reply("still here")]) as server:
        offline(server)

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-c", program, *words],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=PATIENCE,
            )

        assert run("die", "", "act").returncode == -9
        listed = subprocess.run(
            [sys.executable, "-m", "hermes_agent", "sessions", "list", "--json"],
            capture_output=True,
            text=True,
        )
        subprocess.run([sys.executable, "-m", "hermes_agent", "down"], capture_output=True)
        (session,) = json.loads(listed.stdout)
        again = run("live", session["id"], "are you there?")
        assert again.stdout.strip().endswith("still here") or "acted" in again.stdout, again.stderr
        server.assert_prefix_stable()
    assert (tmp_path / "ran").read_text() == "xx"


PAYING = """
import os, signal, sys
from hermes_agent import Agent, HermesError, Tool
def pay(amount: int) -> str:
    open("paid", "a").write(f"{amount}\\n")
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"
agent = Agent("payer", session=sys.argv[2], builtin_tools=False)
agent.register_tool(Tool("pay", pay, "Pay"))
if sys.argv[1] == "decide":
    agent.decide(agent.parked()[0].effect, "it-happened")
try:
    print(agent.run("pay 5").text)
except HermesError as error:
    print("stopped:", error.message)
"""


def test_an_effect_of_a_program_that_died_is_shown_and_decided_anywhere(
    offline, home: Path, tmp_path: Path
) -> None:
    pay = Reply("", (ToolCall.of("c1", "pay", amount=5),), stop="calls")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", PAYING, *words]
        return subprocess.run(
            program, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE
        )

    def hermes(*words: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "hermes_agent", *words]
        return subprocess.run(
            program, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
        )

    for way in ("program", "command"):
        with OpenAIServer([pay, Reply("it is paid"), Reply("still here")]) as server:
            offline(server)
            assert run("die", "").returncode == -9
            (parked,) = json.loads(hermes("parked", "--json").stdout)
            assert parked["tool"] == "pay"
            asked = hermes("ask", "--session", parked["session"], "hello?")
            assert asked.returncode == 1
            assert "belongs to a program" in asked.stderr
            if way == "command":
                decided = hermes("parked", "it-happened", parked["effect"])
                assert decided.returncode == 0, decided.stderr
                assert json.loads(hermes("parked", "--json").stdout) == []
            hermes("down")
            if way == "program":
                again = run("live", parked["session"])
                assert "stopped: the outcome of pay" in again.stdout, again.stderr
            end = run("decide" if way == "program" else "live", parked["session"])
            assert end.stdout.strip() in ("still here", "it is paid"), end.stderr
            server.assert_prefix_stable()
    assert (tmp_path / "paid").read_text() == "5\n5\n"


def test_a_turn_that_waits_for_its_program_can_be_interrupted(
    offline, home: Path, tmp_path: Path
) -> None:
    pay = Reply("", (ToolCall.of("c1", "pay", amount=5),), stop="calls")
    with OpenAIServer([pay, Reply("it is paid")]) as server:
        offline(server)
        program = [sys.executable, "-c", PAYING, "die", ""]
        subprocess.run(program, capture_output=True, cwd=tmp_path, timeout=PATIENCE)

        def hermes(*words: str) -> str:
            command = [sys.executable, "-m", "hermes_agent", *words, "--json"]
            return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout

        (session,) = json.loads(hermes("sessions", "list"))
        assert json.loads(hermes("interrupt", session["id"])) == {"interrupted": True}
        assert json.loads(hermes("parked")) == []
        hermes("down")
