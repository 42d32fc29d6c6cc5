"""A Hermes home for each test, and one for the tests of a module that only look."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Hermes


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[Hermes]:
    made = Hermes(tmp_path / "hermes")
    yield made
    made.close()


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    """A Hermes home in which something has been said."""
    made = Hermes(tmp_path_factory.mktemp("lived") / "hermes")
    made.ask("please write a file", "--name", "papers")
    made.ask("good morning, zebra")
    yield made
    made.close()


@pytest.fixture(scope="module")
def home_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    made = Hermes(tmp_path_factory.mktemp("shared") / "hermes")
    yield made
    made.close()


@pytest.fixture
def shared(home_of_module: Hermes, tmp_path: Path) -> Hermes:
    """A workspace of its own in a home, and with a runtime, that the module's tests share."""
    return home_of_module.beside(tmp_path / "beside")
