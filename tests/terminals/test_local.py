"""The terminal of this machine: what commands are given, what is refused, what is kept."""

import asyncio
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.local import files
from hermes_agent.terminals.local.terminal import LocalTerminal
from hermes_agent.terminals.output import NEWS_BYTES, OutputTail, beyond, excerpt, piece
from tests.support.patience import PATIENCE
from tests.support.terminals import LocalPlace, Shell, until


@pytest.mark.parametrize("settings", [TerminalSettings(keep_environment=("WANTED",))])
async def test_commands_see_no_secret_unless_it_is_named(place: LocalPlace) -> None:
    given = {
        "PATH": os.environ["PATH"],
        "HOME": "/somewhere",
        "LC_TIME": "C",
        "OPENAI_API_KEY": "sk-123",
        "HERMES_HOME": "/h",
        "WANTED": "yes",
        "TERM": "xterm",
    }
    shell = Shell(place.open(given))
    names = await shell.says("compgen -e | grep -v -x -e _ -e PWD -e OLDPWD -e SHLVL | sort")
    own = ["HERMES_HOME", "HERMES_SPOOL"]
    assert names.split() == [*own, "HOME", "LC_TIME", "PATH", "TERM", "WANTED"]
    assert await shell.says("echo $TERM") == "dumb\n"
    job = await shell("env", background=True)
    printed = (await shell.terminal.follow(job.id, wait=60)).stdout
    assert "sk-123" not in printed
    assert "WANTED=yes" in printed


async def test_commands_inherit_no_open_file(shell: Shell) -> None:
    # The last one is the listing's own.
    assert await shell.says("ls /proc/self/fd | wc -l") == "4\n"


async def test_each_pipeline_is_a_process_group_of_its_own(shell: Shell) -> None:
    assert await shell.says("[[ $(ps -o pgid= $$) != $(ps -o pgid= $PPID) ]] && echo apart") == (
        "apart\n"
    )


async def test_options_of_the_user_do_not_break_the_shell(shell: Shell) -> None:
    await shell("set -Cfux; IFS=x; PATH=; shopt -s nocasematch failglob; alias read=false")
    await shell("cd() { echo mine; }; printf() { echo mine; }; exit() { echo mine; }; LC_ALL=C")
    assert (await shell('echo "a b" $((1 + 1))')).stdout == "a b 2\n"
    assert (await shell("kill -KILL $$")).code == 137
    assert (await shell('echo "$IFS"; [[ -o noglob ]] && echo noglob')).stdout == "x\nnoglob\n"


async def test_an_alias_is_not_expanded_again_in_a_restored_function(shell: Shell) -> None:
    await shell.says("shopt -s expand_aliases; alias echo='echo +'")
    await shell.says("f() { echo text; }")
    for _ in range(2):
        assert (await shell("exit 1")).code == 1
    assert await shell.says("f") == "+ text\n"


async def test_a_trap_at_exit_runs_when_the_user_exits(shell: Shell) -> None:
    assert (await shell("trap 'echo bye' EXIT; kept=no; exit 2")).stdout == "bye\n"
    assert await shell.says("echo fine") == "fine\n"


async def test_bash_that_is_missing_is_said_with_a_hint(tmp_path: Path) -> None:
    terminal = LocalPlace(tmp_path).open({"PATH": str(tmp_path)})
    for background in (False, True):
        with pytest.raises(HermesError, match="bash is not installed") as caught:
            await terminal.run(ShellCommand(f"b-{background}", "true", background=background))
        assert "5.0" in caught.value.hint


async def test_bash_that_is_too_old_is_said_with_a_hint(tmp_path: Path) -> None:
    """The script looks at the version itself; this stands in for a bash that finds itself old."""
    old = tmp_path / "bash"
    old.write_text("#!/bin/sh\nexit 3\n")
    old.chmod(0o755)
    terminal = LocalPlace(tmp_path).open({"PATH": str(tmp_path)})
    with pytest.raises(HermesError, match="too old"):
        await terminal.run(ShellCommand("a", "true"))


async def test_a_workspace_that_is_missing_is_said(tmp_path: Path) -> None:
    terminal = LocalTerminal(str(tmp_path / "none"), tmp_path / "spool", TerminalSettings())
    with pytest.raises(HermesError, match="none"):
        await terminal.run(ShellCommand("a", "true"))


