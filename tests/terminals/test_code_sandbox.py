"""Programs in workers' sandboxes: what they can do, how they end, what is left of them."""

import asyncio
import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.tool_results import ToolResult
from tests.support.awake_loop import pass_time
from tests.support.code_sandbox import SMALL, Shop
from tests.support.sandboxes import Kind, marked
from tests.support.terminals import until

BOTH: tuple[Kind, ...] = ("bubblewrap", "landlock")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture(params=BOTH)
def either(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(tmp_path, request.param)


async def test_all_that_a_program_prints_comes_back_whoever_prints_it(either: Shop) -> None:
    worked = await either.run(
        "import ctypes, os, subprocess, sys\n"
        "print('from Python')\n"
        "print('to the other', file=sys.stderr)\n"
        "os.write(1, b'from the descriptor\\n')\n"
        "ctypes.CDLL(None).dprintf(1, b'from C\\n')\n"
        "subprocess.run(['echo', 'from a child'])\n"
        "print(repr(sys.stdin.read()), 'ünï \\udcff')"
    )
    lines = ["from Python", "to the other", "from the descriptor", "from C", "from a child"]
    assert worked.output.splitlines() == [*lines, "'' ünï \\udcff"]
    assert (worked.ok, worked.trouble, worked.limit) == (True, "", "")
    assert "".join(either.heard) == worked.output
    assert either.left() == []


async def test_what_is_printed_is_heard_while_the_program_runs(shop: Shop) -> None:
    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        await until(lambda: "".join(shop.heard) == "before\n")
        return ToolResult("seen")

    assert (await shop.run("print('before')\nprint(terminal())", call=call)).ok


async def test_tools_are_functions_that_give_text_with_data(either: Shop) -> None:
    worked = await either.run(
        "import hermes\n"
        "from hermes import read_file\n"
        "said = terminal(command='ls', n=1.5)\n"
        "print(said.upper(), said.ok, said.data, isinstance(said, str))\n"
        "print(read_file(path=['ä']), hermes.terminal is terminal, terminal)"
    )
    assert worked.output == "TERMINAL LS True {'n': 1} True\nread_file  True <tool terminal>\n"
    assert either.called == [
        ("terminal", {"command": "ls", "n": 1.5}),
        ("read_file", {"path": ["ä"]}),
    ]


async def test_a_call_that_fails_raises_or_is_looked_at(shop: Shop) -> None:
    worked = await shop.run(
        "print(terminal(command='false', check=False).ok)\n"
        "try:\n    terminal(command='false')\n"
        "except hermes.ToolFailed as failed:\n    print(failed, failed.result.data)\n"
        "terminal(command='false')"
    )
    assert worked.output == "False\nterminal: terminal false {'n': 2}\n"
    assert not worked.ok
    told = [line for line in worked.trouble.splitlines()[1:] if line.strip(" ~^")]  # since 3.13
    assert told == [
        '  File "<code>", line 6, in <module>',
        "    terminal(command='false')",
        "hermes.ToolFailed: terminal: terminal false",
    ]


async def test_a_tool_that_cannot_do_it_tells_why(shop: Shop) -> None:
    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        raise ToolError("no file there", "look elsewhere", "changed")

    worked = await shop.run("print(terminal(check=False))", call=call)
    assert worked.output.splitlines()[:2] == ["no file there", "hint: look elsewhere"]


async def test_tools_are_called_by_their_names_and_arguments_by_theirs(shop: Shop) -> None:
    worked = await shop.run(
        "wrongs = (lambda: hermes.nothing(), lambda: terminal('ls'), lambda: terminal(n={1}))\n"
        "for wrong in wrongs:\n"
        "    try:\n        wrong()\n"
        "    except Exception as error:\n        print(error)"
    )
    assert worked.output.splitlines() == [
        "no tool called 'nothing'; available: terminal, read_file",
        "terminal takes its arguments by name: terminal(name=…)",
        "Object of type set is not JSON serializable",
    ]
    assert shop.called == []


PARALLEL = {
    "parallel": (
        "print(*hermes.parallel([(terminal, {'command': str(n)}) for n in range(8)]), sep='\\n')"
    ),
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    print(*pool.map(lambda n: terminal(command=str(n)), range(8)), sep='\\n')"
    ),
    "asyncio": (
        "import asyncio\n"
        "async def main():\n"
        "    calls = (asyncio.to_thread(terminal, command=str(n)) for n in range(4))\n"
        "    print(*await asyncio.gather(*calls), sep='\\n')\n"
        "asyncio.run(main())"
    ),
}


