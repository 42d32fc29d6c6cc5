"""What a command costs in a persistent shell elsewhere, beside the same round trip on a bare
channel to a bash there. The servers are those of the tests."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bench.table import Figure, scaled
from hermes_agent.terminals.transport import Transport
from tests.support.dockerd import docker_place, docker_way
from tests.support.sandboxes import sandbox_place, sandbox_way
from tests.support.sshd import ssh_place, ssh_way
from tests.support.terminals import Place, Shell
from tests.support.transports import Way

COMMANDS = scaled(200, 5)
Ways = Callable[[Path], AbstractAsyncContextManager[Way]]
Places = Callable[[Path], AbstractAsyncContextManager[Place]]
MEASURED: dict[str, tuple[Ways, Places]] = {
    "SSH": (ssh_way, ssh_place),
    "dockerd": (docker_way, docker_place),
    "the sandbox": (sandbox_way, sandbox_place),
}


def figures() -> Iterator[Figure]:
    for name, (way, place) in MEASURED.items():
        with tempfile.TemporaryDirectory() as folder:
            bare, kept = asyncio.run(_measured(Path(folder), way, place))
        yield Figure(
            f"a command over {name} less the bare round trip, median",
            (kept - bare) * 1000, "ms", bare * 1000, "ms bare", 5.0, "ms",
        )  # fmt: skip


async def _measured(folder: Path, ways: Ways, places: Places) -> tuple[float, float]:
    (folder / "way").mkdir()
    (folder / "place").mkdir()
    async with ways(folder / "way") as way:
        await way.transport.ready()
        bare = await _bare(way.transport)
    async with places(folder / "place") as place:
        shell = Shell(place.open())
        await shell("true")
        taken = []
        for _ in range(COMMANDS):
            began = time.perf_counter()
            await shell("true")
            taken.append(time.perf_counter() - began)
        await place.destroy()
    return bare, statistics.median(taken)


async def _bare(transport: Transport) -> float:
    channel = await transport.start(["bash", "--noprofile", "--norc"])
    assert channel is not None
    taken = []
    for number in range(COMMANDS):
        began = time.perf_counter()
        await channel.write(b"true; echo %d\n" % number)
        said = b""
        while not said.endswith(b"\n"):
            said += await channel.read()
        taken.append(time.perf_counter() - began)
    await channel.close()
    return statistics.median(taken)
