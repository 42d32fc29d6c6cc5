"""How a sandbox is made, found again, lost and removed."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_agent.terminals.sandbox import mounts, sandbox
from hermes_agent.terminals.sandbox.launch import LIBRARY
from tests.support.sandboxes import Box, Kind, marked, without_bubblewrap
from tests.support.terminals import lives, until

BOTH: tuple[Kind, ...] = ("bubblewrap", "landlock")


@pytest.fixture(params=BOTH)
async def either(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Box]:
    made = Box(tmp_path, request.param)
    yield made
    await made.transport.destroy()


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    made = Box(tmp_path)
    yield made
    await made.transport.destroy()


async def test_whoever_comes_at_the_same_time_gets_the_same_sandbox(either: Box) -> None:
    transports = [either.open() for _ in range(4)]
    await asyncio.gather(*(transport.ready() for transport in transports))
    await asyncio.gather(*(t.call(["bash", "-c", "echo $PPID >> seen"]) for t in transports))
    assert len(set((either.workspace / "seen").read_text().split())) == 1


async def test_a_sandbox_that_dies_is_reported_and_made_again_with_its_files(either: Box) -> None:
    await either.transport.ready()
    await either.runs("echo kept > ~/note; echo kept > note; echo kept > $(dirname $(mktemp))/note")
    channel = await either.transport.start(["cat"])
    assert channel is not None
    hanging = asyncio.create_task(either.runs("echo > begun; sleep 599"))
    await until((either.workspace / "begun").exists)
    os.kill(either.door(), signal.SIGKILL)
    with pytest.raises(ConnectionError):
        await hanging
    assert await channel.read() == b""
    with pytest.raises(ConnectionError):
        await either.runs("true")
    await either.transport.ready()
    said = await either.runs("cat ~/note note $(dirname $(mktemp))/note")
    assert said.stdout == b"kept\n" * 3


async def test_the_door_of_a_sandbox_cannot_be_reached_from_inside(box: Box) -> None:
    await box.transport.ready()
    assert (await box.runs(f"ls -A {box.folder}")).stdout == b"home\n"
    door = box.door()
    done = await box.runs(
        f"kill -9 1; kill -STOP 1; cat /proc/1/environ /proc/1/mem; echo x > /proc/1/mem;"
        f" rm -rf {box.folder}; readlink /proc/1/exe; cat < /proc/1/fd/4"
    )
    assert (done.code, done.stdout) == (1, b"")
    assert box.door() == door
    assert (await box.runs("echo hi")).stdout == b"hi\n"


HOST = """
import asyncio, pathlib, sys
from tests.support.sandboxes import Box

async def main():
    box = Box(pathlib.Path(sys.argv[1]), sys.argv[2])
    await box.transport.ready()
    text = "cat; while sleep 0.02; do echo >> on; done"
    channel = await box.transport.start(["bash", "-c", text])
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_sandbox_outlives_its_host_and_is_found_again(either: Box) -> None:
    kind = "landlock" if "programs" in either.environ["PATH"] else "bubblewrap"
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(either.person.parent), kind, stdout=subprocess.PIPE
    )
    assert host.stdout is not None
    assert await host.stdout.readline() == b"ready\n"
    door = either.door()
    host.kill()
    await host.wait()
    await either.transport.ready()
    assert either.door() == door
    await until((either.workspace / "on").exists)
    before = (await either.runs("wc -l < on")).stdout

    async def goes_on() -> bool:
        return (await either.runs("wc -l < on")).stdout != before

    await until(goes_on)
    assert lives(door)


STARTING = """
import asyncio, pathlib, sys
from tests.support.sandboxes import Box

box = Box(pathlib.Path(sys.argv[1]))
box.environ["PATH"] = sys.argv[2]
asyncio.run(box.transport.ready())
"""
SLOW = """#!/bin/bash
if [[ $1 == --args ]]; then
  echo >> {folder}/begun
  until [[ -e {folder}/go ]]; do sleep 0.01; done
fi
exec {bwrap} "$@"
"""
"""A bubblewrap that waits before it makes a sandbox."""


async def test_a_sandbox_whose_host_is_killed_while_it_starts_is_found_again(box: Box) -> None:
    slow = box.person.parent / "slow"
    slow.mkdir()
    (slow / "bwrap").write_text(SLOW.format(folder=slow, bwrap=shutil.which("bwrap")))
    (slow / "bwrap").chmod(0o755)
    box.environ["PATH"] = f"{slow}:{box.environ['PATH']}"
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTING, str(box.person.parent), box.environ["PATH"]
    )
    await until((slow / "begun").exists)
    host.kill()
    await host.wait()
    (slow / "go").touch()
    await box.transport.ready()
    assert (await box.runs("echo hi")).stdout == b"hi\n"
    assert (slow / "begun").read_text() == "\n", "made again, though one was there"


async def test_a_sandbox_rests_when_nothing_runs_in_it_and_wakes_with_its_files(
    either: Box,
) -> None:
    await either.transport.ready()
    await either.runs("echo kept > ~/note; sleep 596 > /dev/null 2>&1 & echo $! > pid")
    busy = either.door()
    await either.transport.rest()
    assert lives(busy)
    await either.runs("kill $(cat pid)")
    await until(lambda: _rests(either, busy))
    await either.transport.ready()
    assert (await either.runs("cat ~/note")).stdout == b"kept\n"
    assert either.door() != busy


