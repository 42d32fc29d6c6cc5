"""What a command costs in a persistent shell elsewhere, beside the same round trip on a bare
channel to a bash there, and what it costs to confine one here. The servers are those of the
tests."""

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bench.table import Figure, scaled
from hermes_agent.core.effects import Confinement, OutsideCall, OutsideCalls
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.terminals.transport import Transport
from tests.support.dockerd import docker_place, docker_way
from tests.support.sandboxes import sandbox_place, sandbox_way
from tests.support.sshd import ssh_place, ssh_way
from tests.support.terminals import LocalPlace, Place, Shell
from tests.support.transports import Way

COMMANDS = scaled(200, 5)
OPENINGS = scaled(15, 1)
Ways = Callable[[Path], AbstractAsyncContextManager[Way]]
Places = Callable[[Path], AbstractAsyncContextManager[Place]]
MEASURED: dict[str, tuple[Ways, Places]] = {
    "SSH": (ssh_way, ssh_place),
    "dockerd": (docker_way, docker_place),
    "the sandbox": (sandbox_way, sandbox_place),
}


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_confined(Path(folder)))
    for name, (way, place) in MEASURED.items():
        with tempfile.TemporaryDirectory() as folder:
            bare, kept = asyncio.run(_measured(Path(folder), way, place))
        yield Figure(
            f"a command over {name} less the bare round trip, median",
            (kept - bare) * 1000, "ms", bare * 1000, "ms bare", 5.0, "ms",
        )  # fmt: skip


async def _confined(folder: Path) -> list[Figure]:
    place, number = LocalPlace(folder), itertools.count()
    place.spool = folder / "home" / "terminals" / "session" / "local"
    terminal = place.open()

    async def judge(_command: str, _folder: str) -> OutsideCall:
        return OutsideCall()

    outside = OutsideCalls(frozenset({"getent"}), judge)

    async def taken(text: str, confinement: Confinement) -> float:
        command = ShellCommand(f"c{next(number)}", text, 60, False, {}, confinement, outside)
        began = time.perf_counter()
        await terminal.run(command)
        return time.perf_counter() - began

    async def usual(text: str, confinement: Confinement) -> float:
        return statistics.median([await taken(text, confinement) for _ in range(COMMANDS)])

    await taken("true", "none")
    first = await taken("true", "read-only")
    openings = []
    for place_number in range(OPENINGS):
        await terminal.destroy()
        place.spool = folder / "home" / "terminals" / f"session-{place_number}" / "local"
        terminal = place.open()
        await taken("true", "none")
        openings.append(await taken("true", "read-only"))
    opening = statistics.median(openings)
    plain, look = await usual("true", "none"), await usual("true", "read-only")
    bare, called = (
        await usual("getent passwd root", "none"),
        await usual("getent passwd root", "read-only"),
    )
    await terminal.destroy()
    return [
        Figure(
            "a confined command over an unconfined one, median",
            (look - plain) * 1000, "ms", plain * 1000, "ms unconfined", 3.0, "ms",
        ),
        Figure(
            f"opening a confined shell, median of {OPENINGS}",
            (opening - look) * 1000, "ms", (first - look) * 1000, "ms the first of a runtime",
            40.0, "ms",
        ),
        Figure(
            "calling a program out of the view, median",
            (called - bare) * 1000, "ms", bare * 1000, "ms unconfined",
        ),
    ]  # fmt: skip


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
