"""Each test runs on every channel, or on those whose platform can make its trouble. `make test`
runs each test on one cheap channel and a few on every channel; the rest are slow."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.platforms import NAMES
from tests.support.platforms.world import World, world

CHEAPEST = ("telegram", "ntfy", "slack", "discord", "webhook", "matrix", "email")
EVERYWHERE = {
    "test_what_a_person_writes_arrives_as_it_was_written",
    "test_what_the_agent_says_is_shown_with_its_markup_rendered",
    "test_what_was_said_while_we_were_away_arrives_once",
    "test_a_channel_that_is_connected_but_deaf_is_found_out",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == Path(__file__).parent:
            channels = tests.setdefault(item.originalname, {})
            channels.setdefault(item.callspec.params["name"], []).append(item)
    for test, channels in tests.items():
        cheapest = min(channels, key=CHEAPEST.index)
        for name, cases in channels.items():
            for item in cases if name != cheapest and test not in EVERYWHERE else ():
                item.add_marker(pytest.mark.slow)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def here(name: str, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(world(name, tmp_path))
