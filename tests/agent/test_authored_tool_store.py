"""Where written tools lie: whatever happens in the middle of a change, one version is current and
whole, and none that was kept is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.agent.authored_tools.store import AuthoredToolStore, ToolSnapshot
from hermes_agent.core.errors import HermesError, NotFound

CHANGES = {
    "a first version": "tools.keep('tool', b'one', 'me', 'new')",
    "a second version": "tools.keep('tool', b'two', 'me', 'changed')",
    "a person's rollback": "tools.roll_back('tool', None, 'person')",
    "a rollback to a failed version": "tools.roll_back('tool', 3, 'person')",
    "a third failure": "tools.count('tool', digest_of(b'two'), 'it broke', 1)",
    "a failure with nothing to go back to": "tools.count('tool', digest_of(b'one'), 'broke', 1)",
    "a text by hand that is replaced": "tools.keep('tool', b'two', 'me', 'changed')",
}
BEFORE = {
    "a first version": "",
    "a second version": "tools.keep('tool', b'one', 'me', 'new')",
    "a person's rollback": "tools.keep('tool', b'one', '', ''); tools.keep('tool', b'two', '', '')",
    "a rollback to a failed version": (
        "tools.keep('tool', b'one', '', ''); tools.keep('tool', b'two', '', '');"
        "tools.keep('tool', b'three', '', '');"
        "tools.count('tool', digest_of(b'three'), 'it broke', 1)"
    ),
    "a third failure": "tools.keep('tool', b'one', '', ''); tools.keep('tool', b'two', '', '')",
    "a failure with nothing to go back to": "tools.keep('tool', b'one', 'me', 'new')",
    "a text by hand that is replaced": (
        "tools.keep('tool', b'one', '', ''); (folder / 'tool.py').write_bytes(b'by hand')"
    ),
}
PROGRAM = """
import os, shutil, signal, sys
from pathlib import Path
from hermes_agent.agent.authored_tools.store import AuthoredToolStore, digest_of

root, before, change = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
number, ended = 0, False
while not ended:
    folder = root / str(number)
    tools = AuthoredToolStore(folder, lambda: 1.0)
    exec(before)
    steps = 0
    def count(event, _arguments):
        global steps
        if event in ("open", "os.rename", "os.mkdir"):
            if steps == number:
                os.kill(os.getpid(), signal.SIGKILL)
            steps += 1
    child = os.fork()
    if child == 0:
        sys.addaudithook(count)
        exec(change)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    number += 1
"""


def shelf_in(folder: Path) -> AuthoredToolStore:
    return AuthoredToolStore(folder, lambda: 2.0)


def look(tools: AuthoredToolStore) -> ToolSnapshot | None:
    seen = tools.look("tool")
    again = tools.look("tool")
    assert seen == again  # nothing is left to be put right
    return seen


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_killed_at_any_step_is_made_or_not(tmp_path: Path, change: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), BEFORE[change], CHANGES[change]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    folders = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    assert len(folders) > 4
    ends = []
    for folder in folders:
        tools = shelf_in(folder)
        kept = {path.stem: path.read_bytes() for path in folder.glob("history/tool/0*.py")}
        seen = look(tools)
        if seen is None:
            assert change == "a first version"
            ends.append("nothing")
        elif seen.version:
            assert seen.code == kept[f"{seen.version:04}"] == tools.code("tool", seen.version)
            failed = seen.record.version is not None and seen.record.version.failed
            assert not failed or seen.record.disabled == "failed"
            ends.append(f"{seen.version} {seen.record.disabled}".strip())
        else:
            assert seen.code == b"by hand"
            ends.append("by hand")
        tools.keep("tool", b"next", "me", "changed")  # and life goes on
        after = look(tools)
        assert after is not None
        assert after.code == b"next"
        assert not after.record.disabled
        assert {tools.code("tool", one.number) for one in after.record.versions} >= {*kept.values()}
        assert (
            change != "a text by hand that is replaced"
            or (folder / "history/tool/unchecked.py").read_bytes() == b"by hand"
        )
    first, last = {
        "a first version": ("nothing", "1"),
        "a second version": ("1", "2"),
        "a person's rollback": ("2", "1"),
        "a rollback to a failed version": ("2", "3"),
        "a third failure": ("2", "1"),
        "a failure with nothing to go back to": ("1", "1 failed"),
        "a text by hand that is replaced": ("by hand", "2"),
    }[change]
    turn = ends.index(last)
    assert ends == [first] * turn + [last] * (len(ends) - turn)
    assert turn > 0


def test_versions_are_found_again_when_the_state_is_lost(tmp_path: Path) -> None:
    tools = shelf_in(tmp_path)
    for text in (b"one", b"two"):
        tools.keep("tool", text, "me", "changed")
    tools.roll_back("tool", None, "person")
    (tmp_path / "state.json").unlink()
    seen = look(tools)
    assert seen is not None
    assert (seen.version, len(seen.record.versions)) == (1, 2)


def test_a_damaged_state_is_said_and_not_replaced(tmp_path: Path) -> None:
    tools = shelf_in(tmp_path)
    tools.keep("tool", b"one", "me", "new")
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(HermesError, match="is damaged") as caught:
        tools.look("tool")
    assert "restored from" in caught.value.hint
    assert (tmp_path / "state.json").read_text() == "{"


def test_a_torn_line_of_the_log_is_left_out(tmp_path: Path) -> None:
    tools = shelf_in(tmp_path)
    tools.keep("tool", b"one", "me", "new")
    log = tmp_path / "history/tool/log.jsonl"
    log.write_bytes(log.read_bytes() + b'{"time": 1.0, "wh')
    tools.keep("tool", b"two", "me", "changed")
    assert [(one.what, one.version) for one in tools.log("tool")] == [("kept", 1), ("kept", 2)]


def test_a_version_copied_back_by_hand_is_that_version(tmp_path: Path) -> None:
    tools = shelf_in(tmp_path)
    for text in (b"one", b"two"):
        tools.keep("tool", text, "me", "changed")
    (tmp_path / "tool.py").write_bytes(b"one")
    seen = look(tools)
    assert seen is not None
    assert (seen.version, len(seen.record.versions)) == (1, 2)
    assert tools.log("tool")[-1].what == "found"


def test_a_removed_file_comes_back_with_a_rollback(tmp_path: Path) -> None:
    tools = shelf_in(tmp_path)
    for text in (b"one", b"two"):
        tools.keep("tool", text, "me", "changed")
    (tmp_path / "tool.py").unlink()
    assert look(tools) is None
    assert tools.roll_back("tool", None, "person").number == 2
    assert tools.roll_back("tool", None, "person").number == 1
    with pytest.raises(NotFound, match="no good version before"):
        tools.roll_back("tool", None, "person")
    with pytest.raises(NotFound, match="no version 7"):
        tools.roll_back("tool", 7, "person")


def test_a_failure_of_a_version_that_was_replaced_meanwhile_is_not_held_against_the_new_one(
    tmp_path: Path,
) -> None:
    tools = shelf_in(tmp_path)
    tools.keep("tool", b"one", "me", "new")
    old = look(tools)
    assert old is not None
    tools.keep("tool", b"two", "me", "changed")
    assert tools.count("tool", old.digest, "it broke", 1) == ""
    record = tools.record("tool")
    assert (record.current, record.failures, record.row) == (2, 1, 0)
    assert json.loads((tmp_path / "state.json").read_text())["tool"]["current"] == 2
