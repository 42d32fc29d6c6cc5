"""Channels of the home: folders in `channels/`, each with a manifest, which is data, and a module.
The module is loaded when the settings name the channel, and only if nobody but the owner of the
home could have written it."""

import importlib.util
import logging
import os
import re
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError
from hermes_agent.gateway.channel import Manifest

log = logging.getLogger("hermes.gateway")

FOLDER = "channels"
DATA = "manifest.yaml"
MODULE = "channel.py"
PACKAGE = "hermes_home_channels"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_GIVEN = frozenset(Manifest.__struct_fields__) - {"name", "module", "folder", "extra"}


def manifests(home: Path) -> Mapping[str, Manifest]:
    """Those that can be read; no code of theirs is."""
    found: dict[str, Manifest] = {}
    for path in sorted((home / FOLDER).glob(f"*/{DATA}")):
        try:
            found[path.parent.name] = _read(path)
        except HermesError as error:
            log.error("%s", error.message)
    return found


def _read(path: Path) -> Manifest:
    import yaml  # at the leaf: most homes have no channels of their own

    name = path.parent.name
    try:
        given: Any = yaml.safe_load(path.read_text())
        if not _NAME.fullmatch(name) or not isinstance(given, dict) or set(given) - _GIVEN:
            raise ValueError(f"it says what no manifest says; it may say {', '.join(_GIVEN)}")
        more = {"name": name, "module": f"{PACKAGE}.{name}", "folder": str(path.parent)}
        return msgspec.convert({"title": name, "about": "", **given, **more}, Manifest)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise HermesError(f"{path} is no manifest of a channel: {error}", "mend it") from None


def load(manifest: Manifest) -> ModuleType:
    """Its module, read afresh."""
    folder = Path(manifest.folder)
    _check(folder)
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{manifest.module}.")]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        manifest.module, folder / MODULE, submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise HermesError(f"{folder / MODULE} is no module")
    made = sys.modules[manifest.module] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except Exception as error:
        del sys.modules[manifest.module]
        raise HermesError(
            f"{folder / MODULE} cannot be loaded: {type(error).__name__}: {error}", "mend it"
        ) from error
    return made


def _check(folder: Path) -> None:
    """Whoever could change what is loaded could do all that Hermes can."""
    home = folder.parent.parent
    for path in (home, folder.parent, folder, *sorted(folder.rglob("*"))):
        about = path.stat() if path == home else path.lstat()
        if stat.S_ISLNK(about.st_mode):
            raise HermesError(f"{path} is a link, and is not loaded", "put the file itself there")
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise HermesError(
                f"others could have written {path}, and it is not loaded",
                f"read it, then `chown -R $(id -un) {folder}` and `chmod -R go-w {folder}`",
            )
