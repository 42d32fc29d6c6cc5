"""Ways to break a machine: a module for each family, a class for each mechanism."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from hermes_drills.types import Fault

__all__ = ["FAULTS"]


def _all() -> Iterator[Fault]:
    for module in sorted(iter_modules(__path__), key=lambda one: one.name):
        if module.name != "common":
            yield from import_module(f"{__name__}.{module.name}").FAULTS


FAULTS: tuple[Fault, ...] = tuple(_all())
