"""Programs that a confined command calls outside of its view."""

import asyncio
import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from hermes_agent.core.effects import OutsideCall, OutsideCalls
from hermes_agent.core.protocols import CommandState, ShellCommand
from tests.support.terminals import LocalPlace, lives, until

SERVICE = """#!/bin/sh
# Shows what it got, and that it runs where files can be made.
touch "$MADE"
case $1 in
  words) shift; for word; do printf '<%s>' "$word"; done; echo " in $PWD with ${SETTING-nothing}" ;;
  read) cat; echo wrong >&2 ;;
  ask) cat ;;
  end) exit "$2" ;;
  stay) echo $$; exec sleep 1000 ;;
esac
"""


class Caller:
    """A terminal whose commands may call `service` outside, unless it is told to `harm`."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (programs / "service").write_text(SERVICE)
        (programs / "service").chmod(0o755)
        self.made = folder / "made"
        self.place = LocalPlace(folder)
        self.place.spool = folder / "home" / "terminals" / "session" / "local"
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        settings = self.place.settings
        self.place.settings = type(settings)(keep_environment=("MADE",))
        self.terminal = self.place.open({**environment, "MADE": str(self.made)})
        self.judged: list[tuple[str, str]] = []
        self._number = 0

    async def judge(self, command: str, folder: str) -> OutsideCall:
        self.judged.append((command, folder))
        # What comes through a pipe may be anything, until it is known.
        harm = "harm" in command or command == "cat | service ask"
        return OutsideCall("it would do harm" if harm else "")

    async def look(self, text: str, **more: object) -> CommandState:
        self._number += 1
        outside = OutsideCalls(frozenset({"service", "absent"}), self.judge)
        return await self.terminal.run(
            ShellCommand(
                f"run-{self._number}", text, confinement="read-only", outside=outside, **more  # type: ignore[arg-type]
            )
        )  # fmt: skip


@pytest_asyncio.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    made = Caller(tmp_path)
    yield made
    await made.terminal.destroy()


async def test_a_program_runs_outside_with_the_words_it_really_got(caller: Caller) -> None:
    (caller.place.workspace / "sub").mkdir()
    told = await caller.look(
        "cd sub; a='two  words'; SETTING=set service words \"$a\" $(printf '%s' com)puted '' | cat;"
        "touch within"
    )
    sub = f"{caller.place.workspace}/sub"
    assert told.stdout == f"<two  words><computed><> in {sub} with set\n"
    assert caller.judged == [("SETTING=set service words 'two  words' computed ''", sub)]
    assert caller.made.exists()
    assert list(Path(sub).iterdir()) == []


async def test_what_is_refused_does_not_run_and_says_why(caller: Caller) -> None:
    told = await caller.look("x=ha; service words ${x}rm; echo $?; absent; service end 7; exit $?")
    assert (told.code, told.stdout) == (7, "126\n")
    assert "hermes: service was not run: it would do harm" in told.stderr
    assert "absent: command not found" in told.stderr
    assert [words for words, _ in caller.judged] == ["service words harm", "service end 7"]


async def test_every_way_to_start_it_leads_outside(caller: Caller) -> None:
    told = await caller.look(
        "service words 1; command service words 2; env service words 3;"
        "echo 4 | xargs service words; bash -c 'service words 5';"
        "exec $(command -v service) words 6"
    )
    assert [line[:3] for line in told.stdout.splitlines()] == [f"<{n}>" for n in range(1, 7)]
    assert len(caller.judged) == 6


async def test_input_and_output_go_through(caller: Caller) -> None:
    (caller.place.workspace / "kept").write_text("from a file\n")
    told = await caller.look(
        "echo piped | service read 2>&1; service read < kept > $TMPDIR/out 2> $TMPDIR/err;"
        "cat $TMPDIR/out $TMPDIR/err; service read <<< here > /dev/null 2>&1"
    )
    assert told.stdout == "piped\nwrong\nfrom a file\nwrong\n"
    large = await caller.look("seq 1 100000 | service read 2>/dev/null | tail -1")
    assert large.stdout == "100000\n"


async def test_it_ends_with_the_command_that_called_it(caller: Caller) -> None:
    stopped = await caller.look("service stay", timeout=1.0)
    assert stopped.state == "timeout"
    await until(lambda: not lives(int(stopped.stdout)))
    begun = await caller.look("service stay", background=True)

    async def told() -> str:
        return (await caller.terminal.follow(begun.id)).stdout

    await until(told)
    pid = int(await told())
    await caller.terminal.stop(begun.id)
    await until(lambda: not lives(pid))


async def test_what_runs_in_the_background_is_judged_as_the_command_that_it_is(
    caller: Caller,
) -> None:
    go = caller.place.workspace / "go"
    begun = await caller.look(
        f"until [[ -e {go} ]]; do sleep 0.05; done; service words behind; sleep 1000",
        background=True,
    )
    ahead: list[str] = []

    async def judge(command: str, _folder: str) -> OutsideCall:
        ahead.append(command)
        return OutsideCall()

    other = ShellCommand(
        "other", "service words ahead", confinement="read-only",
        outside=OutsideCalls(frozenset({"service", "absent"}), judge),
    )  # fmt: skip
    assert (await caller.terminal.run(other)).stdout.startswith("<ahead>")
    go.touch()

    async def called() -> bool:
        return "<behind>" in (await caller.terminal.follow(begun.id)).stdout

    await until(called)
    await caller.terminal.stop(begun.id)
    assert [words for words, _ in caller.judged] == ["cat | service words behind"]
    assert ahead == ["service words ahead"]


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """A process outside that looks like a call."""
    words = [sys.executable, "-c", "import time; time.sleep(1000)", "service"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


async def test_a_process_elsewhere_cannot_be_named_as_the_caller(
    caller: Caller, elsewhere: int
) -> None:
    fifo = caller.place.spool / "calls"
    await caller.look(f"echo {elsewhere} 1 > {fifo}; echo 1 1 > {fifo}; echo x >> {fifo}; true")
    assert (await caller.look("service words after")).stdout.startswith("<after>")
    assert [words for words, _ in caller.judged] == ["service words after"]


async def test_a_flood_of_lines_is_read_slowly(caller: Caller) -> None:
    await caller.look("service words before")
    reads = 0
    with (caller.place.spool / "calls").open("rb+", buffering=0) as fifo:
        for _ in range(200):
            if not any(fcntl.ioctl(fifo, termios.FIONREAD, bytes(4))):
                reads += 1
                fifo.write(b"x\n" * 1000)
            await asyncio.sleep(0)
    assert reads < 50
    assert (await caller.look("service words after")).stdout.startswith("<after>")


FORGED = """
import os, sys
# A file that may not even be opened: whoever opened it anew could read it.
os.dup2(os.open(sys.argv[2], os.O_PATH), 0)
given, reply = os.pipe()
with open(sys.argv[3], "w") as fifo:
    fifo.write(f"{os.getpid()} {reply}\\n")
