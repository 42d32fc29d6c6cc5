"""Programs that the model writes: what comes back, what they may call, what a restart does."""

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes_agent.agent.tools.execute_code import execute_code
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Permit
from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.settings.root import CodeSettings, LoopSettings, Settings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Tool, ToolServices
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.runtime.tools.builtin import load_tools
from hermes_agent.terminals.code_sandbox.runner import CodeSandboxRunner
from tests.faults.harness import Case, ForkServer, wait_until
from tests.support.calls import Caller, caller
from tests.support.turns import Bench, bench

OFFERED = ("terminal", "read_file", "execute_code", "delegate", "make_tool", "use_tool")


class Coder:
    """Runs programs as the agent does, with tools that only say what they were asked."""

    def __init__(self, here: Caller, folder: Path) -> None:
        self.here = here
        self.workshop = CodeSandboxRunner(folder, os.environ)
        self.called: list[tuple[str, dict[str, Any]]] = []

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.called.append((name, dict(arguments)))
        return ToolResult(f"{name} {len(self.called)}", ok=arguments.get("command") != "false")

    async def run(self, code: str, **settings: Any) -> ToolResult:
        context = replace(
            self.here.context("effect-1"),
            services=ToolServices(sandbox=self.workshop, tools=OFFERED),
            call=self.call,
            settings=Settings(code=CodeSettings(**{"memory_mb": 128, **settings})),
        )
        arguments = execute_code.arguments({"code": code})
        permit = Permit("effect-1", "execute_code", arguments)
        result = await execute_code.run(permit, context, arguments)
        assert isinstance(result, ToolResult)
        return result


@pytest.fixture
async def coder(tmp_path: Path) -> AsyncIterator[Coder]:
    async with caller(tmp_path) as here:
        yield Coder(here, tmp_path / "workers")


async def test_only_what_a_program_prints_comes_back(coder: Coder) -> None:
    result = await coder.run("said = terminal(command='ls')\nprint('two', 1 + 1)\nread_file()")
    assert (result.ok, result.text) == (True, "two 2")
    assert {name: result.data[name] for name in ("calls", "limit")} == {"calls": 2, "limit": ""}
    assert result.data["seconds"] > 0
    assert coder.here.heard == ["two 2\n"]
    assert (await coder.run("x = 1")).text == "[no output]"


async def test_a_failure_comes_after_what_was_printed_with_the_lines_of_the_code(
    coder: Coder,
) -> None:
    result = await coder.run("print('before')\nterminal(command='ls')\n\n1 / 0")
    lines = result.text.splitlines()
    assert not result.ok
    assert lines[:3] == [
        "before",
        "Traceback (most recent call last):",
        '  File "<code>", line 4, in <module>',
    ]
    assert "ZeroDivisionError: division by zero" in lines
    assert "hint: the calls it made have taken effect" in lines
    assert result.data["error"].endswith("ZeroDivisionError: division by zero")


async def test_a_long_traceback_keeps_its_end_and_its_limit(coder: Coder) -> None:
    deep = "\n".join(f"def f{n}(): f{n + 1}()" for n in range(60))
    result = await coder.run(f"{deep}\ndef f60(): raise MemoryError\nf0()")
    lines = result.data["error"].splitlines()
    assert (lines[0], lines[-1]) == ("it needed more than 128 MB of memory", "MemoryError")
    assert len(lines) <= 31
    assert result.data["limit"] == "memory"


async def test_limits_are_those_of_the_settings(coder: Coder) -> None:
    result = await coder.run("while True: terminal(command='x')", calls=3)
    assert (result.ok, result.data["limit"], len(coder.called)) == (False, "calls", 3)
    assert result.text.startswith("it made more than 3 calls")
    result = await coder.run("while True: pass", seconds=1.0)
    assert (result.data["limit"], result.data["error"]) == ("time", "it ran longer than 1 s")


async def test_programs_start_neither_programs_nor_children_nor_tools(coder: Coder) -> None:
    result = await coder.run("import hermes\nprint(dir(hermes))\nuse_tool(name='x')\ndelegate()")
    assert "'use_tool'" in result.text
    for name in ("execute_code", "make_tool", "delegate"):
        assert f"'{name}'" not in result.text.splitlines()[0]
    assert "NameError: name 'delegate' is not defined" in result.text
    assert coder.called == [("use_tool", {"name": "x"})]


