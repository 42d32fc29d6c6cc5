"""Stores with made-up events, full disks and damaged files."""

import pytest


@pytest.fixture(autouse=True)
def stable_prefixes() -> None:
    """Events made up for the store are no real conversation; there is nothing to compare."""
