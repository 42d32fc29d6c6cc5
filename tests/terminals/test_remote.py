"""A terminal on another machine when things go wrong there or on the way. This machine stands for
the other one."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.remote.terminal import RemoteTerminal
from hermes_agent.terminals.shell.spool import Spool
from hermes_agent.terminals.transport import ByteStream, ProcessResult
from tests.support.awake_loop import pass_time
from tests.support.terminals import FarPlace, Shell, lives, until
from tests.support.transports import SubprocessTransport


class Weather(SubprocessTransport):
    """A way that can be cut, and that stays cut for a while."""

    def __init__(self, environment: dict[str, str]) -> None:
        super().__init__(environment)
        self.away = False
        self.snap = False
        self.part = False
        self.clear = asyncio.Event()
        """Unset: what is sent is held up."""
        self.clear.set()
        self.held = 0
        self.late = 0.0

    async def ready(self) -> None:
        await asyncio.sleep(self.late)
        if self.away:
            raise HermesError("no road", "wait")

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        if self.away:
            raise ConnectionResetError("no road")
        return await super().call(argv, stdin)

    async def start(self, argv: Sequence[str]) -> ByteStream | None:
        if self.away:
            raise ConnectionResetError("no road")
        channel = await super().start(argv)
        assert channel is not None
        return Snapping(channel, self)

    async def storm(self) -> None:
        self.away = True
        await self.close()


class Snapping:
    """A channel that snaps once, when a request to begin or to destroy has just gone out over it
    (`snap`), or with the answer to the first, and then there is no other way either (`part`)."""

    def __init__(self, channel: ByteStream, way: "Weather") -> None:
        self._channel = channel
        self._way = way
        self._snapped = False
        self._parting = False

    async def write(self, data: bytes) -> None:
        self._parting = self._way.part and data.startswith(b"begin")
        if not self._way.clear.is_set():
            self._way.held += 1
            await self._way.clear.wait()
        await self._channel.write(data)
        if self._way.snap and data.startswith((b"begin", b"destroy")):
            self._snapped, self._way.snap = True, False
            await self._way.close()

    async def read(self) -> bytes:
        data = await self._channel.read()
        if self._parting:
            self._parting, self._way.part = False, False
            await self._way.storm()
            return data
        return b"" if self._snapped else data

    async def close(self) -> None:
        await self._channel.close()


class Place(FarPlace):
    def __init__(self, folder: Path, settings: TerminalSettings) -> None:
        for name in ("work", "home"):
            (folder / name).mkdir()
        self.home = folder / "home"
        self.environment = {**os.environ, "HOME": str(self.home)}
        self.ways: list[Weather] = []
        super().__init__(self._way, str(folder / "work"), folder, settings)

    @property
    def spool(self) -> Path:
        return self.home / ".cache/hermes/a-session"

    def _way(self) -> Weather:
        self.ways.append(Weather(self.environment))
        return self.ways[-1]


@pytest.fixture
def settings() -> TerminalSettings:
    return TerminalSettings()


@pytest.fixture
async def place(tmp_path: Path, settings: TerminalSettings) -> AsyncIterator[Place]:
    made = Place(tmp_path, settings)
    yield made
    for way in made.ways:
        way.away = False
    await made.destroy()


@pytest.fixture
def terminal(place: Place) -> RemoteTerminal:
    return place.open()


@pytest.fixture
def shell(terminal: RemoteTerminal) -> Shell:
    return Shell(terminal)


async def test_a_command_goes_on_while_the_way_is_cut_and_is_found_again(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    work = Path(place.workspace)
    await shell.says("mkfifo gate")
    told: list[str] = []
    command = shell.command("echo line >> log; echo > begun; read line < gate; echo got $line")
    running = asyncio.create_task(terminal.run(command, told.append))
    await until((work / "begun").exists)
    await place.ways[0].storm()
    await until(lambda: any("the connection was lost" in text for text in told))
    place.ways[0].away = False
    await asyncio.to_thread((work / "gate").write_text, "it\n")
    assert (await running).stdout == "got it\n"
    assert (work / "log").read_text() == "line\n"
    assert await shell.says("echo on") == "on\n"


async def test_a_background_command_that_was_begun_is_not_said_to_have_failed(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    await shell.says("true")
    place.ways[0].part = True
    command = shell.command("echo line >> log; sleep 60", background=True)
    starting = asyncio.create_task(terminal.run(command))
    await until(lambda: place.ways[0].away)
    place.ways[0].away = False
    assert (await starting).state == "running"
    log = Path(place.workspace) / "log"
    await until(lambda: log.exists() and log.stat().st_size > 0)
    assert log.read_text() == "line\n"


async def test_a_command_that_cannot_be_reached_for_its_limit_is_lost_and_found_later(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    work = Path(place.workspace)
    await shell.says("true")
    place.ways[0].part = True
    wait = "until [ -e go ]; do sleep 0.02; done"
    command = shell.command(f"{wait}; echo line >> log; echo done", limit=0.3)
    assert (await terminal.run(command)).state == "lost"
    (work / "go").touch()
    await until(lambda: Spool(place.spool).end(command.id) is not None)
    place.ways[0].away = False
    found = await terminal.recover(command)
    assert not isinstance(found, str)
    assert found is not None
    assert (found.state, found.stdout) == ("exited", "done\n")
    assert (work / "log").read_text() == "line\n"


async def test_a_place_that_was_never_reached_is_said_with_its_hint(
    place: Place, terminal: RemoteTerminal
) -> None:
    place.ways[0].away = True
    with pytest.raises(HermesError, match="no road") as caught:
        await terminal.run(ShellCommand("a-1", "true"))
    assert caught.value.hint == "wait"
    with pytest.raises(HermesError, match="no road"):
        await terminal.read("x")


@pytest.mark.parametrize("background", [False, True])
async def test_a_command_runs_once_when_the_way_is_cut_while_it_is_handed_in(
    place: Place, terminal: RemoteTerminal, shell: Shell, background: bool
) -> None:
    await shell.says("true")
    place.ways[0].snap = True
    state = await shell("echo line >> log; echo out", background=background)
    assert not place.ways[0].snap
    assert state.state in {"running", "exited"}
    assert (await terminal.follow(state.id, wait=60)).stdout == "out\n"
    assert (Path(place.workspace) / "log").read_text() == "line\n"


async def test_the_time_of_a_command_does_not_begin_before_it_is_taken(
    place: Place, shell: Shell
) -> None:
    """To make the place may take longer than the command may."""
    place.ways[0].late = 0.6
    state = await shell("sleep 300", limit=0.5)
    assert state.state == "timeout"
    assert state.seconds >= 0.5


async def test_a_cancelled_command_is_stopped_though_the_place_takes_long_to_answer(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, TerminalSettings())
    terminal = place.open()
    command = ShellCommand("a-1", "echo > begun; sleep 300", 600)
    running = asyncio.create_task(terminal.run(command))
    await until((tmp_path / "work" / "begun").exists)
    place.ways[0].clear.clear()
    running.cancel()
    await until(lambda: place.ways[0].held > 0)
    await pass_time(20.0)
    place.ways[0].clear.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await terminal.follow(command.id)).state == "stopped"
    await place.destroy()


async def test_following_goes_on_when_the_way_was_cut(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    job = await shell("while read -r x && [[ $x != end ]]; do echo $x; done", background=True)
    told: list[str] = []
    following = asyncio.create_task(terminal.follow(job.id, wait=60, output=told.append))
    while not told:  # it tells what comes after it has begun
        await terminal.send(job.id, "before\n")
        await asyncio.sleep(0.05)
    await place.ways[0].close()
    await terminal.send(job.id, "on\nend\n")
    assert (await following).stdout.endswith("before\non\n")
    assert "".join(told).endswith("on\n")


async def test_a_request_that_was_given_up_while_it_was_sent_puts_no_answer_out_of_place(
    place: Place, terminal: RemoteTerminal
) -> None:
    await terminal.write("one", b"1")
    await terminal.write("three", b"333")
    place.ways[0].clear.clear()
    asked = asyncio.create_task(terminal.stat("one"))
    await until(lambda: place.ways[0].held > 0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    place.ways[0].clear.set()
    facts = await terminal.stat("three")
    assert facts is not None
    assert facts.size == 3


async def test_files_are_read_again_when_the_way_was_cut_in_between(
    place: Place, terminal: RemoteTerminal
) -> None:
    await terminal.write("note", b"text")
    await place.ways[0].close()
    assert await terminal.read("note") == b"text"


async def test_what_is_not_in_a_spool_that_was_lost_has_perhaps_happened(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    """The place was made anew, or its /tmp was emptied, while Hermes was away."""
    command = shell.command("echo line >> log")
    await terminal.run(command)
    await terminal.destroy()
    later = place.open()
    assert await later.recover(command) is None
    assert await later.recover(shell.command("true", background=True)) is None
    assert await Shell(later, "new").says("echo fresh") == "fresh\n"
    assert await place.open().recover(ShellCommand("b", "true", background=True)) == "not-run"


async def test_the_spool_and_the_scripts_are_closed_to_others(place: Place, shell: Shell) -> None:
    await shell.says("umask 000; echo secret")
    assert place.spool.stat().st_mode & 0o777 == 0o700
    assert place.spool.parent.stat().st_mode & 0o777 == 0o700


async def test_a_home_that_cannot_be_written_is_replaced_by_tmp(
    place: Place, terminal: RemoteTerminal
) -> None:
    place.environment["HOME"] = "/proc/none"
    state = await terminal.run(ShellCommand("a-1", "echo hi"))
    try:
        assert state.stdout == "hi\n"
        assert state.spool.startswith(f"/tmp/hermes-{os.getuid()}/")
    finally:
        await terminal.destroy()
    assert not Path(state.spool).parent.exists()


async def test_bash_that_is_missing_there_is_said_with_a_hint(
    place: Place, terminal: RemoteTerminal, tmp_path: Path
) -> None:
    place.environment["PATH"] = str(tmp_path)
    with pytest.raises(HermesError, match="bash is not installed") as caught:
        await terminal.run(ShellCommand("a-1", "true"))
    assert "5.0" in caught.value.hint
    place.environment["PATH"] = os.environ["PATH"]


async def test_bash_that_is_too_old_there_is_said_with_a_hint(
    place: Place, terminal: RemoteTerminal, tmp_path: Path
) -> None:
    old = tmp_path / "bash"
    old.write_text("#!/bin/sh\nexit 3\n")
    old.chmod(0o755)
    place.environment["PATH"] = str(tmp_path)
    with pytest.raises(HermesError, match="bash is too old"):
        await terminal.run(ShellCommand("a-1", "true"))
    place.environment["PATH"] = os.environ["PATH"]


async def test_a_workspace_that_is_missing_there_is_said(place: Place) -> None:
    Path(place.workspace).rmdir()
    with pytest.raises(HermesError, match="no folder at"):
        await place.open().run(ShellCommand("a-1", "true"))


async def test_destroying_leaves_no_process_and_no_file_there(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    await shell.says(
        "sleep 300 & echo $! >> pids; setsid sleep 300 & echo $! >> pids; echo $$ >> pids"
    )
    await shell("echo $BASHPID >> pids; sleep 300", background=True)
    pids = Path(place.workspace) / "pids"
    await until(lambda: len(pids.read_text().split()) == 4)
    await terminal.destroy()
    await until(lambda: not any(lives(int(pid)) for pid in pids.read_text().split()))
    assert not place.spool.exists()


async def test_destroying_goes_on_when_the_way_is_cut(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    await shell.says("true")
    place.ways[0].snap = True
    await terminal.destroy()
    assert not place.ways[0].snap
    assert not place.spool.exists()


@pytest.mark.parametrize("settings", [TerminalSettings(output_mb=1)])
async def test_a_flood_of_output_is_stopped_and_said(
    terminal: RemoteTerminal, shell: Shell
) -> None:
    state = await shell("echo first; yes; echo not reached")
    assert state.state == "stopped"
    assert state.stdout.startswith("first\ny\n")
    assert "[stopped: it wrote more than 1 MB]" in state.stderr
    job = await shell("yes", background=True)
    ended = await terminal.follow(job.id, wait=60)
    assert ended.state == "stopped"
    assert "more than 1 MB" in ended.stderr


async def test_an_idle_shell_is_ended_by_closing_and_comes_back(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    await shell.says("kept=yes; cd /usr")
    spine = int((place.spool / "spine").read_text().split()[0])
    await terminal.close()
    await until(lambda: not lives(spine))
    assert await shell.says("echo $kept $PWD") == "yes /usr\n"


async def test_a_hundred_commands_leave_nothing_behind_on_the_way(
    place: Place, terminal: RemoteTerminal, shell: Shell
) -> None:
    for number in range(100):
        assert await shell.says(f"echo {number}") == f"{number}\n"
        await terminal.forget(f"run-{number + 1}")
    assert sorted(place.spool.glob("run-*")) == []


async def test_an_expression_that_grep_cannot_take_there_is_said(terminal: RemoteTerminal) -> None:
    await terminal.write("a.txt", b"text\n")
    with pytest.raises(ToolError, match="regular expression"):
        await terminal.grep(".", r"\N{DIGIT ONE}", "*", 5)
