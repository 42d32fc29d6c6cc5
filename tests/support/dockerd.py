"""A real Docker engine on a socket of its own, started when a test first wants it."""

import contextlib
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path

import docker

from hermes_agent.core.settings.terminals import ContainerPlace
from hermes_agent.terminals.container import transport as container
from hermes_agent.terminals.transport import Transport
from tests.support.daemons import (
    begin,
    check_root,
    folder_of,
    hold,
    in_user_namespace,
    stop,
    wait_for,
)
from tests.support.images import IMAGE, program, small_root
from tests.support.terminals import FarPlace, Place
from tests.support.transports import Way

NAME = "dockerd"
SOCKET = "docker.sock"
OWN_FOLDERS = 'for folder in /run /etc/docker; do mount -t tmpfs own "$folder"; done; exec "$@"'
"""It writes there, wherever its data lies: a user namespace forbids it, and it would be left."""


@cache
def docker_engine() -> str:
    """Its address. It has the small image, and no network but `none` and `host`."""
    folder = folder_of(NAME)
    hold(NAME, command(folder), folder / SOCKET)
    return provided(f"unix://{folder / SOCKET}")


def command(folder: Path) -> list[str]:
    check_root("dockerd")
    program("dockerd", "docker.io")
    rootless = ["--rootless"] if in_user_namespace() else []
    return [
        "env", f"XDG_RUNTIME_DIR={folder}", "sh", "-euc", OWN_FOLDERS, "sh",
        "docker-init", "-s", "--", "dockerd", *rootless, "-H", f"unix://{folder / SOCKET}",
        "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
        "-p", f"{folder}/docker.pid", "--bridge=none", "--iptables=false", "--ip6tables=false",
        "--ip-forward=false", "--ip-masq=false",
    ]  # fmt: skip


class PrivateDocker:
    """An engine of one test's own, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._daemon: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder / SOCKET}"

    def start(self) -> None:
        self._daemon = begin(self._folder, command(self._folder))
        wait_for(self._folder, self._folder / SOCKET)
        provided(self.url)

    def stop(self) -> None:
        if self._daemon is not None:
            stop(self._daemon)
            self._daemon = None


@contextlib.contextmanager
def private_docker() -> Iterator[PrivateDocker]:
    # A test's own folder has too long a name for a socket.
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        engine = PrivateDocker(Path(folder))
        try:
            engine.start()
            yield engine
        finally:
            engine.stop()


def provided(url: str) -> str:
    """See that the engine has the image; importing it twice does no harm."""
    with asked(url) as client:
        if not client.images.list(IMAGE):
            repository, _, tag = IMAGE.rpartition(":")
            client.api.import_image_from_data(
                small_root(), repository=repository, tag=tag, changes=["ENV PATH=/bin:/usr/bin"]
            )
    return url


@contextlib.contextmanager
def asked(url: str) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=url, version="auto")
    try:
        yield client
    finally:
        client.close()


@contextlib.asynccontextmanager
async def container_way(folder: Path, engine: Callable[[], str]) -> AsyncIterator[Way]:
    """A container of a session of its own."""
    place = ContainerPlace(IMAGE, engine())
    session = uuid.uuid4().hex
    made: list[Transport] = []

    def again() -> Transport:
        made.append(
            container.transport(
                place, session=session, workspace=str(folder), folder=folder, environ={}
            )
        )
        return made[-1]

    yield Way(again(), again, place.workspace)
    for transport in made:
        await transport.destroy()


@contextlib.asynccontextmanager
async def container_place(folder: Path, engine: Callable[[], str]) -> AsyncIterator[Place]:
    """A terminal in such a container."""
    async with container_way(folder, engine) as way:
        yield FarPlace(way.again, way.folder, folder, lasting=False)


def docker_way(folder: Path) -> contextlib.AbstractAsyncContextManager[Way]:
    return container_way(folder, docker_engine)


def docker_place(folder: Path) -> contextlib.AbstractAsyncContextManager[Place]:
    return container_place(folder, docker_engine)