async def test_the_spool_is_closed_to_other_users(place: LocalPlace, shell: Shell) -> None:
    await shell.says("umask 000; echo secret")
    assert place.spool.stat().st_mode & 0o777 == 0o700


async def test_a_forgotten_command_leaves_no_file(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    state = await shell("echo out")
    await terminal.forget(state.id)
    assert list(place.spool.glob(f"{state.id}.*")) == []
    job = await shell("sleep 300", background=True)
    with pytest.raises(ToolError, match="still running"):
        await terminal.forget(job.id)
    await terminal.stop(job.id)
    await terminal.forget(job.id)
    assert await terminal.commands() == []


async def test_input_that_nobody_reads_is_given_up(place: LocalPlace, shell: Shell) -> None:
    times = iter(range(10_000))
    terminal = LocalTerminal(
        str(place.workspace), place.spool, TerminalSettings(), clock=lambda: float(next(times))
    )
    job = await shell("sleep 300", background=True)
    with pytest.raises(ToolError, match="does not read"):
        await terminal.send(job.id, "x" * 1_000_000)


async def test_a_command_is_started_and_stopped_to_the_end_on_a_machine_that_stands_still(
    place: LocalPlace,
) -> None:
    """Whenever somebody looks at the clock, a minute is over."""
    minutes = itertools.count()
    terminal = LocalTerminal(
        str(place.workspace), place.spool, TerminalSettings(),
        clock=lambda: time.time() + 60 * next(minutes),
    )  # fmt: skip
    job = await terminal.run(ShellCommand("a-1", "sleep 300", background=True))
    assert (job.state, job.background) == ("running", True)
    assert (await terminal.run(ShellCommand("a-2", "sleep 300", timeout=30))).state == "timeout"


async def test_a_terminal_serves_one_event_loop_after_another(place: LocalPlace) -> None:
    terminal = place.open()

    def apart(id: str) -> str:
        return asyncio.run(terminal.run(ShellCommand(id, "echo $((++n))"))).stdout

    assert await asyncio.to_thread(apart, "one") == "1\n"
    assert await asyncio.to_thread(apart, "two") == "2\n"


async def test_following_tells_only_what_is_new(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    job = await shell("echo old; echo > up; read; echo new", background=True)
    await until((place.workspace / "up").exists)
    told: list[str] = []
    following = asyncio.create_task(terminal.follow(job.id, wait=60, output=told.append))
    await asyncio.sleep(0)
    await terminal.send(job.id, "\n")
    assert (await following).stdout == "old\nnew\n"
    assert told == ["new\n"]


async def test_waiting_for_a_running_command_ends_in_time(
    terminal: LocalTerminal, shell: Shell
) -> None:
    job = await shell("sleep 300", background=True)
    assert (await terminal.follow(job.id, wait=0.05)).state == "running"


@pytest.mark.parametrize("size", [0, 10, 99, 100, 101, 399, 400, 401, 5000])
@pytest.mark.parametrize("sign", ["x", "é", "漢", "😀"])
def test_an_excerpt_keeps_both_ends_and_counts_the_rest(
    tmp_path: Path, size: int, sign: str
) -> None:
    path = tmp_path / "o"
    path.write_text(sign * size)
    found = piece(str(path), 100)
    text = excerpt(found, 100, str(path))
    assert found.size == size * len(sign.encode())
    if size <= 100:
        assert text == sign * size
    else:
        gone = (size - 100) * len(sign.encode())
        head, middle, tail = text.split("\n")
        assert (head, tail) == (sign * 50, sign * 50)
        assert middle == f"[... {gone:,} bytes left out; all of it is in {path} ...]"


def test_a_flood_of_news_is_skipped(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "o"
    news = OutputTail(told.append)
    news.take(0, *beyond(str(path), 0))
    path.write_bytes(b"x" * (NEWS_BYTES + 1000))
    news.take(0, *beyond(str(path), 0))
    assert told == ["\n[... 1,000 bytes skipped ...]\n" + "x" * NEWS_BYTES]


def test_a_hard_expression_is_given_up_without_holding_the_runtime(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("a" * 60 + "b\n")
    with pytest.raises(ToolError, match=r"took more than 0\.5 seconds"):
        files.grep(str(tmp_path), ".", "(a+)+$", "*", 10, seconds=0.5)


def test_a_file_that_may_not_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ToolError):
        files.write(str(tmp_path), "a/b", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


async def test_a_foreground_command_without_a_limit_has_the_setting_s(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path, TerminalSettings(timeout_seconds=0.2))
    terminal = place.open()
    command, told = ShellCommand("a-1", "echo begun; sleep 300"), []
    try:
        running = asyncio.create_task(LocalPlace(tmp_path).open().run(command, told.append))
        await until(lambda: told == ["begun\n"])
        state = await terminal.run(command)
        job = await terminal.run(ShellCommand("a-2", "sleep 300", background=True))
        assert (state.state, state.stdout) == ("timeout", "begun\n")
        assert await running == state
        assert (await terminal.follow(job.id, wait=0.4)).state == "running"
    finally:
        await place.destroy()


@pytest.mark.parametrize("settings", [TerminalSettings(output_mb=1)])
async def test_a_flood_of_output_is_stopped_and_said(terminal: LocalTerminal, shell: Shell) -> None:
    state = await shell("echo first; yes; echo not reached")
    assert state.state == "stopped"
    assert state.stdout.startswith("first\ny\n")
    assert "[stopped: it wrote more than 1 MB]" in state.stderr
    # Whatever the user's shell is like, the guard of a background command works.
    await shell("IFS=x; PATH=; set -f")
    job = await shell("/usr/bin/yes", background=True)
    ended = await terminal.follow(job.id, wait=60)
    assert ended.state == "stopped"
    assert "more than 1 MB" in ended.stderr


async def test_the_guard_of_a_command_sleeps_though_its_folder_is_gone(
    place: LocalPlace, shell: Shell
) -> None:
    def lines(*words: str) -> list[str]:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()

    def guards(*state: str) -> list[str]:
        return lines("pgrep", *state, "-f", f" task {place.spool} ")

    await shell("exec sleep 3600", background=True)
    await until(lambda: len(guards()) == 2)
    session = os.getsid(int(guards()[0]))
    shutil.rmtree(place.spool)
    try:
        for _ in range(20):
            await until(lambda: len(guards("-r", "S")) == 2)
        assert len(guards()) == 2
    finally:
        lines("pkill", "-KILL", "-s", str(session))


@pytest.fixture
def megabyte(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 1 MB large."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.fixture
async def cramped(megabyte: Path) -> AsyncIterator[LocalPlace]:
    place = LocalPlace(megabyte)
    yield place
    await place.destroy()


@pytest.mark.parametrize("background", [False, True])
async def test_a_command_that_fills_the_disk_has_an_end(
    cramped: LocalPlace, background: bool
) -> None:
    terminal = cramped.open()
    await terminal.run(ShellCommand("first", "true"))
    fill = "echo a; cat /dev/zero > big 2>/dev/null; (exit 7)"
    await terminal.run(ShellCommand("fill", fill, background=background, timeout=PATIENCE))
    done = await terminal.follow("fill", wait=PATIENCE)
    assert (done.state, done.code) == ("exited", 7)
    assert os.statvfs(cramped.spool).f_bfree == 0
    with pytest.raises(OSError, match="No space left"):
        await terminal.run(ShellCommand("next", "true", background=background))
    (cramped.workspace / "big").unlink()
    assert (await terminal.run(ShellCommand("next", "echo b"))).stdout == "b\n"
    assert (cramped.spool / "spare").stat().st_size == 4096


@pytest.mark.parametrize("free", [1, 2, 3, 8])
async def test_a_disk_with_hardly_any_room_is_told_at_once(cramped: LocalPlace, free: int) -> None:
    terminal = cramped.open()
    await terminal.run(ShellCommand("first", "true"))
    big = cramped.workspace / "big"
    room = os.statvfs(cramped.spool)
    big.write_bytes(b"x" * (room.f_bfree - free) * room.f_bsize)
    with pytest.raises(OSError, match="No space left"):
        await terminal.run(ShellCommand("next", "true"))
    assert not (cramped.spool / "next.c").exists()
