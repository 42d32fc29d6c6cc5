"""The home as commands use it without a runtime: its folder, settings and models."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.core.errors import HermesError
from hermes_agent.host.paths import find_home

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.models.registry import ModelRegistry


def home_folder() -> Path:
    return Path(find_home(os.environ))


def home_and_settings() -> tuple[Path, "Settings"]:
    from hermes_agent.host.config import load_settings

    home = home_folder()
    return home, load_settings(home / "config.yaml", os.environ)


def write_setting(
    name: str, value: str, check: "Callable[[Settings], None]" = lambda _settings: None
) -> object:
    """Set one setting in config.yaml, as YAML text; its value."""
    from hermes_agent.host.config import set_setting

    config = home_folder() / "config.yaml"
    try:
        return set_setting(config, name, value, check)
    except OSError as error:
        raise HermesError(f"cannot write {config}: {error.strerror}", "`hermes doctor`") from None


def open_models(home: Path, settings: "Settings") -> "ModelRegistry":
    from hermes_agent.models.registry import ModelRegistry
    from hermes_agent.policy.secrets import Secrets

    return ModelRegistry(settings.models, Secrets(os.environ, home).beside(os.environ), home)
