import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from tests.support.awake_loop import FACTORIES
from tests.support.calls import Caller, caller


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tools have limits for those whom they ask; that all stand still is no fault of theirs."""
    return FACTORIES


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Caller]:
    async with caller(tmp_path) as made:
        yield made
