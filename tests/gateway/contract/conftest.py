"""Each test runs on every channel; `on` lends one by name to tests of a trouble that not every
platform can make."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.platforms import NAMES
from tests.support.platforms.world import World, world


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def here(name: str, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(world(name, tmp_path))
