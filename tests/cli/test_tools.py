"""`hermes tools`: what there is, and the versions of tools that the agent wrote."""

import json
from pathlib import Path

import pytest

from hermes_agent.agent.authored_tools.store import AuthoredToolStore
from tests.support.authored_tools import ADD
from tests.support.cli import Hermes

CHANGED = ADD.replace("Sums", "More sums")


@pytest.fixture
def tool_store(hermes: Hermes) -> AuthoredToolStore:
    """Two versions of a tool."""
    made = AuthoredToolStore(hermes.home / "tools", lambda: 1_000.0)
    for code in (ADD, CHANGED):
        made.keep("add", code.encode(), "session-1", "changed")
    return made


def test_all_tools_are_listed_with_how_they_stand(
    hermes: Hermes, tool_store: AuthoredToolStore
) -> None:
    (hermes.home / "tools/dropped.py").write_text(ADD)
    (hermes.home / "tools/terminal.py").write_text(ADD)
    (hermes.home / "tools/elsewhere.py").symlink_to("add.py")
    rows = {(row["name"], row["origin"]): row for row in hermes.json("tools", "list")}
    assert rows["terminal", "builtin"]["toolset"] == "terminal"
    assert rows["terminal", "builtin"]["capabilities"] == ["process"]
    assert rows["terminal", "written"]["state"] == "hidden by a built-in tool of the same name"
    assert rows["dropped", "written"]["state"] == "changed, not checked yet"
    assert "cannot be read" in rows["elsewhere", "written"]["state"]
    add = rows["add", "written"]
    assert (add["version"], add["versions"], add["state"]) == (2, 2, "ready")
    assert (add["uses"], add["failures"]) == (0, 0)
    told = hermes.good("tools")
    assert "version 2, ready; 0 uses, 0 failed" in told
    seen = tool_store.look("add")
    assert seen is not None
    tool_store.count("add", seen.digest, "it broke", 1)
    assert "version 1, rolled back, version 2 failed; 1 uses, 1 failed" in hermes.good("tools")
    tool_store.count("add", tool_store.record("add").versions[0].digest, "it broke too", 1)
    assert "disabled, it failed: it broke too" in hermes.good("tools", "list")
    hermes.good("tools", "enable", "add")
    assert "version 1, rolled back, version 2 failed" in hermes.good("tools", "list")
    (hermes.home / "tools/add.py").unlink()
    assert "version 1, removed" in hermes.good("tools", "list")


def test_one_tool_is_shown_with_its_code(hermes: Hermes, tool_store: AuthoredToolStore) -> None:
    assert CHANGED in hermes.good("tools", "show", "add")
    assert hermes.json("tools", "show", "add")["code"] == CHANGED
    told = hermes.good("tools", "show", "terminal")
    assert "built in, toolset terminal" in told
    assert "Run a bash command" in told


def test_versions_are_compared(hermes: Hermes, tool_store: AuthoredToolStore) -> None:
    told = hermes.good("tools", "diff", "add")
    assert '-"""Sums."""\n+"""More sums."""' in told
    back = hermes.json("tools", "diff", "add", "2", "1")
    assert (back["from"], back["to"]) == ("version 2", "version 1")
    assert '+"""Sums."""' in back["diff"]
    assert "are the same" in hermes.good("tools", "diff", "add", "1", "1")
    (hermes.home / "tools/add.py").write_text(CHANGED + "# by hand\n")
    assert "+# by hand" in hermes.good("tools", "diff", "add")
    assert hermes.run("tools", "diff", "add", "1").returncode == 2
    assert "available: 1, 2" in hermes.run("tools", "diff", "add", "1", "9").stderr


def test_a_version_is_brought_back_and_the_log_tells(
    hermes: Hermes, tool_store: AuthoredToolStore
) -> None:
    assert "add is back to version 1" in hermes.good("tools", "rollback", "add")
    assert (hermes.home / "tools/add.py").read_text() == ADD
    assert hermes.json("tools", "rollback", "add", "2") == {"name": "add", "version": 2}
    assert "available: 1, 2" in hermes.run("tools", "rollback", "add", "3").stderr
    lines = hermes.json("tools", "log", "add")
    assert [(line["what"], line["version"], line["by"]) for line in lines] == [
        ("kept", 1, "session-1"),
        ("kept", 2, "session-1"),
        ("rolled back", 1, "person"),
        ("rolled back", 2, "person"),
    ]
    assert "rolled back" in hermes.good("tools", "log", "add")


def test_a_tool_is_disabled_and_enabled(hermes: Hermes, tool_store: AuthoredToolStore) -> None:
    hermes.good("tools", "disable", "add")
    assert tool_store.record("add").disabled == "person"
    assert hermes.json("tools", "enable", "add") == {"name": "add", "enabled": True}
    assert tool_store.record("add").disabled == ""


def test_a_tool_and_a_file_are_checked_for_real(
    hermes: Hermes, tool_store: AuthoredToolStore, tmp_path: Path
) -> None:
    assert "add passes: version 2" in hermes.good("tools", "check", "add")
    (hermes.home / "tools/add.py").write_text(CHANGED + "# by hand\n")
    assert hermes.json("tools", "check", "add")["version"] == 3
    file = tmp_path / "add.py"
    file.write_text(ADD.replace("== 3", "== 4"))
    done = hermes.run("tools", "check", str(file), "--json")
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
    hermes: Hermes, words: tuple[str, ...]
) -> None:
    done = hermes.run("tools", *words)
    assert done.returncode in (1, 2)
    assert "hint:" in done.stderr
    assert "broke" not in done.stderr
    assert not (hermes.home / "tools").exists()
