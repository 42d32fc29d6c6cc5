"""A house for each test, and one for the tests of a module that only look."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "house")
    yield made
    made.close()


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house in which something has been said."""
    made = House(tmp_path_factory.mktemp("lived") / "house")
    made.ask("please write a file", "--name", "papers")
    made.ask("good morning, zebra")
    yield made
    made.close()


@pytest.fixture(scope="module")
def home_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("shared") / "house")
    yield made
    made.close()


@pytest.fixture
def shared(home_of_module: House, tmp_path: Path) -> House:
    """A workspace of its own in a home, and with a runtime, that the module's tests share."""
    return home_of_module.beside(tmp_path / "beside")
