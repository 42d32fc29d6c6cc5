import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.runtime.tools import builtin
from hermes_agent.runtime.tools.builtin import TABLE, TOOLSETS, SessionTools, load_tools
from tests.support.subagents import answers, call, say

SPECS = (
    "import msgspec; from hermes_agent.runtime.tools.builtin import load_tools; "
    "print(msgspec.json.encode([tool.spec for tool in load_tools()]).decode())"
)


def test_every_name_in_the_table_is_the_name_of_its_tool() -> None:
    assert [tool.name for tool in load_tools()] == list(TABLE)
    assert all(tool.origin == "builtin" and tool.description for tool in load_tools())


def test_tools_come_in_the_order_of_the_table_however_they_are_asked_for() -> None:
    tools = load_tools(["ask_user", "patch", "read_file"])
    assert [tool.name for tool in tools] == ["read_file", "patch", "ask_user"]


def test_an_unknown_tool_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        load_tools(["read_flie"])
    assert "read_flie" in caught.value.message
    assert "hermes tools list" in caught.value.hint


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_a_fresh_process_shows_the_model_the_same_bytes(seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPECS],
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    )
    assert done.stdout.strip() == msgspec.json.encode([tool.spec for tool in load_tools()])


def test_every_tool_can_be_repeated_or_can_tell_what_became_of_it() -> None:
    """But for a click in a browser that is gone, an image that somebody has paid for, and what only
    stands for another tool."""
    traceless = {tool.name for tool in load_tools() if tool.unrecoverable}
    assert traceless == {"browser_act", "make_image", "use_tool"}


