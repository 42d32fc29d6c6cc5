"""Parts of Hermes that are distributions of their own, and may not be installed."""

from importlib import import_module
from types import ModuleType

from hermes_agent.core.errors import HermesError

DISTRIBUTIONS = {
    "hermes_drift": ("hermes-runtime-drift", "drift"),
    "hermes_drills": ("hermes-drills", "drills"),
}
"""By package: the distribution's name, and its folder in a checkout."""


class NotInstalled(HermesError):
    def __init__(self, package: str) -> None:
        name, folder = DISTRIBUTIONS[package]
        hint = f"in a checkout of Hermes: pip install ./{folder} && hermes restart"
        super().__init__(f"{name} is not installed", hint)


def load(module: str) -> ModuleType:
    """Import a module that another distribution may have."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in DISTRIBUTIONS:
            raise
        raise NotInstalled(error.name) from None
