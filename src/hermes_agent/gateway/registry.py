"""Finds channels: folders with a `manifest.yaml`, built in or under `channels/` in the home.

A manifest is data and is read without importing the channel. The code of a channel in the home is
loaded only if the settings name it and only the owner of the home could have written it.
"""

import importlib
import importlib.util
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.installation.extras import install_hint, is_missing, needs
from hermes_agent.gateway.channel import Channel, ChannelContext, Manifest, SettingField, Settings

log = logging.getLogger("hermes.gateway")

BUILT_IN = Path(__file__).parent / "channels"
FOLDER = "channels"
DATA = "manifest.yaml"
MODULE = "channel.py"
PACKAGE = "hermes_home_channels"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_KEYS = frozenset(Manifest.__struct_fields__) - {"name", "module", "folder"}


class ChannelRegistry:
    """`more` are manifests besides those in the folders."""

    def __init__(
        self, more: Mapping[str, Manifest] | None = None, home: Path | None = None
    ) -> None:
        self._more = dict(more or {})
        self._home = home
        self._read: dict[str, Manifest] | None = None

    def manifests(self) -> Mapping[str, Manifest]:
        if self._read is None:
            self._read = {**self._custom(), **_built_in(), **self._more}
        return self._read

    def _custom(self) -> Mapping[str, Manifest]:
        """The valid manifests of the home."""
        found: dict[str, Manifest] = {}
        for path in sorted((self._home / FOLDER).glob(f"*/{DATA}")) if self._home else ():
            name = path.parent.name
            try:
                found[name] = _read(path, f"{PACKAGE}.{name}", str(path.parent))
            except HermesError as error:
                log.error("%s", error.message)
        return found

    def manifest(self, name: str) -> Manifest:
        """Reads manifests of the home again."""
        known = self.manifests()
        if name not in known or known[name].folder:
            built_in = {other: one for other, one in known.items() if not one.folder}
            known = self._read = {**self._custom(), **built_in}
        if name not in known:
            raise NotFound(f"no channel called {name!r}", f"available: {', '.join(sorted(known))}")
        return known[name]


def _built_in() -> dict[str, Manifest]:
    package = __name__.rpartition(".")[0]
    return {
        path.parent.name: _read(path, f"{package}.channels.{path.parent.name}.channel")
        for path in sorted(BUILT_IN.glob(f"*/{DATA}"))
    }


def _read(path: Path, module: str, folder: str = "") -> Manifest:
    import yaml

    name = path.parent.name
    try:
        given: Any = yaml.safe_load(path.read_text())
        if not _NAME.fullmatch(name) or not isinstance(given, dict) or set(given) - _KEYS:
            raise ValueError(f"unknown keys; known: {', '.join(sorted(_KEYS))}")
        fixed = {"name": name, "module": module, "folder": folder}
        return msgspec.convert({"title": name, "about": "", **given, **fixed}, Manifest)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise HermesError(f"{path} is not a channel manifest: {error}", "fix it") from None


def check(manifest: Manifest, given: Settings, secret: Callable[[str], str]) -> None:
    """Raises if a package, a setting or a secret of the channel is missing."""
    missing = [name for name in manifest.packages if is_missing(name)]
    if missing:
        raise UsageError(needs(manifest.title, missing), _install_hint(manifest))
    for field in manifest.fields:
        _check_field(manifest, field, given.get(field.name, ""), secret)


def _install_hint(manifest: Manifest) -> str:
    if manifest.folder:
        return f"see {manifest.folder}; packages it needs: {', '.join(manifest.packages)}"
    return install_hint(manifest.name)


def _check_field(
    manifest: Manifest, field: SettingField, value: Any, secret: Callable[[str], str]
) -> None:
    setting = f"channels.{manifest.name}.{field.name}"
    if value in ("", None):
        if field.required:
            raise UsageError(
                f"{setting} is not set: {field.about}", f"`hermes gateway setup {manifest.name}`"
            )
    elif field.secret:
        if not isinstance(value, str):
            raise UsageError(f"{setting} is not the name of a secret")
        secret(value)


def make(manifest: Manifest, given: Settings, context: ChannelContext) -> Channel:
    """The channel, with the defaults of the manifest for settings that are not given."""
    check(manifest, given, context.secret)
    defaults = {field.name: field.default for field in manifest.fields if field.default}
    made: Callable[[Settings, ChannelContext], Channel]
    try:
        module = _load(manifest) if manifest.folder else importlib.import_module(manifest.module)
        made = module.make
    except (ImportError, AttributeError) as error:
        raise HermesError(
            f"{manifest.title} cannot be loaded: {error}", _install_hint(manifest)
        ) from error
    return made({**defaults, **given}, context)


def _load(manifest: Manifest) -> ModuleType:
    """Loads the module of a channel in the home from the file, not from `sys.modules`."""
    folder = Path(manifest.folder)
    _check_owner(folder)
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{manifest.module}.")]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        manifest.module, folder / MODULE, submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise HermesError(f"{folder / MODULE} is not a module")
    made = sys.modules[manifest.module] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except Exception as error:
        del sys.modules[manifest.module]
        raise HermesError(
            f"{folder / MODULE} cannot be loaded: {type(error).__name__}: {error}", "fix it"
        ) from error
    return made


def _check_owner(folder: Path) -> None:
    """Whoever can change this code can do whatever Hermes can."""
    home = folder.parent.parent
    for path in (home, folder.parent, folder, *sorted(folder.rglob("*"))):
        about = path.stat() if path == home else path.lstat()
        if stat.S_ISLNK(about.st_mode):
            raise HermesError(f"{path} is a link and is not loaded", "put the file itself there")
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise HermesError(
                f"other users could have changed {path}; it is not loaded",
                f"read it, then `chown -R $(id -un) {folder}` and `chmod -R go-w {folder}`",
            )
