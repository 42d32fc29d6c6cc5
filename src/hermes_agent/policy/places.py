"""Where a path of an effect really leads, on the local file system."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.protocols import Effect
from hermes_agent.core.tools import Access


class Place(NamedTuple):
    """One path of an effect. Hard links and links changed later cannot be seen here."""

    access: Access
    given: str
    """As the model wrote it."""
    named: Path
    """Absolute, with links as they are."""
    real: Path
    """Absolute, with `..`, `~` and links followed."""


def places(effect: Effect) -> Iterator[Place]:
    for access, given in effect.paths:
        named = Path(effect.workspace) / Path(given).expanduser()
        yield Place(access, given, named, named.resolve())


def inside(folder: Path | str, place: Place) -> bool:
    return place.real.is_relative_to(Path(folder).resolve())
