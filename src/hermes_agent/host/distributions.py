"""Parts of Hermes that are distributions of their own, and may not be installed."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from hermes_agent.core.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.core.installation.extras import OptionalPart


def distributions() -> "dict[str, OptionalPart]":
    """The parts by their package."""
    from hermes_agent.core.installation.extras import PARTS  # every command imports this module

    return {part.packages[0]: part for part in PARTS.values() if part.folder}


class NotInstalled(HermesError):
    def __init__(self, package: str) -> None:
        from hermes_agent.core.installation.extras import install_hint

        part = distributions()[package]
        super().__init__(f"{part.distribution} is not installed", install_hint(part.name))


def load(module: str) -> ModuleType:
    """Import a module that another distribution may have."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in distributions():
            raise
        raise NotInstalled(error.name) from None
