"""Which channels there are: folders with a manifest, read without importing what they need."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.gateway import custom_channels
from hermes_agent.gateway.channel import Channel, ChannelContext, Manifest, SettingField, Settings

FOLDER = "hermes_agent.gateway.channels"


class ChannelRegistry:
    """`more` are manifests besides those in the folder and in that of the home."""

    def __init__(
        self, more: Mapping[str, Manifest] | None = None, home: Path | None = None
    ) -> None:
        self._more = dict(more or {})
        self._home = home
        self._read: dict[str, Manifest] | None = None

    def manifests(self) -> Mapping[str, Manifest]:
        if self._read is None:
            folder = importlib.import_module(FOLDER)
            found = [_manifest(one.name) for one in pkgutil.iter_modules(folder.__path__, "")]
            named = {manifest.name: manifest for manifest in found if manifest is not None}
            self._read = {**self._own(), **named, **self._more}
        return self._read

    def _own(self) -> Mapping[str, Manifest]:
        if self._home is None or not (self._home / custom_channels.FOLDER).is_dir():
            return {}
        return custom_channels.manifests(self._home)

    def manifest(self, name: str) -> Manifest:
        """As it stands there now."""
        if self._read is not None and (name not in self._read or self._read[name].folder):
            ours = {known: one for known, one in self._read.items() if not one.folder}
            self._read = {**self._own(), **ours}
        try:
            return self.manifests()[name]
        except KeyError:
            known = ", ".join(sorted(self.manifests()))
            raise NotFound(f"there is no channel called {name!r}", f"there are: {known}") from None


def _manifest(folder: str) -> Manifest | None:
    """None for what is no channel but belongs to several."""
    name = f"{FOLDER}.{folder}.manifest"
    try:
        if importlib.util.find_spec(name) is None:
            return None
    except ModuleNotFoundError:
        return None
    found = importlib.import_module(name).MANIFEST
    return found if isinstance(found, Manifest) else None


def check(manifest: Manifest, given: Settings, secret: Callable[[str], str]) -> None:
    """Raise what keeps a channel from being made: a package, a setting, a secret."""
    missing = [name for name in manifest.packages if _is_missing(name)]
    if missing:
        raise UsageError(f"{manifest.title} needs {', '.join(missing)}", _install(manifest))
    for field in manifest.fields:
        _check_field(manifest, field, given.get(field.name, ""), secret)


def _install(manifest: Manifest) -> str:
    if manifest.folder:
        return f"look into {manifest.folder}; packages it needs: {', '.join(manifest.packages)}"
    return f"pip install 'hermes-agent[{manifest.extra or manifest.name}]'"


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


def _is_missing(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except ModuleNotFoundError:
        return True


def make(manifest: Manifest, given: Settings, surroundings: ChannelContext) -> Channel:
    """The channel, with its settings filled up by what the manifest has for them."""
    check(manifest, given, surroundings.secret)
    defaults = {field.name: field.default for field in manifest.fields if field.default}
    made: Callable[[Settings, ChannelContext], Channel]
    try:
        module = (
            custom_channels.load(manifest) if manifest.folder
            else importlib.import_module(manifest.module)
        )  # fmt: skip
        made = module.make
    except (ImportError, AttributeError) as error:
        raise HermesError(
            f"{manifest.title} cannot be loaded: {error}", _install(manifest)
        ) from error
    return made({**defaults, **given}, surroundings)