async def _rests(box: Box, door: int) -> bool:
    await box.transport.rest()
    return not lives(door)


async def test_nothing_is_left_of_a_destroyed_sandbox(either: Box) -> None:
    await either.transport.ready()
    mark = f"597.{os.getpid()}"
    await either.runs(f"setsid sleep {mark} >/dev/null 2>&1 & (sleep {mark} &) >/dev/null 2>&1")
    await either.runs("mkdir -p ~/locked/in; touch ~/locked/in/file; chmod -w ~/locked/in ~/locked")
    await until(lambda: len(marked(mark)) >= 2)
    groups = [Path(line) for line in (either.folder / "groups").read_text().splitlines()]
    door = either.door()
    await either.transport.destroy()
    assert marked(mark) == []
    assert not lives(door)
    assert list(either.folder.iterdir()) == []
    assert [group for group in groups if group.exists()] == []


async def test_changed_settings_take_effect_on_a_sandbox_that_is_there(box: Box) -> None:
    await box.transport.ready()
    first = box.door()
    same, other = box.open(), box.open(SandboxPlace(network=True))
    await same.ready()
    assert box.door() == first
    await other.ready()
    assert box.door() != first
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = await other.call(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"])
        assert (done.code, done.stderr) == (0, b"")


async def test_a_folder_with_a_long_name_is_no_hindrance(tmp_path: Path) -> None:
    deep = tmp_path / ("long" * 20) / ("name" * 20)
    deep.mkdir(parents=True)
    box = Box(deep)
    await box.transport.ready()
    assert (await box.runs("echo hi")).stdout == b"hi\n"
    await box.transport.destroy()


async def test_words_longer_than_a_socket_takes_at_once_arrive(box: Box) -> None:
    await box.transport.ready()
    words = ["x" * 100_000] * 8
    done = await box.transport.call(["bash", "-c", 'printf %s "$@"', "name", *words])
    assert done.stdout == b"x" * 800_000


@pytest.mark.parametrize("path", ["/", "/usr", "/home", "~", "~/.."])
async def test_a_sandbox_that_could_write_to_everything_is_refused(box: Box, path: str) -> None:
    box.workspace = mounts.expand(path, box.environ)
    with pytest.raises(HermesError, match="could write to all of"):
        await box.open().ready()
    assert "could write to all of" in await sandbox.check(SandboxPlace(write=(path,)), box.environ)


async def test_a_missing_workspace_is_told(box: Box) -> None:
    box.workspace = box.person / "nowhere"
    with pytest.raises(HermesError, match="no folder at"):
        await box.open().ready()


async def test_a_machine_that_can_confine_is_told_apart(box: Box, tmp_path: Path) -> None:
    assert await sandbox.check(None, box.environ) == ""
    assert await sandbox.check(SandboxPlace(), box.environ) == ""
    weaker = {"PATH": str(without_bubblewrap(tmp_path / "programs"))}
    assert await sandbox.check(None, weaker) == ""
    assert "bash is not installed" in await sandbox.check(None, {"PATH": str(tmp_path)})


WITHOUT_LANDLOCK = """
import asyncio, errno, pathlib, sys
import pyseccomp
from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.sandbox import sandbox
from tests.support.sandboxes import Box

async def main():
    box = Box(pathlib.Path(sys.argv[1]), "landlock")
    print(await sandbox.check(None, box.environ))
    try:
        await box.transport.ready()
    except HermesError as error:
        print(error.hint)

filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
filter.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "landlock_create_ruleset")
filter.load()
asyncio.run(main())
"""


def test_nothing_is_run_where_nothing_can_confine_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_LANDLOCK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    first, hint = done.stdout.splitlines()
    assert first.startswith("commands cannot be confined here: bubblewrap is not installed; ")
    assert "no Landlock" in first
    assert hint.startswith("install bubblewrap")


def test_the_table_leaves_a_home_out_but_for_the_workspace_and_programs(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for name in (".pyenv/shims", ".pyenv/versions", "bin", ".local/bin", ".local/share/keyrings"):
        (box.person / name).mkdir(parents=True)
    path = [box.person / name for name in (".pyenv/shims", "bin", ".local/bin")]
    environ = box.environ | {"PATH": os.pathsep.join(map(str, path))}
    folder = box.folder.resolve()
    made = mounts.rules(SandboxPlace(), str(box.workspace), folder, environ, LIBRARY)

    def sight(name: str) -> str:
        return mounts.sight_of(made, (box.person / name).resolve())

    hidden = (".", ".ssh/id_ed25519", ".hermes/state.db", ".hermes/terminals/two", ".local/share")
    assert {sight(name) for name in hidden} == {"hide"}
    assert {sight(name) for name in (".pyenv/versions", "bin", ".local/bin")} == {"read"}
    assert sight("work/file") == sight(".hermes/terminals/one/sandbox/home/.cache") == "write"
    assert made[Path("/run")] == made[Path("/home")] == made[Path("/var")] == "hide"
