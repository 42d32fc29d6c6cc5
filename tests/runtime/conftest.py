"""Runtimes for these tests, started quickly."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import Case, ForkServer


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


@pytest.fixture
def one(tmp_path: Path, fork_server: ForkServer) -> Iterator[Case]:
    """A home on which no runtime has been started yet."""
    made = Case(tmp_path, fork_server, 1)
    yield made
    made.close()
