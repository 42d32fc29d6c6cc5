import asyncio
from collections.abc import Callable, Mapping

from tests.support.awake_loop import FACTORIES


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Questions and turns have their time; tests let it pass."""
    return FACTORIES