def test_the_table_is_read_without_importing_a_tool() -> None:
    program = (
        "import sys; from hermes_agent.runtime.tools.builtin import TABLE; "
        "print(sorted({row.module for row in TABLE.values()} & set(sys.modules)), "
        "'msgspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[] False\n"


# data


def test_what_the_model_is_shown_is_what_the_code_says() -> None:
    now = json.loads(json.dumps(builtin.described()))
    assert json.loads(builtin.DATA.read_bytes()) == now, "run `make docs`"


def test_the_data_gives_the_very_specs_that_the_tools_have() -> None:
    shown = {spec.name: spec for spec in builtin.specs(TABLE)}
    assert list(shown) == [one.name for one in builtin.facts() if not one.missing]
    for tool in load_tools(list(shown)):
        assert msgspec.json.encode(shown[tool.name]) == msgspec.json.encode(tool.spec)


# what is imported

HEAVY = (
    "mcp", "trafilatura", "pypdf", "docx", "openpyxl", "pptx", "websockets", "fastjsonschema",
    "jsonschema", "lxml",
)  # fmt: skip

SHOWN = f"""
import json, sys
from hermes_agent.runtime.tools import builtin
from hermes_agent.agent.prompt import PromptContext, build_prompt
prompt = build_prompt(PromptContext("/w", "linux", "today"), builtin.specs(builtin.chosen(())))
assert len(prompt.tools) > 10
loaded = {{row.module for row in builtin.TABLE.values()}} | set({HEAVY!r})
print(json.dumps(sorted(loaded & set(sys.modules))))
"""

TURN = f"""
import asyncio, json, sys
from pathlib import Path
from hermes_agent.core.records import SessionMessage
from hermes_agent.runtime.tools import builtin
from hermes_agent.runtime.runtime import Runtime

async def main(home, model):
    runtime = Runtime(Path(home), {{}})
    await runtime.start()
    session = await runtime.sessions.open_session(workspace=home, model=model, policy="sandbox")
    await runtime.sessions.submit(session, SessionMessage("m", "go"))
    while not (await runtime.context.store.session(session.id)).messages > 3:
        await asyncio.sleep(0.005)
    await runtime.stop()

asyncio.run(main(*sys.argv[1:]))
loaded = {{row.module for row in builtin.TABLE.values()}} | set({HEAVY!r})
print(json.dumps(sorted(loaded & set(sys.modules))))
"""


def run(program: str, *words: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_prompt_with_all_tools_imports_none_of_them() -> None:
    assert run(SHOWN) == []


def test_a_turn_imports_the_tools_that_it_calls_and_no_others(tmp_path: Path) -> None:
    model = answers(tmp_path, go=[{"calls": [call("todo", items=[{"text": "x"}])]}, say("done")])
    home = tmp_path / "home"
    home.mkdir()
    # The loop itself keeps large results.
    wanted = ["hermes_agent.agent.tools.result_overflow", "hermes_agent.tools.todo"]
    assert run(TURN, str(home), model) == wanted


# toolsets


def test_every_tool_is_in_one_toolset_and_in_all_but_that_of_incidents() -> None:
    for name, row in TABLE.items():
        assert name in TOOLSETS[row.toolset]
        assert (name in TOOLSETS["all"]) is (name != "incident" and row.in_prompt)
    assert all(set(names) <= set(TABLE) for names in TOOLSETS.values())


def test_toolsets_and_tools_are_asked_for_together() -> None:
    assert builtin.chosen(["files", "todo", "read_file"]) == (
        "read_file", "write_file", "patch", "search_files", "todo",
    )  # fmt: skip
    assert builtin.chosen([]) == builtin.chosen(["all"]) == TOOLSETS["all"]


def test_those_that_only_look_change_nothing() -> None:
    """But for `todo`, whose list is the model's own."""
    looking = {tool.name: tool for tool in load_tools(TOOLSETS["look"])}
    changing = [
        name
        for name, tool in looking.items()
        if set(tool.paths.values()) & {"write", "delete"} or tool.command
    ]
    assert changing == []


# what is not here

LACKING = """
import json, sys
import hermes_agent.core.messages
from hermes_agent.runtime.tools import builtin
sys.path = [folder for folder in sys.path if "site-packages" not in folder]
lacking = {one.name: one.missing for one in builtin.facts() if one.missing}
shown = [spec.name for spec in builtin.specs(builtin.TABLE)]
print(json.dumps([sorted(lacking), lacking["web_fetch"], lacking["browser"], shown]))
"""


def test_tools_whose_packages_or_programs_are_missing_are_not_offered(tmp_path: Path) -> None:
    lacking, fetch, browser, shown = run(LACKING, PATH=str(tmp_path))
    sandboxed = ["execute_code", "make_tool"]
    others = ["mysql", "postgresql", "read_feed", "web_fetch"]
    assert lacking == ["browser", "browser_act", "calendar", *sandboxed, *others]
    assert fetch == "the package trafilatura: `hermes add web`"
    assert browser.startswith("one of these programs: chromium")
    assert shown == [name for name in TABLE if name not in lacking]


NAMED = """
import json, sys
from hermes_agent.core.settings.root import BrowserSettings, Settings
from hermes_agent.runtime.tools import builtin
said = []
for given in ({}, {"program": "mine"}, {"program": "not-here"}, {"address": "ws://far:1/"}):
    settings = Settings(browser=BrowserSettings(**given))
    offered = [spec.name for spec in builtin.specs(builtin.TABLE, settings)]
    said.append(["browser" in offered, builtin.missing("browser_act", settings)])
print(json.dumps(said))
"""


def test_a_browser_that_the_settings_name_is_one(tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    plain, named, wrong, elsewhere = run(NAMED, PATH=str(tmp_path))
    assert plain[0] is False
    assert named == elsewhere == [True, ""]
    assert wrong == [False, "the program 'not-here', which the setting browser.program names"]


# the tools of a session


def test_a_session_has_the_tools_of_its_prompt_alone() -> None:
    own = {name: builtin.load("todo") for name in ("todo", "other")}
    tools = SessionTools(["read_file", "todo"], own)
    assert list(tools) == ["read_file", "todo"]
    assert tools["todo"] is own["todo"]
    assert tools["read_file"].name == "read_file"
    for name in ("other", "terminal", "nothing"):
        assert name not in tools
        assert tools.get(name) is None
