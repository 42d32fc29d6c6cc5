"""Ways to sandboxes at Modal, E2B and Daytona, each over its fake on this machine."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from hermes_agent.core.settings.terminals import DaytonaPlace, E2bPlace, ModalPlace
from hermes_agent.terminals.hosted import daytona, e2b, modal
from hermes_agent.terminals.transport import Transport
from tests.support.fake_boxes import Service
from tests.support.fake_daytona import FakeDaytona
from tests.support.fake_e2b import FakeE2b
from tests.support.fake_modal import FakeModal
from tests.support.terminals import FarPlace, Place
from tests.support.transports import Way

SESSION = "way"
NAME = "hermes-way"


@contextlib.asynccontextmanager
async def modal_way(folder: Path) -> AsyncIterator[Way]:
    with FakeModal(folder / "disk") as fake:
        async with _way(fake, lambda: modal_transport(fake, folder / "notes")) as way:
            yield way


@contextlib.asynccontextmanager
async def e2b_way(folder: Path) -> AsyncIterator[Way]:
    with FakeE2b(folder / "disk") as fake:
        async with _way(fake, lambda: e2b_transport(fake, folder / "notes")) as way:
            yield way


@contextlib.asynccontextmanager
async def daytona_way(folder: Path) -> AsyncIterator[Way]:
    with FakeDaytona(folder / "disk") as fake:
        async with _way(fake, lambda: daytona_transport(fake, folder / "notes"), False) as way:
            yield way


def hosted_place(
    way: Callable[[Path], AbstractAsyncContextManager[Way]],
) -> Callable[[Path], AbstractAsyncContextManager[Place]]:
    """The engine of far machines at the end of such a way."""

    @contextlib.asynccontextmanager
    async def make(folder: Path) -> AsyncIterator[Place]:
        async with way(folder) as found:
            yield FarPlace(found.again, found.folder, folder, lasting=False)

    return make


def modal_transport(fake: FakeModal, notes: Path, network: bool = False) -> Transport:
    place = ModalPlace(workspace=fake.workspace(NAME), network=network)
    return modal.transport(place, session=SESSION, workspace="", folder=notes, environ=fake.environ)


def e2b_transport(fake: FakeE2b, notes: Path, network: bool = False) -> Transport:
    place = E2bPlace(workspace=fake.workspace(NAME), network=network)
    return e2b.transport(place, session=SESSION, workspace="", folder=notes, environ=fake.environ)


def daytona_transport(fake: FakeDaytona, notes: Path, network: bool = False) -> Transport:
    place = DaytonaPlace(workspace=fake.workspace(NAME), network=network)
    return daytona.transport(
        place, session=SESSION, workspace="", folder=notes, environ=fake.environ
    )


@contextlib.asynccontextmanager
async def _way(
    fake: Service[Any], make: Callable[[], Transport], channels: bool = True
) -> AsyncIterator[Way]:
    made: list[Transport] = []

    def again() -> Transport:
        made.append(make())
        return made[-1]

    yield Way(again(), again, fake.workspace(NAME), channels)
    for transport in made:
        await transport.close()
