"""Commands that only look on a far machine: its kernel holds them to it where it can."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.terminals.remote.terminal import RemoteTerminal
from hermes_agent.terminals.sandbox import seccomp
from tests.support.sshd import Sshd, shared, ssh_far_place
from tests.support.terminals import FarPlace, lives, until
from tests.support.transports import SubprocessTransport

NEEDED = (
    "bash", "env", "cat", "mkdir", "mkfifo", "chmod", "mv", "rm", "uname", "wc", "sync", "stat",
    "readlink", "base64", "find", "timeout", "head", "tail", "grep", "sort", "getent", "sleep",
    "setsid", "ps", "bwrap",
)  # fmt: skip


class Looker:
    """Runs texts in the view, and others as the user there."""

    def __init__(self, place: FarPlace) -> None:
        self.place = place
        self.work = Path(place.workspace)
        self.terminal: RemoteTerminal = place.open()
        self._number = 0

    async def look(self, text: str, **more: object) -> CommandState:
        return await self._run(text, confinement="read-only", **more)

    async def build(self, text: str, **more: object) -> CommandState:
        return await self._run(text, confinement="workspace", **more)

    async def act(self, text: str) -> CommandState:
        return await self._run(text)

    async def _run(self, text: str, **more: object) -> CommandState:
        self._number += 1
        return await self.terminal.run(ShellCommand(f"run-{self._number}", text, **more))  # type: ignore[arg-type]


@pytest.fixture
def server() -> Sshd:
    return shared()


@pytest_asyncio.fixture
async def looker(server: Sshd, tmp_path: Path) -> AsyncIterator[Looker]:
    made = Looker(ssh_far_place(server, tmp_path))
    yield made
    await made.place.destroy()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What a machine has that has neither Python nor anything that is not needed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        (folder / name).symlink_to(shutil.which(name) or "")
    return folder


@pytest_asyncio.fixture
async def plain(programs: Path, tmp_path: Path) -> AsyncIterator[Looker]:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    environment = {"HOME": str(tmp_path / "home"), "PATH": str(programs)}
    place = FarPlace(
        lambda: SubprocessTransport(environment), str(tmp_path / "work"), tmp_path / "notes"
    )
    made = Looker(place)
    yield made
    await place.destroy()


@pytest.fixture
def ours() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.fixture
def outside(server: Sshd) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the user there."""
    user = server.home.stat().st_uid
    with subprocess.Popen(["sleep", "1000"], env={"TOKEN": "secret"}, user=user) as process:
        yield process
        process.kill()


async def test_nothing_can_be_written_there_but_scratch(looker: Looker, server: Sshd) -> None:
    assert await looker.terminal.unconfined() == ""
    (looker.work / "kept").write_text("as it was")
    tried = await looker.look(
        "echo new > made; rm kept; mv kept away; chmod 777 kept; mkfifo pipe; echo x > ~/made;"
        "echo x > $HERMES_SPOOL/now; echo y > $TMPDIR/note && cat $TMPDIR/note"
    )
    assert tried.stdout == "y\n"
    assert "Read-only file system" in tried.stderr
    assert [path.name for path in looker.work.iterdir()] == ["kept"]
    assert not (server.home / "made").exists()


async def test_no_process_there_is_reached_though_all_are_seen(
    looker: Looker, outside: subprocess.Popen[bytes]
) -> None:
    pid = outside.pid
    tried = await looker.look(
        f"kill -9 {pid}; kill -TERM -- -1; kill -0 {pid} || echo deaf; cat /proc/{pid}/environ;"
        f"ps -o args= -p {pid}"
    )
    assert (tried.code, tried.stdout) == (0, "deaf\nsleep 1000\n")
    assert outside.poll() is None
    assert "secret" not in tried.stdout + tried.stderr


async def test_no_socket_there_leads_anywhere(looker: Looker) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        tried = await looker.look(f"echo x > /dev/tcp/127.0.0.1/{listener.getsockname()[1]}")
        assert "Operation not permitted" in tried.stderr
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_secrets_and_our_own_files_are_not_there(looker: Looker, server: Sshd) -> None:
    secrets = {
        looker.work / ".env": "KEY=secret", looker.work / "sub/[x].pem": "PRIVATE KEY secret",
        server.home / ".ssh/id_ed25519": "secret", server.home / ".aws/credentials": "secret",
        server.home / ".cache/hermes/another/1.o": "secret",
    }  # fmt: skip
    for path, text in secrets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
        server.own(path)
        server.own(path.parent)
    (looker.work / "ca.pem").write_text("a certificate")
    tried = await looker.look(
        f"cat {' '.join(map(str, secrets))}; ls -A ~/.cache/hermes/another; cat ca.pem;"
        "ls -A $HERMES_SPOOL/private"
    )
    assert tried.stdout == "a certificate"
    assert "secret" not in tried.stderr


async def test_the_folder_and_variables_carry_over_both_ways(looker: Looker) -> None:
    await looker.act("mkdir sub; shared=before")
    looked = await looker.look("echo $shared; cd sub; shared='a  b'")
    assert looked.stdout == "before\n"
    acted = await looker.act('echo "$shared"; pwd; touch made')
    assert acted.stdout == f"a  b\n{looker.work}/sub\n"
    assert (looker.work / "sub" / "made").exists()


