"""What the runtime's own tests get, these get too."""

from tests.conftest import (  # noqa: F401
    characters,
    clean_environment,
    pytest_asyncio_loop_factories,
    pytest_collection_modifyitems,
    pytest_configure,
    stable_prefixes,
)
