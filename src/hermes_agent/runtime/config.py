"""`config.yaml` and the environment become `Settings`."""

import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.settings import Settings

_FROM_ENVIRONMENT = {"HERMES_MODEL": "model", "HERMES_POLICY": "policy"}


def load_settings(config: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of a home, the environment having the last word."""
    values = read_config(config)
    for variable, name in _FROM_ENVIRONMENT.items():
        if environ.get(variable):
            values[name] = environ[variable]
    return _convert(values, str(config))


def read_config(config: Path) -> dict[str, Any]:
    try:
        text = config.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise HermesError(
            f"cannot read {config}: {error}", "check the file and its permissions"
        ) from None
    values = _parse(text, str(config))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise HermesError(
            f"{config} is not a list of settings", "each line is `name: value`; see docs/reference"
        )
    return values


def _parse(text: str, source: str) -> Any:
    import yaml  # at the leaf: most homes have no config.yaml, and this costs 15 ms

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise HermesError(
            f"{source}{line}: {problem}", "mend the file, or move it away to start afresh"
        ) from None


def _convert(values: dict[str, Any], source: str) -> Settings:
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        raise HermesError(
            f"{source}: {error}", "`hermes config` lists every setting with its value"
        ) from None


def flatten(settings: Settings) -> dict[str, Any]:
    """Every setting by its dotted name."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, msgspec.Struct):
            for field in value.__struct_fields__:
                walk(f"{prefix}.{field}" if prefix else field, getattr(value, field))
        else:
            flat[prefix] = msgspec.to_builtins(value)

    walk("", settings)
    return flat


def get_setting(settings: Settings, name: str) -> Any:
    flat = flatten(settings)
    if name in flat:
        return flat[name]
    below = {key: value for key, value in flat.items() if key.startswith(f"{name}.")}
    if below:
        return below
    raise _unknown(name, flat)


def _unknown(name: str, known: Mapping[str, Any]) -> NotFound:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return NotFound(f"no setting called {name!r}", f"{hint}`hermes config` lists them")


def set_setting(config: Path, name: str, text: str) -> Any:
    """Change one setting in the file, comments and order kept. Returns the new value."""
    known = flatten(Settings())
    head = name.rsplit(".", 1)[0]
    if name not in known and head not in known:
        raise _unknown(name, known)
    value = _parse(text, name)
    changed = read_config(config)
    _put(changed, name.split("."), value)
    try:
        msgspec.convert(changed, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{name}: {str(error).split(' - at')[0]}", f"the default is {known.get(name)!r}"
        ) from None
    _rewrite(config, name.split("."), value)
    return value


def _put(tree: Any, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        if not isinstance(tree.get(step), dict):
            tree[step] = {}
        tree = tree[step]
    tree[path[-1]] = value


def _rewrite(config: Path, path: list[str], value: Any) -> None:
    from ruamel.yaml import YAML

    handler = YAML()
    text = config.read_text(encoding="utf-8") if config.exists() else ""
    tree = handler.load(text) or handler.map()
    _put(tree, path, value)
    out = StringIO()
    handler.dump(tree, out)
    config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = config.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(out.getvalue())
        file.flush()
        os.fsync(file.fileno())
    beside.replace(config)
