"""The models of a home, opened."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.models.registry import ModelRegistry


def home_and_settings() -> tuple[Path, "Settings"]:
    from hermes_agent.host.config import load_settings
    from hermes_agent.host.paths import find_home

    home = Path(find_home(os.environ))
    return home, load_settings(home / "config.yaml", os.environ)


def open_models(home: Path, settings: "Settings") -> "ModelRegistry":
    from hermes_agent.models.registry import ModelRegistry
    from hermes_agent.policy.secrets import Secrets

    return ModelRegistry(settings.models, Secrets(os.environ, home).beside(os.environ), home)
