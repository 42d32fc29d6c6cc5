"""Tools that the agent writes itself: made, checked and used in real sandboxes."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_agent.agent.authored_tools.service import make_tool
from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.tool_results import ToolResult, failure
from hermes_agent.core.tools import CodeSandbox
from tests.support.authored_tools import ADD, Bench, tool_code
from tests.support.calls import caller
from tests.support.patience import PATIENCE

LOUD = ADD.replace("return a + b", 'print("adding")\n    return a + b')


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with caller(tmp_path) as session:
        yield Bench(tmp_path, session.terminal)


def nobody() -> CodeSandbox:
    raise AssertionError("nothing is to run")


async def refused(bench: Bench, name: str, code: str) -> str:
    with pytest.raises(ToolError) as caught:
        await bench.make(name, code)
    assert caught.value.retry == "changed"
    return str(caught.value)


# made and used


async def test_a_tool_is_made_found_and_used(bench: Bench) -> None:
    made = await bench.make("add", ADD)
    assert made.data["version"] == 1
    assert (bench.folder / "add.py").read_text() == ADD
    assert (bench.folder / "history/add/0001.py").read_text() == ADD
    (line,) = bench.written.tool_store.log("add")
    assert (line.what, line.version, line.by, line.why) == ("kept", 1, "session-1", "new")
    tool = await bench.written.find("add")
    assert tool is not None
    assert tool.origin == "written"
    assert tool.spec.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert "left out" in tool.spec.description
    assert not tool.repeatable
    assert (await bench.use("add", a=2)).text == "3"
    assert bench.written.tool_store.record("add").uses == 1


async def test_what_a_tool_prints_is_shown_beside_what_it_returns(bench: Bench) -> None:
    bench.written.tool_store.keep("add", LOUD.encode(), "session-1", "new")
    result = await bench.use("add", a=2, b=5)
    assert result.text == "adding\n[returned]\n7"
    assert "".join(bench.heard) == "adding\n"


async def test_arguments_that_do_not_fit_are_told_and_are_no_failure_of_the_tool(
    bench: Bench,
) -> None:
    bench.written.tool_store.keep("add", ADD.encode(), "session-1", "new")
    assert "Expected `int`" in await bench.failure("add", a="two")
    assert "unknown field `c`" in await bench.failure("add", a=2, c=1)
    assert bench.written.tool_store.record("add").uses == 0


async def test_a_tool_calls_other_tools(bench: Bench) -> None:
    async def read_file(path: str) -> ToolResult:
        return ToolResult(f"text of {path}", {"path": path})

    bench.tools["read_file"] = read_file
    body = "import hermes\nreturn hermes.read_file(path=text).upper()"
    await bench.make("shout", tool_code("shout", body))
    result = await bench.use("shout", text="a.txt")
    assert result.text == "TEXT OF A.TXT"
    assert result.data["calls"] == 1


async def test_tools_that_call_one_another_in_a_circle_are_stopped(bench: Bench) -> None:
    for one, other in (("ping", "pong"), ("pong", "ping")):
        body = f'return str(use_tool(name="{other}", arguments={{}}))'
        bench.written.tool_store.keep(one, tool_code(one, body).encode(), "session-1", "new")
    assert "ping calls pong calls ping: a cycle" in await bench.failure("ping")


async def test_tools_are_named_in_the_prompt_and_found_by_words(bench: Bench) -> None:
    assert bench.written.about() == ""
    assert await bench.written.search("") == []
    for name in ("shout", "whisper"):
        code = tool_code(name, "return text", head=f"# {name}").replace("Do it", f"To {name}")
        bench.written.tool_store.keep(name, code.encode(), "session-1", "new")
    assert bench.written.about() == "Tools you wrote: shout, whisper"
    assert [one.name for one in await bench.written.search("")] == ["shout", "whisper"]
    (found,) = await bench.written.search("to Whisper")
    assert found.about == "To whisper."
    bench.written.tool_store.switch("shout", False, "person")
    assert bench.written.about() == "Tools you wrote: whisper"


async def test_a_damaged_state_keeps_nobody_from_a_session(bench: Bench) -> None:
    bench.written.tool_store.keep("add", ADD.encode(), "session-1", "new")
    (bench.folder / "state.json").write_text("{")
    assert bench.written.about() == ""
    with pytest.raises(HermesError, match="is damaged"):
        await bench.written.find("add")


# refused


BAD_NAMES = (
    "", "Add", "../add", "add/b", "a" * 65, "añadir", "1st", "_add", "class", "print", "hermes",
    "history", "test_add", "terminal", "add\n", "add.py", "state", "add\0",
)  # fmt: skip


async def test_a_name_that_leads_elsewhere_or_is_taken_is_refused(bench: Bench) -> None:
    bench.written = bench.opened(nobody)
    for name in BAD_NAMES:
        assert "cannot be the name of a tool" in await refused(bench, name, ADD), name
        assert await bench.written.find(name) is None, name
    assert not bench.folder.exists()


BAD_TEXTS = (
    ("return a + b", "return a +", "line 6: syntax: invalid syntax"),
    ("return a + b", "return a + b\0", "line 6: syntax: it contains a null byte"),
    ("return a + b", "return " + "-" * 30_000 + "1", "nested too deep"),
    ('"""Sums."""', "", "line 1: the file must begin with a docstring"),
    ("def add(", "def sub(", "line 2: sub is public beside add"),
    ("def add(", "def _add(", "there is no function called add"),
    ("def add(", "async def add(", "line 2: add is async"),
    ("def add(", "@cached\ndef add(", "has a decorator"),
    ('"""Add two numbers.', 'x = """', "line 2: add has no docstring"),
    ("-> int", "", "line 2: add does not say what it returns"),
    ("a: int", "a", "line 2: a has no type"),
    ("a: int", r"a: 'int\0'", r"line 2: 'int\x00' is not a type"),
    ("a: int", "a: set[int]", "line 2: set[…] cannot be written as JSON"),
    ("a: int", "a: Number", "line 2: 'Number' cannot be written as JSON"),
    ("a: int", "a: dict[int, str]", "the keys of a dict that JSON carries are str"),
    ("a: int", "a: list[int] | list[str]", "the types cannot be written as JSON"),
    ("a: int", "_a: int", "line 2: _a begins with _"),
    ("b: int = 1", "*b: int", "arguments are passed by name"),
    ("b: int = 1", "b: int = ''", "does not fit its type"),
    ("b: int = 1", "b: int = len('x')", "is not a plain value"),
    ("test_add()", "test_add(x)", "must be a plain function without arguments"),
    ("assert add(1, 2) == 3", "pass", "there is no test"),
    ("return a + b", "from . import c", "line 6: a tool is a single file"),
    ("return a + b", "return '" + "x" * 64_000 + "'", "64000 at most"),
    ("return a + b", "return '\ud800'", "line 6: it is not UTF-8"),
    (
        "return a + b",
        'key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"',
        "line 6: it contains a secret",
    ),
)


async def test_what_is_wrong_with_the_text_is_told_with_its_line_and_nothing_runs(
    bench: Bench,
) -> None:
    bench.written = bench.opened(nobody)
    for old, new, said in BAD_TEXTS:
        assert old in ADD
        assert said in await refused(bench, "add", ADD.replace(old, new, 1)), new[:80]
    assert not (bench.folder / "add.py").exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("== 3", "== 4", "line 9: test_add: AssertionError\n    assert add(1, 2) == 4"),
        ("return a + b", "import nothing.here", "line 6: import: no module called 'nothing.here'"),
        ('"""Sums."""', '"""Sums."""; import nothing', "line 1, in <module>"),
        ("a: int", "a: 'Literal[1]'", "line 2: types: NameError: name 'Literal'"),
        ("assert add", "raise SystemExit; assert add", "line 9: test_add: SystemExit"),
        ("assert add", "import os; os._exit(0); assert add", "died without a message"),
        ("assert add", "print('x' * 2_000_000); assert add", "it hit a limit: output"),
    ],
)
async def test_what_only_a_run_can_tell_is_found_in_the_sandbox(
    bench: Bench, old: str, new: str, said: str
) -> None:
    assert said in await refused(bench, "add", ADD.replace(old, new, 1))
    assert not (bench.folder / "add.py").exists()


async def test_an_import_that_may_fail_need_not_be_there(bench: Bench) -> None:
    head = "try:\n    import nothing\nexcept ImportError:\n    nothing = None"
    made = await bench.make("maybe", tool_code("maybe", "return str(nothing)", head=head))
    assert made.ok
    assert (await bench.use("maybe")).text == "None"


async def test_tests_that_pass_only_at_first_are_said_to_be_so(bench: Bench) -> None:
    calls: list[str] = []

    async def terminal(command: str) -> ToolResult:
        calls.append(command)
        return ToolResult(str(len(calls)))

    bench.tools["terminal"] = terminal
    code = tool_code("once", "return text", 'assert terminal(command="x") == "1"')
    assert "passed at first and failed when they ran again" in await refused(bench, "once", code)


async def test_an_argument_called_like_a_secret_is_none(bench: Bench) -> None:
    code = tool_code("login", "return text").replace("text", "token")
    assert (await bench.make("login", code)).ok


# hostile

HOSTILE = {
    "hangs": ("while True: pass", "it ran longer than 1 s"),
    "forks": ("import os\nwhile True: os.fork()", "processes"),
    "fills memory": ("held = []\nwhile True: held.append(bytearray(1 << 20))", "memory"),
    "prints a gigabyte": ("import os\nfor _ in range(1024): os.write(1, b'x' * (1 << 20))", ""),
    "reads secrets": ("return open(text).read()", "No such file"),
    "opens the network": (
        "import socket\nreturn str(socket.create_connection(('127.0.0.1', int(text)), 5))",
        "Error",
    ),
    "leaves without a word": ("import os\nos._exit(0)", "died"),
    "returns what JSON cannot carry": ("return {1, 2}", "cannot be sent as JSON"),
    "returns something else than it says": ("return 1", "Expected `str`, got `int`"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", HOSTILE)
async def test_a_tool_that_goes_wrong_is_contained_told_and_rolled_back_after_three(
    bench: Bench, tmp_path: Path, how: str
) -> None:
    body, said = HOSTILE[how]
    tool_store = bench.written.tool_store
    tool_store.keep("probe", tool_code("probe", "return 'good'").encode(), "session-1", "new")
    tool_store.keep(
        "probe", tool_code("probe", body + "\nreturn ''").encode(), "session-1", "changed"
    )
    bench.limit(seconds=1 if how == "hangs" else PATIENCE, memory_mb=64, processes=16)
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    text = str(port) if "network" in how else str(secret)
    told = [await bench.failure("probe", text=text) for _ in range(3)]
    server.close()
    assert all("probe (version 2) failed" in one and said in one for one in told)
    assert not any("the secret" in one for one in told)
    assert all(len(one) < 10_000 for one in told)
    assert "version 2 is marked failed and version 1 is back" in told[2]
    bench.limit(seconds=PATIENCE)
    assert (await bench.use("probe")).text == "good"
    record = tool_store.record("probe")
    assert (record.current, record.uses, record.failures, record.row) == (1, 4, 3, 0)
    assert [one.what for one in tool_store.log("probe")][2:] == ["failed", "rolled back"]
    assert not list((tmp_path / "workers").iterdir())


async def test_a_tool_without_a_version_before_is_disabled_and_a_better_one_lifts_that(
    bench: Bench,
) -> None:
    broken = tool_code("probe", "raise ValueError(text)")
    await bench.make("probe", broken)
    for _ in range(2):
        await bench.failure("probe", text="bad")
    assert "marked failed and disabled" in await bench.failure("probe", text="bad")
    with pytest.raises(ToolError, match="probe is disabled because it failed"):
        await bench.written.find("probe")
    assert bench.written.about() == ""
    assert "this is version 1 of probe, which was rolled back" in await refused(
        bench, "probe", broken
    )
    await bench.make("probe", tool_code("probe", "return text"))
    assert (await bench.use("probe", text="well")).text == "well"


async def test_failures_count_only_in_a_row(bench: Bench) -> None:
    code = tool_code("probe", "return str(int(text))").encode()
    bench.written.tool_store.keep("probe", code, "session-1", "new")
    for text in ("x", "x", "1", "x", "x"):
        if text == "1":
            assert (await bench.use("probe", text=text)).text == "1"
        else:
            assert "ValueError" in await bench.failure("probe", text=text)
    assert not bench.written.tool_store.record("probe").disabled


async def test_a_call_that_the_gate_refuses_is_no_failure_of_the_tool(bench: Bench) -> None:
    async def terminal(command: str) -> ToolResult:
        return failure(f"refused by policy: {command}", "ask the user", "never")

    bench.tools["terminal"] = terminal
    code = tool_code("probe", "import hermes\nreturn hermes.terminal(command=text)").encode()
    bench.written.tool_store.keep("probe", code, "session-1", "new")
    for _ in range(4):
        assert "refused by policy: ls" in await bench.failure("probe", text="ls")
    record = bench.written.tool_store.record("probe")
    assert (record.uses, record.failures, record.disabled) == (4, 0, "")


async def test_more_calls_than_may_be_are_a_failure(bench: Bench) -> None:
    async def terminal(command: str) -> ToolResult:
        return ToolResult(command)

    bench.tools["terminal"] = terminal
    bench.limit(calls=3)
    body = "while True: terminal(command=text)"
    bench.written.tool_store.keep("probe", tool_code("probe", body).encode(), "session-1", "new")
    assert "it made more than 3 calls" in await bench.failure("probe")
    assert bench.written.tool_store.record("probe").failures == 1


# versions


async def test_a_new_version_replaces_the_old_one_and_both_are_kept(bench: Bench) -> None:
    await bench.make("add", ADD)
    assert (await bench.make("add", LOUD)).data["version"] == 2
    assert (await bench.make("add", LOUD)).text == "add already has this code (version 2)"
    assert (await bench.make("add", ADD)).data["version"] == 1
    tool_store = bench.written.tool_store
    assert tool_store.code("add", 1).decode() == (bench.folder / "add.py").read_text() == ADD
    assert tool_store.code("add", 2).decode() == LOUD
    assert len(tool_store.record("add").versions) == 2


async def test_two_versions_made_at_once_are_both_kept(bench: Bench) -> None:
    codes = [ADD.replace("Sums", f"Sums {number}") for number in range(4)]
    other = bench.opened()  # another process would do the same
    made = await asyncio.gather(
        *(bench.make("add", code) for code in codes[:2]),
        *(other.make("add", code, None) for code in codes[2:]),
    )
    assert sorted(one.data["version"] for one in made) == [1, 2, 3, 4]
    tool_store = bench.written.tool_store
    assert {tool_store.code("add", number).decode() for number in (1, 2, 3, 4)} == set(codes)
    seen = tool_store.look("add")
    assert seen is not None
    assert seen.code == tool_store.code("add", seen.version)
    assert seen.record.current == seen.version == 4


async def test_a_tool_that_a_person_disabled_stays_so_whatever_the_agent_makes(
    bench: Bench,
) -> None:
    tool_store = bench.written.tool_store
    tool_store.keep("add", ADD.encode(), "session-1", "new")
    tool_store.switch("add", False, "person")
    with pytest.raises(ToolError, match="add is disabled by a person"):
        await bench.make("add", LOUD)
    with pytest.raises(ToolError, match="add is disabled by a person"):
        await bench.written.find("add")
    tool_store.switch("add", True, "person")
    assert (await bench.use("add", a=1)).text == "2"


# by hand


async def test_a_file_changed_by_hand_is_checked_before_it_is_used_and_becomes_a_version(
    bench: Bench,
) -> None:
    await bench.make("add", ADD)
    (bench.folder / "add.py").write_text(LOUD)
    tool = await bench.written.find("add")
    assert tool is not None
    assert bench.written.tool_store.record("add").current == 1
    both = await asyncio.gather(bench.use("add", a=1), bench.use("add", a=2))
    assert [one.text for one in both] == ["adding\n[returned]\n2", "adding\n[returned]\n3"]
    record = bench.written.tool_store.record("add")
    assert record.version is not None
    assert (record.version.number, record.version.by) == (2, "hand")


async def test_a_new_file_put_there_by_hand_is_a_tool(bench: Bench) -> None:
    bench.folder.mkdir()
    (bench.folder / "add.py").write_text(ADD)
    (bench.folder / "notes.txt").write_text("not a tool")
    (bench.folder / "Helper.py").write_text("not a tool either")
    assert bench.written.about() == "Tools you wrote: add"
    assert (await bench.use("add", a=1)).data["version"] == 1


async def test_a_bad_change_by_hand_is_refused_and_kept_aside_when_it_is_rolled_back(
    bench: Bench,
) -> None:
    await bench.make("add", ADD)
    bad = ADD.replace("a + b", "a - b")
    (bench.folder / "add.py").write_text(bad)
    said = await bench.failure("add", a=1)
    assert "add.py was changed by hand and is not used: line 9: test_add" in said
    assert "hermes tools rollback add" in said
    assert bench.written.tool_store.record("add").failures == 0
    with pytest.raises(ToolError, match="changed by hand and is not used"):  # told, not tried again
        await bench.written.find("add")
    assert bench.written.tool_store.roll_back("add", None, "person").number == 1
    assert (bench.folder / "add.py").read_text() == ADD
    assert (bench.folder / "history/add/unchecked.py").read_text() == bad
    assert (await bench.use("add", a=1)).text == "2"


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "large", "not UTF-8", "a link around"])
async def test_what_is_no_plain_file_is_not_read(bench: Bench, tmp_path: Path, what: str) -> None:
    bench.folder.mkdir()
    path = bench.folder / "add.py"
    (tmp_path / "elsewhere.py").write_text(ADD)
    match what:
        case "link":
            path.symlink_to(tmp_path / "elsewhere.py")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "large":
            path.write_text(ADD + "#" * 100_000)
        case "not UTF-8":
            path.write_bytes(ADD.encode() + b"\n# \xff\n")
        case _:
            path.symlink_to(path)
    with pytest.raises(ToolError):
        await bench.written.find("add")
    assert await bench.written.search("") == []


# the tool for the model


async def test_the_model_makes_a_tool_and_a_restart_finds_out_whether_it_was_made(
    bench: Bench,
) -> None:
    context = bench.context()
    given: dict[str, Any] = {"name": "add", "code": ADD}
    assert make_tool.prepare is not None
    assert make_tool.recover is not None
    assert make_tool.inverse is not None
    note = await make_tool.prepare(context, **given)
    assert await make_tool.recover(context, note, **given) == "not-run"
    result = await bench.make("add", ADD)
    found = await make_tool.recover(context, note, **given)
    assert isinstance(found, ToolResult)
    assert make_tool.inverse(note, given, result) == "hermes tools disable add"
    later = await bench.make("add", LOUD)
    assert make_tool.inverse(note, given, later) == "hermes tools rollback add"
    assert await make_tool.recover(context, note, **given) == "not-run"
    assert len(msgspec.json.encode(make_tool.spec)) < 800