async def test_what_a_look_leaves_running_ends_with_it(looker: Looker) -> None:
    left = await looker.look("(setsid sleep 1000 & echo $!); sleep 1000 & echo $!; exit 3")
    assert left.code == 3
    assert not any(lives(int(word)) for word in left.stdout.split())


async def test_a_look_in_the_background_is_held_as_well(looker: Looker) -> None:
    begun = await looker.look("touch made; echo looked; sleep 1000", background=True)

    async def looked() -> bool:
        return "looked" in (await looker.terminal.follow(begun.id)).stdout

    await until(looked)
    ended = await looker.terminal.stop(begun.id)
    assert ended.state == "stopped"
    assert "Read-only file system" in ended.stderr
    assert list(looker.work.iterdir()) == []


async def test_a_build_there_can_write_the_workspace_and_nothing_else(
    looker: Looker, server: Sshd
) -> None:
    work, elsewhere = looker.work, server.folder()
    (work / "link").symlink_to(elsewhere)
    (work / ".env").write_text("KEY=secret")
    (work / ".env").chmod(0o644)
    tried = await looker.build(
        f"echo new > made; mkdir sub; rm -r sub; echo x > {elsewhere}/made; echo x > link/made;"
        f"mv made {elsewhere}/; echo x > ~/made; echo x > $HERMES_SPOOL/now; cat .env; ls /run;"
        "echo y > $TMPDIR/note && cat $TMPDIR/note; cat made"
    )
    assert tried.stdout == "y\nnew\n"
    assert tried.stderr.count("Read-only file system") == 5
    assert "secret" not in tried.stderr
    assert [*elsewhere.iterdir()] == []
    assert not (server.home / "made").exists()
    assert (work / "made").stat().st_uid == server.home.stat().st_uid


async def test_a_build_there_reaches_hosts_but_no_service_and_no_process(
    looker: Looker, server: Sshd, outside: subprocess.Popen[bytes]
) -> None:
    with socket.socket() as inet, socket.socket(socket.AF_UNIX) as unix:
        inet.bind(("127.0.0.1", 0))
        unix.bind(str(server.folder() / "door"))
        for listener in (inet, unix):
            listener.listen()
            listener.setblocking(False)
        tried = await looker.build(
            f"echo x > /dev/tcp/127.0.0.1/{inet.getsockname()[1]}; kill -9 {outside.pid};"
            f"python3 -c 'import socket; socket.socket(1).connect(\"{unix.getsockname()}\")'"
        )
        inet.accept()[0].close()
        with pytest.raises(BlockingIOError):
            unix.accept()
    assert tried.stderr.count("Operation not permitted") == 2
    assert outside.poll() is None


async def test_the_repository_there_is_held_however_it_comes_to_be_there(looker: Looker) -> None:
    made = await looker.build("git init -q; ls -d .git")
    assert made.stdout == ".git\n"
    assert "the repository that this made was moved to" in made.stderr
    assert not (looker.work / ".git").exists()
    await looker.act("git init -q")
    held = "echo x > .git/hooks/made || echo held"
    assert (await looker.build(held)).stdout == "held\n"
    await looker.act("mv .git real; ln -s real .git")
    assert (await looker.build(held)).stdout == "held\n"
    await looker.act("rm .git; git init -q --separate-git-dir=inner.git")
    held = held.replace(".git", "inner.git")
    assert (await looker.build(held)).stdout == "held\n"


async def test_programs_of_a_build_there_share_memory(looker: Looker) -> None:
    code = "import multiprocessing; print(multiprocessing.Pool(2).map(abs, [-1]))"
    made = await looker.build(f"python3 -c '{code}'; echo x > /dev/shm/made; echo x > /dev/made")
    assert made.stdout == "[1]\n"
    assert not Path("/dev/shm/made").exists()
    assert "/dev/made: Read-only file system" in made.stderr


async def test_a_build_there_shares_its_folder_and_variables(looker: Looker) -> None:
    await looker.act("mkdir sub; first=1; helper() { echo helped; }")
    await looker.look("second=$first.2; cd sub")
    built = await looker.build("helper; echo $first $second; basename $PWD; third=3")
    assert built.stdout == "helped\n1 1.2\nsub\n"
    assert (await looker.look("echo $third; cd ..")).stdout == "3\n"
    assert (await looker.build("cd sub; exit 4")).code == 4
    assert (await looker.act("echo $second $third; basename $PWD")).stdout == "1.2 3\nsub\n"


async def test_a_build_there_in_the_background_is_held_as_well(
    looker: Looker, server: Sshd
) -> None:
    begun = await looker.build("touch made ~/made; echo built; sleep 1000", background=True)

    async def built() -> bool:
        return "built" in (await looker.terminal.follow(begun.id)).stdout

    await until(built)
    ended = await looker.terminal.stop(begun.id)
    assert ended.state == "stopped"
    assert "Read-only file system" in ended.stderr
    assert (looker.work / "made").exists()
    assert not (server.home / "made").exists()


