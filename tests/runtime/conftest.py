"""Runtimes for these tests, started quickly."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import Case, Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def one(tmp_path: Path, nursery: Nursery) -> Iterator[Case]:
    """A home on which no runtime has been started yet."""
    made = Case(tmp_path, nursery, 1)
    yield made
    made.close()
