from collections.abc import AsyncIterator

import pytest

from tests.support.calls import Caller
from tests.support.web_server import Site, Surfer


@pytest.fixture
async def surfer(here: Caller) -> AsyncIterator[Surfer]:
    async with Site() as site:
        yield Surfer(here, site)