@pytest.mark.parametrize(("way", "count"), [("parallel", 8), ("threads", 8), ("asyncio", 4)])
async def test_calls_are_made_at_the_same_time(shop: Shop, way: str, count: int) -> None:
    all_are_here = asyncio.Barrier(count)

    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        await all_are_here.wait()
        return ToolResult(arguments["command"])

    limits = msgspec.structs.replace(SMALL, calls=8, processes=64)
    worked = await shop.run(PARALLEL[way], limits, call)
    assert (worked.trouble, worked.output.split()) == ("", [str(n) for n in range(count)])


async def test_one_failure_among_many_calls_is_told_when_all_were_made(shop: Shop) -> None:
    worked = await shop.run(
        "calls = [(terminal, {'command': c}) for c in ('a', 'false', 'b')]\n"
        "print([one.ok for one in hermes.parallel(calls, check=False)])\n"
        "calls.pop()\n"
        "hermes.parallel(calls)"
    )
    assert worked.output == "[True, False, True]\n"
    assert "ToolFailed: terminal: terminal false" in worked.trouble
    assert len(shop.called) == 5


async def test_more_calls_than_may_be_are_refused(shop: Shop) -> None:
    worked = await shop.run("while True: terminal(command='x')")
    assert len(shop.called) == SMALL.calls
    assert (worked.ok, worked.limit) == (False, "calls")
    assert worked.trouble.startswith("it made more than 5 calls\nTraceback")


async def test_time_in_which_a_program_waits_for_tools_does_not_count(shop: Shop) -> None:
    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        await pass_time(SMALL.seconds + 1)
        return ToolResult("done")

    worked = await shop.run("print(terminal())", call=call)
    assert (worked.output, worked.limit) == ("done\n", "")


async def test_a_function_of_the_program_is_called_and_gives_its_value(either: Shop) -> None:
    source = (
        "import msgspec\n"
        "if __name__ == '__main__': raise SystemExit(3)\n"
        "def add(a, b=1):\n    print('adding')\n    return {'sum': a + b, 'by': terminal()}\n"
        "async def later(a): return [a]\n"
        "def bad(): return {1}\n"
        "def endless(): return float('nan')\n"
        "def large(): return 'x' * 5_000_000\n"
    )
    worked = await either.run(source, function="add", arguments={"a": 2})
    assert (worked.value, worked.output) == ({"sum": 3, "by": "terminal "}, "adding\n")
    assert (await either.run(source, function="later", arguments={"a": None})).value == [None]
    for name in ("bad", "endless", "large", "missing"):
        worked = await either.run(source, function=name)
        assert (worked.ok, worked.value, worked.limit) == (False, None, ""), name
        assert name in worked.trouble


