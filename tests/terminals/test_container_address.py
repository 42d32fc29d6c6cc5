"""Finding the engine, and saying why there is none."""

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.terminals import ContainerPlace
from hermes_agent.terminals.container import transport as container
from hermes_agent.terminals.container.address import locate, parse
from hermes_agent.terminals.container.spec import ContainerSpec, owner
from hermes_agent.terminals.transport import Transport
from tests.support.dockerd import docker_engine
from tests.support.images import IMAGE


@contextlib.contextmanager
def listening(path: Path) -> Iterator[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()
        yield f"unix://{path}"


def test_the_settings_come_before_the_environment(tmp_path: Path) -> None:
    with listening(tmp_path / "a") as first, listening(tmp_path / "b") as second:
        assert locate(first, {"DOCKER_HOST": second}).url == first
        assert locate("", {"DOCKER_HOST": second}).url == second


def test_an_engine_that_is_named_and_silent_is_not_replaced_by_another(tmp_path: Path) -> None:
    silent = pytest.raises(HermesError, match="no container engine answers")
    with listening(tmp_path / "docker.sock"), silent as raised:
        locate(f"unix://{tmp_path}/gone", {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert "start Docker" in raised.value.hint


def test_a_user_who_may_not_use_the_socket_is_told_how(tmp_path: Path) -> None:
    """Another user asks; this process may be root, to whom nothing is forbidden."""
    closed = tmp_path / "closed"
    with listening(closed / "docker.sock") as url:
        closed.chmod(0)
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(OSError):
                os.setuid(65534)
            try:
                locate(url, {})
            except HermesError as error:
                code = 0 if "may not access" in error.message and "group" in error.hint else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        closed.chmod(0o700)


@pytest.mark.parametrize("url", ["ssh://host", "docker.sock", "unix://", "npipe:////./pipe/x"])
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        parse(url, {})


@pytest.mark.parametrize(
    ("environ", "port", "folder"),
    [
        ({}, 2375, None),
        ({"DOCKER_CERT_PATH": "/c"}, 2376, Path("/c")),
        ({"DOCKER_TLS_VERIFY": "1", "HOME": "/h"}, 2376, Path("/h/.docker")),
    ],
)
def test_certificates_make_the_port_the_safe_one(
    environ: dict[str, str], port: int, folder: Path | None
) -> None:
    address = parse("tcp://host", environ)
    assert (address.host, address.port, address.certificates) == ("host", port, folder)
    assert not address.near


async def test_a_kind_without_an_engine_says_what_is_missing(tmp_path: Path) -> None:
    said = await container.check(None, {"DOCKER_HOST": f"unix://{tmp_path}/none"})
    assert said.startswith("no container engine answers at unix://")
    assert "systemctl start docker" in said


async def test_something_that_is_no_engine_is_not_taken_for_one(tmp_path: Path) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    path = tmp_path / "s"
    async with await asyncio.start_unix_server(rude, path):
        said = await container.check(None, {"DOCKER_HOST": f"unix://{path}"})
    assert said.startswith("the container engine does not answer")


@pytest.mark.parametrize("workspace", ["work", "", "/", "/x/.."])
def test_a_workspace_that_is_no_folder_of_its_own_is_refused(workspace: str) -> None:
    with pytest.raises(UsageError, match="workspace"):
        ContainerSpec(ContainerPlace(IMAGE, workspace=workspace), "s", "/")


def test_names_tell_sessions_and_settings_apart_and_suit_the_engine() -> None:
    place, other = ContainerPlace(IMAGE), ContainerPlace(IMAGE, network="host")
    names = {
        ContainerSpec(place, "a/b ü", "/").name,
        ContainerSpec(other, "a/b ü", "/").name,
        ContainerSpec(place, "c", "/").name,
    }
    assert len(names) == 3
    assert all(name.replace("-", "").isascii() and "/" not in name for name in names)
    assert ContainerSpec(place, "c", "/one").name == ContainerSpec(place, "c", "/two").name


PASSWD = b"root:x:0:0::/:/bin/sh\nann:x:7:8::/:/bin/sh\n# odd line\n"
GROUP = b"root:x:0:\nstaff:x:50:ann\n"


@pytest.mark.parametrize(
    ("user", "numbers"),
    [
        ("1000:1000", (1000, 1000)),
        ("1000", (1000, 0)),
        ("7", (7, 8)),
        ("ann", (7, 8)),
        ("ann:staff", (7, 50)),
        ("ann:9", (7, 9)),
    ],
)
def test_a_user_is_understood_as_the_engine_does(user: str, numbers: tuple[int, int]) -> None:
    assert owner(user, PASSWD, GROUP) == numbers


@pytest.mark.parametrize("user", ["bob", "ann:nobody", ""])
def test_an_unknown_user_or_group_is_refused(user: str) -> None:
    with pytest.raises(HermesError, match="the image has no"):
        owner(user, PASSWD, GROUP)


def certificates(folder: Path) -> None:
    """A certificate that is its own authority, for server and client alike."""
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", folder / "key.pem", "-out", folder / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())


@contextlib.asynccontextmanager
async def forwarded(context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The engine by another address, as one on another machine would be."""
    path = docker_engine().removeprefix("unix://")
    serving: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        inward, outward = await asyncio.open_unix_connection(path)
        await asyncio.gather(carry(reader, outward), carry(inward, writer))

    async with await asyncio.start_server(serve, "localhost", 0, ssl=context) as server:
        yield f"tcp://localhost:{server.sockets[0].getsockname()[1]}"
    await asyncio.gather(*serving)


def opened(place: ContainerPlace, folder: Path, environ: Mapping[str, str]) -> Transport:
    return container.transport(
        place, session=uuid.uuid4().hex, workspace=str(folder), folder=folder, environ=environ
    )


async def test_an_engine_behind_tls_is_used_like_a_near_one(tmp_path: Path) -> None:
    certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    async with forwarded(context) as url:
        environ = {"DOCKER_CERT_PATH": str(tmp_path)}
        transport = opened(ContainerPlace(IMAGE, url), tmp_path, environ)
        await transport.ready()
        data = bytes(range(256)) * 4_000
        assert (await transport.call(["cat"], data)).stdout == data
        await transport.destroy()


async def test_a_far_engine_does_not_mount_a_folder_of_this_machine(tmp_path: Path) -> None:
    async with forwarded() as url:
        transport = opened(ContainerPlace(IMAGE, url, mount=True), tmp_path, {})
        with pytest.raises(UsageError, match="an engine on another machine cannot mount"):
            await transport.ready()
        await transport.close()