async def test_without_workers_it_says_that_nothing_can_be_run(coder: Coder) -> None:
    arguments = execute_code.arguments({"code": "print(1)"})
    with pytest.raises(ToolError, match="programs cannot be run here"):
        await execute_code.run(
            Permit("e", "execute_code", arguments), coder.here.context("e"), arguments
        )


# with the gate, the journal and a model


@asynccontextmanager
async def at_work(
    folder: Path, code: str, settings: Settings | None = None, *tools: Tool
) -> AsyncIterator[Bench]:
    call = ToolCall.of("1", "execute_code", code=code)
    model = ScriptedModel(Reply("", (call,), stop="calls"), Reply("done"))
    chosen = [*load_tools(("terminal", "files", "code")), *tools]
    async with bench(folder, model, tools=chosen, settings=settings) as b:
        b.services = ToolServices(sandbox=CodeSandboxRunner(folder / "workers", os.environ))
        yield b


async def result_of(b: Bench) -> ev.CallFinished:
    events = [one for one in await b.events() if isinstance(one, ev.CallFinished)]
    (found,) = [one for one in events if one.tool == "execute_code"]
    return found


MEET = """
def meet(n):
    all_are_here = "[ $(ls here-* | wc -l) = 8 ]"
    return f"touch here-{n}; until {all_are_here}; do sleep 0.02; done; echo {n}"
print(*hermes.parallel([(terminal, {"command": meet(n)}) for n in range(8)]))
"""


async def test_eight_commands_at_once_take_one_step_of_the_model(tmp_path: Path) -> None:
    """Each waits for all the others: one after the other they would never end."""
    settings = Settings(loop=LoopSettings(parallel_calls=8))
    async with at_work(tmp_path, MEET, settings) as b:
        assert (await b.say("look")).reason == "done"
        result = await result_of(b)
        assert (result.ok, result.text) == (True, "0 1 2 3 4 5 6 7")
        assert len(await b.events(ev.CallMade)) == 8
        assert len(await b.events(ev.ModelRequested)) == 2


# killed in the middle


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


@pytest.fixture
def one(tmp_path: Path, fork_server: ForkServer) -> Iterator[Case]:
    made = Case(tmp_path, fork_server, 1)
    yield made
    made.close()


STEPS = """
for n in range(3):
    terminal(command=f"echo before-{n} >> effects.log")
hermes.parallel([(terminal, {"command": f"echo beside-{n} >> effects.log"}) for n in range(4)])
terminal(command="touch waits; until [ -e go ]; do sleep 0.02; done; echo last >> effects.log")
terminal(command="echo after >> effects.log")
print("all is done")
"""


def test_a_program_that_is_killed_with_its_runtime_runs_no_call_twice(one: Case) -> None:
    call = {"tool": "execute_code", "with": {"code": STEPS}}
    replies = [{"calls": [call]}, {"say": "It is done."}]
    one.script.write_text(json.dumps({"turns": [{"replies": replies}]}))
    one.start()
    assert one.send("m1")
    wait_until((one.work / "waits").exists, "the program to wait")
    for _ in range(2):
        before = _begun(one)
        one.kill()
        one.start()
        wait_until(lambda: _begun(one) > before, "the program to run again")  # noqa: B023
    (one.work / "go").touch()
    one.finish()
    steps = [
        "last",
        "after",
        *(f"before-{n}" for n in range(3)),
        *(f"beside-{n}" for n in range(4)),
    ]
    assert sorted(one.lines()) == sorted(steps)
    finished = [e["event"] for e in one.journal() if e["event"]["kind"] == "call_finished"]
    assert [e["text"] for e in finished if e["tool"] == "execute_code"] == ["all is done"]
    assert len(finished) == len({e["effect"] for e in finished}) == 10
    assert list((one.home / "workers").iterdir()) == []


def _begun(one: Case) -> int:
    """When the sandbox was made that is there."""
    newest = 0
    for note in (one.home / "workers").glob("*/groups"):
        with suppress(FileNotFoundError):  # it is being removed
            newest = max(newest, note.stat().st_ctime_ns)
    return newest
