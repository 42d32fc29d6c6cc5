from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.calls import caller
from tests.support.sources import Observer


@pytest.fixture
async def observer(tmp_path: Path) -> AsyncIterator[Observer]:
    async with caller(tmp_path) as here:
        yield Observer(here)
