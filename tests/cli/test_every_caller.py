"""Whoever asks for an effect, by whatever way: every call of every tool meets the gate first."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_agent import Agent, Tool
from hermes_agent.runtime.tools.builtin import load_tools
from tests.support.cli import Hermes, wait_until
from tests.support.policies import file_of

NOTHING = file_of("- {id: nothing, match: {tool: '*'}, then: deny, reason: not today}")
INPUTS: dict[str, dict[str, object]] = {
    "terminal": {"command": "touch made"},
    "process": {"action": "list"},
    "read_file": {"path": "seen"},
    "write_file": {"path": "made", "content": "x"},
    "patch": {"path": "seen", "old": "a", "new": "b"},
    "search_files": {"pattern": "a"},
    "ask_user": {"question": "well?"},
    "read_on": {"result": "x"},
    "todo": {"items": []},
    "web_search": {"query": "x"},
    "web_fetch": {"url": "http://localhost:1/"},
    "browser": {"action": "snapshot"},
    "browser_act": {"page": "localhost", "action": "click", "ref": "e1"},
    "execute_code": {"code": "terminal(command='touch made')"},
    "delegate": {"tasks": [{"task": "go"}]},
    "find_tools": {},
    "use_tool": {"name": "terminal", "arguments": {"command": "touch made"}},
    "make_tool": {"name": "own_one", "code": "x = 1"},
    "memory": {"action": "add", "text": "made"},
    "skill": {"name": "disk-full"},
    "write_skill": {"name": "made", "files": {"SKILL.md": "made"}, "why": "made"},
    "recall": {"query": "made"},
    "task": {"action": "add", "when": "30m", "prompt": "made"},
    "send_message": {"text": "made", "target": "all"},
}
JUDGED = {"use_tool": "terminal", "browser_act": ""}
"""What the gate is asked about instead: the tool that is meant; nothing where another tool must
have worked before."""


def ask(hermes: Hermes) -> None:
    hermes.good("ask", "go")


def ask_in_process(hermes: Hermes) -> None:
    hermes.good("ask", "go", "--no-runtime")


def chat(hermes: Hermes) -> None:
    hermes.good("chat", input="go\n")


def api(hermes: Hermes) -> None:
    hermes.send("go", interactive=True)
    wait_until(lambda: hermes.json("sessions", "list")[0]["state"] == "idle", "the end")


def _agent(hermes: Hermes) -> tuple[Agent, Path]:
    """A program with a tool of its own beside the built-in ones."""
    made = hermes.work / "by-own-tool"

    def own(text: str) -> str:
        made.write_text(text)
        return "done"

    agent = Agent(model=hermes.environ["HERMES_MODEL"], home=hermes.home, workspace=hermes.work)
    agent.register_tool(Tool("own", own, "Own."))
    return agent, made


def library(hermes: Hermes) -> None:
    agent, made = _agent(hermes)
    with agent:
        agent.run("go")
    assert not made.exists()


def library_streaming(hermes: Hermes) -> None:
    agent, made = _agent(hermes)

    async def all_of_it() -> None:
        async for _ in agent.stream("go"):
            pass

    with agent:
        asyncio.run(all_of_it())
    assert not made.exists()


CALLERS: tuple[Callable[[Hermes], None], ...] = (
    ask, ask_in_process, chat, api, library, library_streaming,
)  # fmt: skip


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)
def test_nothing_runs_that_the_gate_denies(
    hermes: Hermes, caller: Callable[[Hermes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hermes.work)
    assert {tool.name for tool in load_tools(("all",))} == set(INPUTS)
    calls = {**INPUTS, **({"own": {"text": "x"}} if caller.__name__.startswith("library") else {})}
    replies = [{"calls": [{"tool": tool, "with": given}]} for tool, given in calls.items()]
    hermes.script.write_text(json.dumps({"turns": [{"replies": [*replies, {"say": "I see"}]}]}))
    (hermes.work / "seen").write_text("a")
    (hermes.home / "policies").mkdir(parents=True)
    (hermes.home / "policies" / "mine.yaml").write_text(NOTHING)
    caller(hermes)
    entries = hermes.json("audit", "--limit", "1000")
    judged = [entry for entry in entries if entry["kind"] == "call_judged"]
    meant = [JUDGED.get(tool, tool) for tool in calls]
    assert [entry["tool"] for entry in judged] == [tool for tool in meant if tool]
    assert {(entry["action"], entry["rule"]) for entry in judged} == {("deny", "mine/nothing")}
    assert not [entry for entry in entries if entry["kind"] == "call_intended"]
    assert (hermes.work / "seen").read_text() == "a"
    assert not (hermes.work / "made").exists()
