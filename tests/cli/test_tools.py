"""`hermes tools`: what there is, and the versions of tools that the agent wrote."""

import json
from pathlib import Path

import pytest

from hermes_agent.agent.authored_tools.store import AuthoredToolStore
from tests.support.authored_tools import ADD
from tests.support.cli import House

CHANGED = ADD.replace("Sums", "More sums")


@pytest.fixture
def tool_store(house: House) -> AuthoredToolStore:
    """Two versions of a tool."""
    made = AuthoredToolStore(house.home / "tools", lambda: 1_000.0)
    for code in (ADD, CHANGED):
        made.keep("add", code.encode(), "session-1", "changed")
    return made


def test_all_tools_are_listed_with_how_they_stand(
    house: House, tool_store: AuthoredToolStore
) -> None:
    (house.home / "tools/dropped.py").write_text(ADD)
    (house.home / "tools/terminal.py").write_text(ADD)
    (house.home / "tools/elsewhere.py").symlink_to("add.py")
    rows = {(row["name"], row["origin"]): row for row in house.json("tools", "list")}
    assert rows["terminal", "builtin"]["toolset"] == "terminal"
    assert rows["terminal", "builtin"]["capabilities"] == ["process"]
    assert rows["terminal", "written"]["state"] == "hidden by a built-in tool of the same name"
    assert rows["dropped", "written"]["state"] == "changed, not checked yet"
    assert "cannot be read" in rows["elsewhere", "written"]["state"]
    add = rows["add", "written"]
    assert (add["version"], add["versions"], add["state"]) == (2, 2, "ready")
    assert (add["uses"], add["failures"]) == (0, 0)
    told = house.good("tools")
    assert "version 2, ready; 0 uses, 0 failed" in told
    seen = tool_store.look("add")
    assert seen is not None
    tool_store.count("add", seen.digest, "it broke", 1)
    assert "version 1, rolled back, version 2 failed; 1 uses, 1 failed" in house.good("tools")
    tool_store.count("add", tool_store.record("add").versions[0].digest, "it broke too", 1)
    assert "disabled, it failed: it broke too" in house.good("tools", "list")
    house.good("tools", "enable", "add")
    assert "version 1, rolled back, version 2 failed" in house.good("tools", "list")
    (house.home / "tools/add.py").unlink()
    assert "version 1, removed" in house.good("tools", "list")


def test_one_tool_is_shown_with_its_code(house: House, tool_store: AuthoredToolStore) -> None:
    assert CHANGED in house.good("tools", "show", "add")
    assert house.json("tools", "show", "add")["code"] == CHANGED
    told = house.good("tools", "show", "terminal")
    assert "built in, toolset terminal" in told
    assert "Run a bash command" in told


def test_versions_are_compared(house: House, tool_store: AuthoredToolStore) -> None:
    told = house.good("tools", "diff", "add")
    assert '-"""Sums."""\n+"""More sums."""' in told
    back = house.json("tools", "diff", "add", "2", "1")
    assert (back["from"], back["to"]) == ("version 2", "version 1")
    assert '+"""Sums."""' in back["diff"]
    assert "are the same" in house.good("tools", "diff", "add", "1", "1")
    (house.home / "tools/add.py").write_text(CHANGED + "# by hand\n")
    assert "+# by hand" in house.good("tools", "diff", "add")
    assert house.run("tools", "diff", "add", "1").returncode == 2
    assert "there are: 1, 2" in house.run("tools", "diff", "add", "1", "9").stderr


def test_a_version_is_brought_back_and_the_log_tells(
    house: House, tool_store: AuthoredToolStore
) -> None:
    assert "add is back to version 1" in house.good("tools", "rollback", "add")
    assert (house.home / "tools/add.py").read_text() == ADD
    assert house.json("tools", "rollback", "add", "2") == {"name": "add", "version": 2}
    assert "there are: 1, 2" in house.run("tools", "rollback", "add", "3").stderr
    lines = house.json("tools", "log", "add")
    assert [(line["what"], line["version"], line["by"]) for line in lines] == [
        ("kept", 1, "session-1"),
        ("kept", 2, "session-1"),
        ("rolled back", 1, "person"),
        ("rolled back", 2, "person"),
    ]
    assert "rolled back" in house.good("tools", "log", "add")


def test_a_tool_is_disabled_and_enabled(house: House, tool_store: AuthoredToolStore) -> None:
    house.good("tools", "disable", "add")
    assert tool_store.record("add").disabled == "person"
    assert house.json("tools", "enable", "add") == {"name": "add", "enabled": True}
    assert tool_store.record("add").disabled == ""


def test_a_tool_and_a_file_are_checked_for_real(
    house: House, tool_store: AuthoredToolStore, tmp_path: Path
) -> None:
    assert "add passes: version 2" in house.good("tools", "check", "add")
    (house.home / "tools/add.py").write_text(CHANGED + "# by hand\n")
    assert house.json("tools", "check", "add")["version"] == 3
    file = tmp_path / "add.py"
    file.write_text(ADD.replace("== 3", "== 4"))
    done = house.run("tools", "check", str(file), "--json")
    assert done.returncode == 1
    assert "line 9: test_add: AssertionError" in json.loads(done.stdout)["error"]
    assert tool_store.record("add").current == 3


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nothing"), ("log", "nothing"), ("diff", "nothing"), ("rollback", "nothing"),
        ("disable", "nothing"), ("check", "nothing"), ("show", "../../etc/passwd"),
        ("rollback", "a/b"), ("check", "/no/such/file.py"), ("rollback", "add", "x"),
    ],
)  # fmt: skip
def test_a_tool_that_is_not_there_is_named_and_nothing_is_made(
    house: House, words: tuple[str, ...]
) -> None:
    done = house.run("tools", *words)
    assert done.returncode in (1, 2)
    assert "hint:" in done.stderr
    assert "broke" not in done.stderr
    assert not (house.home / "tools").exists()