said = os.read(given, 100)
os.close(reply)
print(said + b"".join(iter(lambda: os.read(given, 100), b"")))
"""


async def test_a_call_gets_no_more_rights_to_a_file_than_its_caller_has(
    caller: Caller, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    (caller.place.workspace / "service").write_text(FORGED)
    fifo = caller.place.spool / "calls"
    told = await caller.look(
        f"{sys.executable} ./service read {secret} {fifo} & wait $!; echo on", timeout=60
    )
    assert told.stdout == "b'ok\\n0\\n'\non\n"
    assert "a secret" not in told.stdout + told.stderr
    out = caller.place.spool / "read-only.look" / "out"
    forged = await caller.look(f"service words 'set PATH x=/evil' 1< {out}; echo $?")
    assert forged.stdout == "1\n"


async def test_input_is_judged_as_well_and_left_to_whoever_reads_it(caller: Caller) -> None:
    (caller.place.workspace / "lines").write_text("one\ntwo\n")
    loop = await caller.look("while read -r line; do service words $line; done < lines")
    assert [line[:5] for line in loop.stdout.splitlines()] == ["<one>", "<two>"]
    told = await caller.look(
        "echo harm | service ask; service ask <<< harm; service ask < <(echo fine; sleep 1000);"
        "cat lines | service ask"
    )
    assert told.stdout == "one\ntwo\n"
    assert told.stderr.count("it would do harm") == 3


async def test_a_process_that_is_not_confined_is_no_caller(caller: Caller) -> None:
    await caller.look("true")
    await caller.terminal.run(ShellCommand("open", "exec 5> taken"))
    fifo, shell = caller.place.spool / "calls", caller.place.spine()
    await caller.look(f"echo {shell} 5 > {fifo}; service words after")
    assert (caller.place.workspace / "taken").read_text() == ""
    assert len(caller.judged) == 1


async def test_a_folder_that_is_only_in_the_view_is_told(caller: Caller) -> None:
    told = await caller.look("mkdir $TMPDIR/here; cd $TMPDIR/here; service words; echo $?")
    assert told.stdout == "126\n"
    assert "did not start" in told.stderr


RUNTIME = """
import asyncio, sys
from pathlib import Path
from tests.terminals.test_calls import Caller
asyncio.run(Caller(Path(sys.argv[1])).look("service stay; echo $?"))
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", RUNTIME, tmp_path]) as process:
        yield process


async def test_a_call_ends_with_the_runtime_and_the_command_goes_on(
    runtime: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    place = LocalPlace(tmp_path)
    place.spool = tmp_path / "home" / "terminals" / "session" / "local"
    await until((tmp_path / "made").exists)
    runtime.kill()
    again = place.open()
    command = ShellCommand("run-1", "service stay; echo $?", confinement="read-only")
    ended = await again.recover(command)
    assert isinstance(ended, CommandState)
    assert (ended.state, ended.stdout.splitlines()[-1]) == ("exited", "137")
    await again.destroy()