async def test_a_whole_home_as_the_workspace_is_not_called_confined(
    server: Sshd, tmp_path: Path
) -> None:
    place = ssh_far_place(server, tmp_path)
    place.workspace = "~"
    made = Looker(place)
    try:
        assert await made.terminal.unconfined() == ""
        why = await made.terminal.unconfined("workspace")
        assert why == "the workspace holds a whole home"
        with pytest.raises(HermesError, match=f"it should run confined, but {why}"):
            await made.build("touch made")
    finally:
        await place.destroy()


async def test_a_new_connection_tries_again_and_finds_the_look(looker: Looker) -> None:
    first = await looker.look("echo once; touch made")
    again = looker.place.open()
    repeated = ShellCommand(first.id, first.text, confinement="read-only")
    assert (await again.run(repeated)).stdout == "once\n"
    assert (await again.run(ShellCommand("other", "pwd", confinement="read-only"))).code == 0
    assert [state.id for state in await again.commands()] == []


async def test_without_python_there_is_a_view_whose_processes_have_their_own_numbers(
    plain: Looker, ours: subprocess.Popen[bytes]
) -> None:
    assert await plain.terminal.unconfined() == ""
    tried = await plain.look(
        f"touch made; kill -9 {ours.pid}; kill -TERM -- -1; ps -o args= -p {ours.pid};"
        "(setsid sleep 1234 &) ; sleep 1234 & kill $! && echo own"
    )
    assert tried.stdout == "sleep 1000\nown\n"
    assert ours.poll() is None
    assert list(plain.work.iterdir()) == []
    assert (await plain.act("ps -A -o args= | grep -c '^[s]leep 1234'")).stdout == "0\n"


OLD_KERNEL = """#!/bin/bash
case $* in
  *sys.executable*) echo "$0" ;;
  *missing*) echo "this kernel has no Landlock" ;;
  *) exec {} "$@" ;;
esac
"""


@pytest.mark.parametrize("python", ["", OLD_KERNEL])
async def test_without_landlock_a_build_is_held_too(
    plain: Looker, programs: Path, ours: subprocess.Popen[bytes], tmp_path: Path, python: str
) -> None:
    if python:
        (programs / "python3").write_text(python.format(sys.executable))
        (programs / "python3").chmod(0o755)
    assert await plain.terminal.unconfined() == ""
    assert await plain.terminal.unconfined("workspace") == ""
    tried = await plain.build(
        f"echo x > made; echo x > {tmp_path}/made; kill -9 {ours.pid}; kill -TERM -- -1;"
        "sleep 1234 & kill $! && echo own"
    )
    assert tried.stdout == "own\n"
    assert "Read-only file system" in tried.stderr
    assert ours.poll() is None
    assert [path.name for path in plain.work.iterdir()] == ["made"]


async def test_without_bubblewrap_what_should_be_confined_does_not_run(
    plain: Looker, programs: Path
) -> None:
    (programs / "bwrap").unlink()
    for kind, run in (("read-only", plain.look), ("workspace", plain.build)):
        assert await plain.terminal.unconfined(kind) == "bubblewrap is not installed there"  # type: ignore[arg-type]
        with pytest.raises(HermesError, match="it should run confined, but bubblewrap is not"):
            await run("touch made")
    assert (await plain.act("echo on; ls")).stdout == "on\n"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo bwrap: No permissions to create new namespace >&2; exit 1", "(No permissions to"),
        (
            'until [[ $1 == -- || $# == 0 ]]; do shift; done; shift; exec "$@"',
            "(files could be written)",
        ),
    ],
)
async def test_a_bubblewrap_that_does_not_confine_is_noticed(
    plain: Looker, programs: Path, script: str, why: str
) -> None:
    (programs / "bwrap").unlink()
    (programs / "bwrap").write_text(f"#!/bin/bash\n{script}\n")
    (programs / "bwrap").chmod(0o755)
    assert why in await plain.terminal.unconfined()
    assert why in await plain.terminal.unconfined("workspace")


async def test_a_view_for_the_workspace_that_does_not_hold_is_not_used(
    plain: Looker, programs: Path
) -> None:
    (plain.work / ".git").mkdir()
    real = (programs / "bwrap").readlink()
    (programs / "bwrap").unlink()
    (programs / "bwrap").write_text(
        "#!/bin/bash\n"
        "mapfile -d '' -t given <&7\n"
        'shift 2; set -- "${@/#--ro-bind/--bind}"\n'
        f'exec {real} "${{given[@]}}" "$@"\n'
    )
    (programs / "bwrap").chmod(0o755)
    assert await plain.terminal.unconfined() == ""
    assert "(the repository could be written)" in await plain.terminal.unconfined("workspace")


@pytest.mark.parametrize("signals", [True, False])
def test_the_filter_for_this_kind_of_machine_is_the_one_of_this_machine(signals: bool) -> None:
    here = seccomp.program(signals=signals)
    assert os.uname().machine in seccomp.MACHINES
    for machine in seccomp.MACHINES:
        made = seccomp.program(signals=signals, machine=machine)
        assert (made == here) == (machine == os.uname().machine)
