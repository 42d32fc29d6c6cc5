"""The way by SSH: who is trusted, what is said when it cannot be gone, and what a cut leaves."""

import asyncio
import contextlib
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.core.settings.terminals import SshPlace
from hermes_agent.terminals.registry import open_terminal
from hermes_agent.terminals.ssh import CONNECT_SECONDS, SshTransport, check
from tests.support.awake_loop import pass_time
from tests.support.sshd import Sshd, shared, ssh_far_place
from tests.support.terminals import Shell, until

RUNTIME = """
import asyncio, sys
from pathlib import Path
import msgspec
from hermes_agent.core.settings.terminals import SshPlace
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.registry import open_terminal

async def main(place, folder, text):
    terminal = open_terminal(
        msgspec.json.decode(place, type=SshPlace), session="doomed", workspace="",
        folder=Path(folder), settings=TerminalSettings(), environ={},
    )
    await terminal.run(ShellCommand("doomed-1", text, 60))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def server() -> Sshd:
    return shared()


@pytest.fixture
def own_server() -> Iterator[Sshd]:
    """One that may be stopped."""
    made = Sshd()
    yield made
    made.remove()


def test_the_servers_user_is_none_of_this_machines(server: Sshd) -> None:
    homes = {entry.pw_dir for entry in pwd.getpwall()}
    assert str(server.home) not in homes
    assert (server.home.stat().st_uid == os.getuid()) == (os.getuid() != 0)


def start_runtime(place: SshPlace, folder: Path, text: str) -> subprocess.Popen[bytes]:
    given = [msgspec.json.encode(place), folder, text]
    return subprocess.Popen([sys.executable, "-c", RUNTIME, *given])


async def refused(place: SshPlace) -> HermesError:
    with pytest.raises(HermesError) as caught:
        await SshTransport(place, {}).ready()
    return caught.value


async def test_a_host_whose_key_is_unknown_is_refused_with_the_way_to_add_it(
    server: Sshd, tmp_path: Path
) -> None:
    for known in (tmp_path / "none", tmp_path / "empty"):
        error = await refused(replace(server.place(), known_hosts=str(known)))
        assert "unknown or has changed" in error.message
        assert f"ssh-keyscan -p {server.port}" in error.hint
        (tmp_path / "empty").touch()


async def test_a_host_whose_key_has_changed_is_refused(server: Sshd, tmp_path: Path) -> None:
    other = server.key.with_suffix(".pub").read_text().split()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
    error = await refused(replace(server.place(), known_hosts=str(tmp_path / "known")))
    assert "unknown or has changed" in error.message


async def test_a_config_that_turns_the_check_off_is_refused(server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host *\n  UserKnownHostsFile none\n")
    place = replace(server.place(), known_hosts="", config=str(tmp_path / "config"))
    assert "turns off host key checks" in (await refused(place)).message


async def test_a_key_that_is_not_let_in_is_said(server: Sshd, tmp_path: Path) -> None:
    key = tmp_path / "key"
    await asyncio.to_thread(
        subprocess.run, ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True
    )
    error = await refused(replace(server.place(), key=str(key)))
    assert f"refuses {server.user!r}" in error.message
    assert "ssh-add" in error.hint


async def test_a_key_with_a_passphrase_is_said(server: Sshd, tmp_path: Path) -> None:
    key = tmp_path / "key"
    await asyncio.to_thread(
        subprocess.run, ["ssh-keygen", "-q", "-t", "ed25519", "-N", "word", "-f", key], check=True
    )
    assert "ssh-add" in (await refused(replace(server.place(), key=str(key)))).hint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"port": 1}, "cannot be reached"),
        ({"host": "no-such-host.invalid"}, "cannot be reached"),
        ({"key": "/no/such/key"}, "no key at"),
        ({"config": "/no/such/config"}, "no SSH config at"),
    ],
)
async def test_what_is_wrong_is_a_sentence(
    server: Sshd, fields: dict[str, object], message: str
) -> None:
    assert message in (await refused(replace(server.place(), **fields))).message


@contextlib.asynccontextmanager
async def before(server: Sshd, meet: Callable[[], Awaitable[None]]) -> AsyncIterator[SshPlace]:
    """The server behind somebody whom everybody meets first."""
    serving: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await meet()
        inward, outward = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(carry(reader, outward), carry(inward, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        known = server.known_hosts.with_name(f"known_hosts.{port}")
        known.write_text(server.known_hosts.read_text().replace(f":{server.port} ", f":{port} "))
        yield replace(server.place(), port=port, known_hosts=str(known))
    await asyncio.gather(*serving)


async def test_a_machine_that_takes_a_connection_and_says_nothing_is_given_up(
    server: Sshd,
) -> None:
    met = asyncio.Event()

    async def meet() -> None:
        met.set()
        await pass_time(CONNECT_SECONDS + 1)

    async with before(server, meet) as place:
        assert "cannot be reached: no answer" in (await refused(place)).message
    assert met.is_set()


async def test_hosts_and_jumps_of_the_ssh_config_are_used(server: Sshd, tmp_path: Path) -> None:
    common = (
        f"  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
        f"  IdentityFile {server.key}\n  UserKnownHostsFile {server.known_hosts}\n"
    )
    config = tmp_path / "config"
    config.write_text(f"Host jump\n{common}\nHost far\n{common}  ProxyJump jump\n")
    way = SshTransport(SshPlace(host="far", config=str(config)), {})
    await way.ready()
    try:
        assert (await way.call(["echo", "hi"])).stdout == b"hi\n"
        assert (await way.call(["bash", "-c", "kill -TERM $$"])).code == 128 + signal.SIGTERM
    finally:
        await way.close()


async def test_whether_a_machine_can_be_used_is_said_in_a_sentence(server: Sshd) -> None:
    assert await check(None, {}) == ""
    assert await check(server.place(), {}) == ""
    assert "cannot be reached" in await check(replace(server.place(), port=1), {})


async def test_the_workspace_may_be_the_home_over_there(server: Sshd, tmp_path: Path) -> None:
    terminal = open_terminal(
        server.place(), session="home", workspace="/here", folder=tmp_path,
        settings=TerminalSettings(), environ={},
    )  # fmt: skip
    try:
        assert await Shell(terminal).says("pwd") == f"{server.home}\n"
        assert terminal.workspace == str(server.home)
        assert await terminal.resolve("~/x") == f"{server.home}/x"
    finally:
        await terminal.destroy()


async def test_a_command_outlives_a_server_that_is_restarted(
    own_server: Sshd, tmp_path: Path
) -> None:
    place = ssh_far_place(own_server, tmp_path)
    terminal = place.open()
    work = Path(place.workspace)
    told: list[str] = []
    text = "echo line >> log; echo > begun; until [ -e go ]; do sleep 0.02; done; echo over $$"
    running = asyncio.create_task(terminal.run(ShellCommand("a-1", text, 60), told.append))
    await until((work / "begun").exists)
    await asyncio.to_thread(own_server.stop)
    await until(lambda: any("the connection was lost" in text for text in told))
    await asyncio.to_thread(own_server.start)
    (work / "go").touch()
    state = await running
    assert state.stdout == f"over {await Shell(terminal).says('echo $$')}"
    assert (work / "log").read_text() == "line\n"
    await place.destroy()


async def test_a_command_is_found_again_when_the_runtime_was_killed(
    server: Sshd, tmp_path: Path
) -> None:
    work = server.folder()
    place = server.place(str(work))
    text = "echo line >> log; echo > begun; until [ -e go ]; do sleep 0.02; done; echo over"
    runtime = start_runtime(place, tmp_path, text)
    await until((work / "begun").exists)
    runtime.kill()
    runtime.wait()
    terminal = open_terminal(
        place, session="doomed", workspace="", folder=tmp_path, settings=TerminalSettings(),
        environ={},
    )  # fmt: skip
    found = asyncio.create_task(terminal.recover(ShellCommand("doomed-1", text, 60)))
    (work / "go").touch()
    state = await found
    assert not isinstance(state, str)
    assert state is not None
    assert (state.state, state.stdout) == ("exited", "over\n")
    assert (work / "log").read_text() == "line\n"
    await terminal.destroy()
