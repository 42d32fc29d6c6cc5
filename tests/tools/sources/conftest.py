import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.calls import caller
from tests.support.sources import Observer
from tests.support.systemd import Machine, journal_daemon
from tests.support.terminals import FarPlace
from tests.support.transports import SubprocessTransport


@pytest.fixture
async def observer(tmp_path: Path) -> AsyncIterator[Observer]:
    async with caller(tmp_path) as here:
        yield Observer(here)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with journal_daemon() as made:
        yield made


@pytest.fixture
async def there(observer: Observer, machine: Machine, tmp_path: Path) -> AsyncIterator[Observer]:
    """A session on a machine with a journal, by the engine of far terminals."""
    for name in ("far", "far/work", "far/home"):
        (tmp_path / name).mkdir()
    environment = {**os.environ, "HOME": str(tmp_path / "far/home")}
    place = FarPlace(
        lambda: SubprocessTransport(environment, prefix=machine.enter),
        str(tmp_path / "far/work"), tmp_path / "far",
    )  # fmt: skip
    observer.terminal = place.open()
    yield observer
    await place.destroy()
