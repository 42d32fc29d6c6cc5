"""One browser and one site for each module of tests: a start costs half a second."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.pages import Session, Site, session, site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Site]:
    async with site() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    async with session(tmp_path_factory.mktemp("browser")) as made:
        yield made
