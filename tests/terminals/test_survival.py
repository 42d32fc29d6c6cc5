"""The runtime, the daemon or the shell dies at a bad moment: nothing runs twice or is lost."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.local.terminal import LocalTerminal
from hermes_agent.terminals.shell.spool import Spool
from tests.support.terminals import LocalPlace, Shell, lives, until

RUNTIME = """
import asyncio, sys
from pathlib import Path
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.local.terminal import LocalTerminal

async def main(work, spool, *commands):
    terminal = LocalTerminal(work, Path(spool), TerminalSettings())
    runs = [
        terminal.run(
            ShellCommand(f"doomed-{n}", text.removeprefix("& "), 60, text.startswith("& "))
        )
        for n, text in enumerate(commands)
    ]
    await asyncio.gather(*runs)
    await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


def start_runtime(place: LocalPlace, *texts: str) -> subprocess.Popen[bytes]:
    """A process of its own that runs commands `doomed-0`, `doomed-1`, … all at once."""
    return subprocess.Popen([sys.executable, "-c", RUNTIME, place.workspace, place.spool, *texts])


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def found(state: CommandState | str | None) -> CommandState:
    assert isinstance(state, CommandState)
    return state


async def test_a_command_running_when_the_runtime_dies_is_picked_up_whole(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    text = "echo line >> log; echo begun; mkfifo gate; read < gate; echo done"
    runtime = start_runtime(place, text)
    await until((place.workspace / "gate").exists)
    kill(runtime)
    picked_up = asyncio.create_task(terminal.recover(ShellCommand("doomed-0", text)))
    (await Shell(terminal, "free")("echo > gate", background=True))
    state = found(await picked_up)
    assert (state.state, state.code, state.stdout) == ("exited", 0, "begun\ndone\n")
    assert (place.workspace / "log").read_text() == "line\n"


async def test_a_command_that_ended_while_nobody_was_there_is_found(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    text = "echo > begun; sleep 0.2; echo line >> log; echo done; exit 4"
    runtime = start_runtime(place, text)
    await until((place.workspace / "begun").exists)
    kill(runtime)
    await until((place.spool / "doomed-0.r").exists)
    state = found(await terminal.recover(ShellCommand("doomed-0", text)))
    assert (state.code, state.stdout) == (4, "done\n")
    assert (place.workspace / "log").read_text() == "line\n"


async def test_a_line_still_in_the_fifo_runs_once_though_it_is_handed_in_again(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    """The old runtime handed a command in behind one that holds the shell, and died."""
    await shell.says("mkfifo gate")
    holding = asyncio.create_task(shell("echo > held; read < gate"))
    await until((place.workspace / "held").exists)
    runtime = start_runtime(place, "echo line >> log; echo once")
    await until((place.spool / "doomed-0.c").exists)
    await asyncio.sleep(0.2)
    kill(runtime)
    other = place.open()
    waiting = asyncio.create_task(
        other.recover(ShellCommand("doomed-0", "echo line >> log; echo once"))
    )
    await asyncio.sleep(0.1)
    await shell("echo > gate", background=True)
    assert (await holding).code == 0
    assert found(await waiting).stdout == "once\n"
    assert await shell.says("cat log") == "line\n"


async def test_a_background_command_goes_on_when_the_runtime_dies(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    runtime = start_runtime(place, "& echo > up; read line; echo got $line")
    await until((place.workspace / "up").exists)
    kill(runtime)
    state = found(await terminal.recover(ShellCommand("doomed-0", "", background=True)))
    assert (state.state, state.background) == ("running", True)
    await terminal.send("doomed-0", "word\n")
    assert (await terminal.follow("doomed-0", wait=60)).stdout == "got word\n"


async def test_time_counts_from_the_true_start_after_a_restart(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    runtime = start_runtime(place, "echo > begun; sleep 300")
    await until((place.workspace / "begun").exists)
    kill(runtime)
    claim = Spool(place.spool).claim("doomed-0")
    assert claim is not None
    # This clock stands still until the command has been stopped: only time that was over before
    # the wait began can end it.
    late = LocalTerminal(
        str(place.workspace), place.spool, TerminalSettings(), clock=lambda: claim.start + 1000
    )
    assert found(await late.recover(ShellCommand("doomed-0", "", timeout=999))).state == "timeout"


async def test_a_shell_killed_from_outside_is_started_again_with_its_state(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("kept=yes; list=(1 2 3); f() { echo $kept; }; cd /usr")
    old = place.spine()
    os.kill(old, signal.SIGKILL)
    assert await shell.says("f; echo ${list[2]}; pwd") == "yes\n3\n/usr\n"
    assert place.spine() != old


async def test_state_survives_the_death_of_daemon_and_shell(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("export kept=yes; list=(1 2 3); f() { echo $kept; }; cd /usr")
    for pid in (place.daemon(), place.spine()):
        os.kill(pid, signal.SIGKILL)
    assert await shell.says("f; echo ${list[2]}; pwd; printenv kept") == "yes\n3\n/usr\nyes\n"


async def test_a_shell_without_its_daemon_still_serves(place: LocalPlace, shell: Shell) -> None:
    await shell.says("kept=yes")
    old = place.spine()
    os.kill(place.daemon(), signal.SIGKILL)
    assert await shell.says("echo $kept") == "yes\n"
    assert place.spine() == old
    assert (await shell("exit 3")).code == 3
    assert await shell.says("echo $kept") == "yes\n"


async def test_a_command_whose_daemon_and_shell_die_is_lost_and_not_run_again(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    command = shell.command("echo line >> log; sleep 300")
    running = asyncio.create_task(terminal.run(command))
    await until((place.workspace / "log").exists)
    for pid in (place.daemon(), place.spine()):
        os.kill(pid, signal.SIGKILL)
    assert (await running).state == "lost"
    assert await place.open().recover(command) is None
    assert await shell.says("cat log") == "line\n"
    assert await place.open().recover(command) is None
    assert (await place.open().run(command)).state == "lost"


async def test_a_result_written_before_the_daemon_died_is_found(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    command = shell.command("echo out; (exit 5)")
    await terminal.run(command)
    for pid in (place.daemon(), place.spine()):
        os.kill(pid, signal.SIGKILL)
    state = found(await place.open().recover(command))
    assert (state.code, state.stdout) == (5, "out\n")


async def test_after_a_reboot_a_missing_claim_proves_nothing(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("true")
    await place.open().destroy()
    place.spool.mkdir()
    (place.spool / "boot").write_text("another boot")
    for background in (False, True):
        command = shell.command("true", background=background)
        assert await place.open().recover(command) is None


async def test_a_background_command_on_its_way_does_not_start_once_it_was_called_not_run(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    """The old runtime died between starting the process and its claim."""
    spool = Spool(place.spool)
    spool.prepare()
    spool.put_text("doomed-0", "echo line >> log")
    assert await terminal.recover(ShellCommand("doomed-0", "", background=True)) == "not-run"
    await place.launch("job", "doomed-0")
    await Shell(terminal)("true")
    assert not (place.workspace / "log").exists()
    await terminal.run(ShellCommand("doomed-0", "echo line >> log", background=True))
    await terminal.follow("doomed-0", wait=60)
    assert (place.workspace / "log").read_text() == "line\n"


async def test_many_daemons_started_at_once_leave_one(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    await asyncio.gather(*(place.launch("keep", "60") for _ in range(6)))
    shell = Shell(terminal)
    assert await shell.says("echo hi") == "hi\n"
    await until(lambda: daemons(place) == [place.daemon()])
    assert await shell.says("echo still") == "still\n"


ENDING = """#!/bin/sh
if [ "$4 $5" = "start keep" ] && [ ! -e {mark} ]; then touch {mark}; exit 0; fi
exec {bash} "$@"
"""


async def test_a_daemon_that_ended_before_anybody_came_is_started_again(
    place: LocalPlace, tmp_path: Path
) -> None:
    """Whoever had started it stood still for longer than a shell may be idle."""
    mark = tmp_path / "ended"
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "bash").write_text(ENDING.format(mark=mark, bash=shutil.which("bash")))
    (programs / "bash").chmod(0o755)
    shell = Shell(place.open({"PATH": f"{programs}:{os.environ['PATH']}"}))
    assert await shell.says("echo hi") == "hi\n"
    assert mark.exists()


async def test_a_snapshot_cut_off_in_the_middle_is_not_used(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("kept=old")
    await shell.says("kept=new")
    for pid in (place.daemon(), place.spine()):
        os.kill(pid, signal.SIGKILL)
    newest = max(place.spool.glob("state.?"), key=lambda path: path.read_text().split("\n")[0])
    newest.write_bytes(newest.read_bytes()[:2000])
    assert await shell.says("echo $kept") == "old\n"


async def test_a_half_written_result_counts_as_none(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    """The shell dies between making the file and writing the code."""
    command = shell.command(": > ../spool/run-1.r; kill -KILL $$")
    assert (await terminal.run(command)).code == 137


async def test_a_shell_that_its_own_state_kills_starts_afresh(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("kept=yes")
    for state in place.spool.glob("state.?"):
        state.write_text(state.read_text().replace("declare -- kept", "exit 1\ndeclare -- kept"))
    os.kill(place.spine(), signal.SIGKILL)
    assert await shell.says("echo ${kept:-gone}") == "gone\n"


@pytest.mark.parametrize("settings", [TerminalSettings(idle_seconds=0.1)])
async def test_an_idle_shell_ends_by_itself_and_its_state_comes_back(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("kept=yes; cd /usr")
    daemon, spine = place.daemon(), place.spine()
    await until(lambda: not lives(daemon) and not lives(spine))
    assert await shell.says("echo $kept $PWD") == "yes /usr\n"


@pytest.mark.parametrize("settings", [TerminalSettings(idle_seconds=0.05)])
async def test_a_shell_with_a_job_is_not_idle(place: LocalPlace, shell: Shell) -> None:
    await shell.says("mkfifo gate; { read < gate; } &")
    spine = place.spine()
    await asyncio.sleep(0.3)
    assert await shell.says("jobs -r | wc -l; echo > gate; wait") == "1\n"
    assert place.spine() == spine
    await until(lambda: not lives(spine))


async def test_closing_ends_an_idle_shell_and_leaves_running_commands(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    job = await shell("read line; echo $line", background=True)
    await shell.says("kept=yes")
    daemon, spine = place.daemon(), place.spine()
    await terminal.close()
    await until(lambda: not lives(daemon) and not lives(spine))
    await terminal.send(job.id, "on\n")
    assert (await terminal.follow(job.id, wait=60)).stdout == "on\n"
    assert await shell.says("echo $kept") == "yes\n"


async def test_a_terminal_is_usable_right_after_it_was_closed(
    terminal: LocalTerminal, shell: Shell
) -> None:
    for _ in range(5):
        assert await shell.says("echo hi") == "hi\n"
        await terminal.close()


async def test_destroying_leaves_no_process_and_no_file(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    await shell.says(
        "sleep 300 & echo $! >> pids; setsid sleep 300 & echo $! >> pids;"
        "(sleep 300 & echo $! >> pids); env -i sleep 300 & echo $! >> pids; echo $$ >> pids"
    )
    await shell("echo $BASHPID >> pids; (trap '' INT TERM; sleep 300)", background=True)
    await until(lambda: len((place.workspace / "pids").read_text().split()) == 6)
    pids = [int(pid) for pid in (place.workspace / "pids").read_text().split()]
    await terminal.destroy()
    await until(lambda: not any(lives(pid) for pid in pids))
    assert daemons(place) == []
    assert not place.spool.exists()


async def test_destroying_ends_the_wait_for_a_running_command(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    running = asyncio.create_task(shell("echo > begun; sleep 300"))
    await until((place.workspace / "begun").exists)
    await terminal.destroy()
    assert (await running).state == "lost"


async def test_destroying_works_when_the_workspace_is_gone(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    await shell.says("true")
    shutil.rmtree(place.workspace)
    await terminal.destroy()
    assert daemons(place) == []


async def test_a_shell_whose_folder_vanished_starts_again_in_the_workspace(
    place: LocalPlace, shell: Shell
) -> None:
    await shell.says("mkdir sub; cd sub; kept=yes")
    (place.workspace / "sub").rmdir()
    os.kill(place.spine(), signal.SIGKILL)
    assert await shell.says("pwd; echo $kept") == f"{place.workspace}\nyes\n"


async def test_cancelling_twice_still_stops_the_command(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    command = shell.command("echo > begun; sleep 300; echo > after")
    running = asyncio.create_task(terminal.run(command))
    await until((place.workspace / "begun").exists)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await shell.says("echo next; ls") == "next\nbegun\n"
    assert (await terminal.follow(command.id)).state == "stopped"


def daemons(place: LocalPlace) -> list[int]:
    """Pids of all that hold this spool open as daemons."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"keep" in words and str(place.spool).encode() in words:
            found.append(int(folder.name))
    return found


async def test_a_runtime_that_died_while_it_made_the_spool_does_not_leave_doubt(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    """Nothing can have run before the spool was whole."""
    place.spool.mkdir()
    (place.spool / "boot.4711").touch()
    assert await terminal.recover(ShellCommand("a-1", "echo hi")) == "not-run"


async def test_a_claim_that_is_just_being_written_is_waited_for(
    place: LocalPlace, terminal: LocalTerminal
) -> None:
    spool = Spool(place.spool)
    spool.prepare()
    spool.file("a-1", "s").touch()
    stat = Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()

    def fill() -> None:
        spool.file("a-1", "s").write_text(f"{time.time()} fg {os.getpid()} {stat[19]}\n")

    threading.Timer(0.01, fill).start()
    claim = spool.claim("a-1")
    assert claim is not None
    assert claim.held


async def test_a_late_line_for_a_command_that_was_forgotten_runs_nothing(
    place: LocalPlace, terminal: LocalTerminal, shell: Shell
) -> None:
    """Two runtimes may hand one id in; the second line may be read after all is over."""
    await terminal.run(ShellCommand("a-1", "echo once >> ran"))
    await terminal.forget("a-1")
    with (place.spool / "in").open("w") as fifo:
        fifo.write("run a-1\n")
    assert await shell.says("cat ran") == "once\n"