@pytest.mark.parametrize(
    ("source", "trouble"),
    [
        ("x = (\n", "SyntaxError"),
        ("a = 1\n\ndef f():\n    return 1 / 0\nf()", "line 4, in f\n    return 1 / 0"),
        ("raise SystemExit(7)", "it exited with 7"),
        ("exit('no more')", "it exited with 'no more'"),
        ("x = '\0'", "null bytes"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
async def test_trouble_in_the_code_is_told_with_its_lines(
    shop: Shop, source: str, trouble: str
) -> None:
    worked = await shop.run(source)
    assert (worked.ok, worked.limit) == (False, "")
    assert trouble in worked.trouble
    assert "worker_program" not in worked.trouble


async def test_a_program_may_leave_early_and_well(shop: Shop) -> None:
    worked = await shop.run("import atexit\natexit.register(print, 'bye')\nexit()")
    assert (worked.ok, worked.output) == (True, "bye\n")


async def test_threads_of_a_program_are_waited_for(shop: Shop) -> None:
    worked = await shop.run(
        "import threading\nthreading.Thread(target=lambda: print(terminal(command='late'))).start()"
    )
    assert (worked.ok, worked.output) == (True, "terminal late\n")


async def test_other_processes_of_a_program_end_with_it(shop: Shop) -> None:
    mark = f"593.{os.getpid()}"
    worked = await shop.run(
        f"import subprocess\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
    )
    assert worked.ok
    assert marked(mark) == []


OPEN = """
import os
for n in range(3, 256):
    try: print(n, os.fstat(n))
    except OSError: pass
"""


async def test_children_do_not_inherit_the_way_to_the_runtime(either: Shop) -> None:
    worked = await either.run(
        "import subprocess, sys\n"
        f"argv = [sys.executable, '-I', '-S', '-c', {OPEN!r}]\n"
        "subprocess.run(argv, close_fds=False, check=True)"
    )
    assert (worked.ok, worked.output) == (True, "")


async def test_forked_processes_work_but_do_not_call(shop: Shop) -> None:
    worked = await shop.run(
        "import multiprocessing, os\n"
        "def square(n):\n"
        "    try:\n        return terminal()\n"
        "    except RuntimeError as error:\n        return f'{n * n} {error}'\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(*pool.map(square, [2, 3]), sep='\\n')\n"
        "if os.fork() == 0:\n    print('child')\nelse:\n    os.wait()\n    print('parent')"
    )
    said = "a forked process cannot call tools"
    assert worked.output.splitlines() == [f"4 {said}", f"9 {said}", "child", "parent"]
    assert worked.ok


async def test_a_program_has_a_folder_for_files_that_is_gone_afterwards(either: Shop) -> None:
    source = (
        "import os, tempfile\n"
        "print(os.path.exists('kept'))\n"
        "for folder in ('.', os.path.expanduser('~'), tempfile.gettempdir()):\n"
        "    open(os.path.join(folder, 'kept'), 'w').write('x')"
    )
    for _ in range(2):
        assert (await either.run(source)).output == "False\n"
    assert either.left() == []


async def test_trouble_of_the_runtime_ends_the_program_and_is_not_hidden(shop: Shop) -> None:
    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours"):
        await shop.run("try: terminal()\nfinally:\n    while True: pass", call=call)
    assert shop.left() == []


async def test_a_call_under_way_comes_to_its_end_when_the_program_does_not(shop: Shop) -> None:
    ended = []
    begun = asyncio.Event()

    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        if arguments:
            await begun.wait()
            return ToolResult("")
        begun.set()
        await until(lambda: shop.left() == [])
        ended.append(tool)
        return ToolResult("too late")

    worked = await shop.run(
        "import os, threading\n"
        "threading.Thread(target=terminal).start()\n"
        "terminal(command='wait')\n"
        "os._exit(0)",
        call=call,
    )
    assert (worked.limit, ended) == ("died", ["terminal"])


async def test_nothing_is_left_of_a_program_that_is_cancelled(either: Shop) -> None:
    mark = f"594.{os.getpid()}"
    for when in ("making", "at work"):
        source = f"import subprocess\nsubprocess.run(['sleep', '{mark}'])"
        running = asyncio.create_task(either.run(source))
        await until(lambda: either.left() != [])
        if when == "at work":
            await until(lambda: len(marked(mark)) == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (either.left(), marked(mark)) == ([], [])


async def test_where_no_sandbox_can_be_made_nothing_runs(shop: Shop) -> None:
    shop.box.environ["PATH"] = str(shop.box.workspace)
    with pytest.raises(HermesError) as refused:
        await shop.run("print(1)")
    assert refused.value.hint
    assert shop.left() == []


HOST = """
import asyncio, pathlib, sys
from tests.support.code_sandbox import Shop

async def main():
    shop = Shop(pathlib.Path(sys.argv[1]), sys.argv[2])
    mark = sys.argv[3]
    await shop.run("import os, signal, subprocess\\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
        f"subprocess.run(['sleep', {mark!r}], start_new_session=True)")

asyncio.run(main())
"""


async def test_programs_die_with_their_host_and_what_they_leave_is_removed(
    either: Shop, tmp_path: Path
) -> None:
    kind = "landlock" if "programs" in either.box.environ["PATH"] else "bubblewrap"
    mark = f"595.{os.getpid()}"
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(tmp_path), kind, mark
    )
    try:
        await until(lambda: any(b"sleep" in _command(pid) for pid in marked(mark)))
        await either.workshop.tidy()
        assert len(either.left()) == 2, "what is in use is left alone"
    finally:
        host.kill()
        await host.wait()
    groups = [
        Path(line) for note in either.folder.glob("*/groups") for line in note.read_text().split()
    ]
    await until(lambda: marked(mark) == [])
    assert len(either.left()) == 2
    assert (await either.run("print(1)")).ok
    assert either.left() == []
    assert [group for group in groups if group.exists()] == []


def lock_of(shop: Shop, name: str) -> Path:
    """The lock of a run."""
    shop.folder.mkdir(parents=True, exist_ok=True)
    return shop.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"


async def test_programs_that_begin_together_after_a_crash_all_wait_for_the_tidying(
    shop: Shop,
) -> None:
    names = [f"name {number}" for number in range(4)]
    for name in names:
        lock_of(shop, name).touch()
        lock_of(shop, name).with_suffix("").mkdir()
    worked = await asyncio.gather(*(shop.workshop.run(name, "print(1)") for name in names))
    assert [one.output for one in worked] == ["1\n"] * 4
    assert shop.left() == []


async def test_a_lock_that_another_process_holds_for_a_moment_is_waited_for(shop: Shop) -> None:
    held = lock_of(shop, "name").open("wb")
    fcntl.flock(held, fcntl.LOCK_EX)
    asyncio.get_running_loop().call_later(0.2, held.close)
    assert (await shop.workshop.run("name", "print(1)")).output == "1\n"
    assert shop.left() == []


async def test_a_lock_is_waited_for_though_this_process_stands_still_meanwhile(shop: Shop) -> None:
    held = lock_of(shop, "name").open("wb")
    fcntl.flock(held, fcntl.LOCK_EX)
    running = asyncio.create_task(shop.workshop.run("name", "print(1)"))
    for _ in range(8):
        await asyncio.sleep(0.02)
        time.sleep(0.3)  # noqa: ASYNC251 - so that more time passes than we are awake
    held.close()
    assert (await running).output == "1\n"


async def test_a_program_that_another_process_runs_is_not_run_beside_it(shop: Shop) -> None:
    with lock_of(shop, "name").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(HermesError, match="already running"):
            await shop.workshop.run("name", "print(1)")


async def test_a_program_that_is_run_again_makes_the_same_choices(either: Shop) -> None:
    source = (
        "import os, random, sys\n"
        "print(random.random())\n"
        "print(hash('x'), list({'a', 'b', 'c', 'd', 'e'}))\n"
        "print(sys.flags.no_user_site, sys.flags.no_site, sys.flags.safe_path)"
    )
    first, again, other = [
        (await either.workshop.run(name, source)).output.splitlines()
        for name in ("one", "one", "two")
    ]
    assert first == again
    assert first[0] != other[0]
    assert first[1] == other[1]
    assert first[2] == "1 1 True"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except FileNotFoundError:
        return b""
