from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.calls import Caller, caller


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Caller]:
    async with caller(tmp_path) as made:
        yield made
