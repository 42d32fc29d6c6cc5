import subprocess
import sys

import msgspec
import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.runtime.toolbox import TABLE, load_tools

SPECS = (
    "import msgspec; from hermes_agent.runtime.toolbox import load_tools; "
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
    """But for a click in a browser that is gone, and what only stands for another tool."""
    traceless = {tool.name for tool in load_tools() if tool.traceless}
    assert traceless == {"browser_act", "use_tool"}


def test_the_table_is_read_without_importing_a_tool() -> None:
    program = (
        "import sys; from hermes_agent.runtime.toolbox import TABLE; "
        "print(sorted({row.module for row in TABLE.values()} & set(sys.modules)), "
        "'msgspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[] False\n"
