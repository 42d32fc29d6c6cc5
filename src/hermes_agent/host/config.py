"""Loads `Settings` from `config.yaml` and the environment, and edits the file."""

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.files import write_durably
from hermes_agent.core.messages import DEEPEST
from hermes_agent.core.settings.root import Price, Settings
from hermes_agent.core.settings.services import ServiceSettings
from hermes_agent.core.settings.terminals import LocalPlace, PlaceSettings
from hermes_agent.host.inspect import out_of_reach, refuse_agent

_FROM_ENVIRONMENT = {
    "HERMES_MODEL": ("model",),
    "HERMES_POLICY": ("policy",),
    "HERMES_TERMINAL": ("terminal", "default"),
}
_PLACE = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`$")
_FIELDS: dict[str, Any] = {"models.prices": Price, "models.services": ServiceSettings}
"""Settings by name that are themselves groups, in which one field can be set."""
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a group of settings",
    "null": "empty",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_MOST = 100_000
"""How many values the references of a file may expand to: few lines can stand for billions."""
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def load_settings(config: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of a home; the environment overrides the file."""
    values = read_config(config)
    for variable, name in _FROM_ENVIRONMENT.items():
        if environ.get(variable):
            _put(values, list(name), environ[variable])
    return _convert(values, config)


def read_config(config: Path) -> dict[str, Any]:
    try:
        text = config.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        trouble = f"cannot read {config}: {error}", "check the file and its permissions"
        raise HermesError(*(out_of_reach(config.parent) or trouble)) from None
    try:
        values = _parse(text)
    except ValueError as error:
        raise _not_yaml(config, error) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise HermesError(
            f"{config} is not a mapping of settings",
            f"each line must be `name: value`; fix {config}, or move it away to start afresh",
        )
    return _without_empty(values)


def _not_yaml(config: Path, error: ValueError) -> HermesError:
    place = ", " if str(error).startswith("line ") else ": "
    return HermesError(f"{config}{place}{error}", f"fix {config}, or move it away to start afresh")


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """A name without a value, such as a group whose lines are all commented out, is a default."""
    return {
        name: {inner: each for inner, each in value.items() if each is not None}
        if isinstance(value, dict)
        else value
        for name, value in values.items()
        if value is not None
    }


def _parse(text: str) -> Any:
    """Parse YAML; a `ValueError` names the line of the error."""
    import yaml  # at the leaf: most homes have no config.yaml, and this costs 15 ms

    safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # No setting is a date; what looks like one is a string.
    resolvers = {
        first: [one for one in known if one[0] != _TIMESTAMP]
        for first, known in safe.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (safe,), {"yaml_implicit_resolvers": resolvers})
    try:
        total, opened, sizes = 0, list[tuple[str | None, int]](), dict[str | None, int]()
        for event in yaml.parse(text, Loader=loader):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, total))
                if len(opened) > DEEPEST:  # the loader written in C would crash
                    raise ValueError("nested too deeply")
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = opened.pop()
                sizes[anchor] = total - before
            elif isinstance(event, yaml.AliasEvent):
                total += sizes.get(event.anchor, 0)
                if total > _MOST:
                    raise ValueError("its references expand to too many values")
        return yaml.load(text, Loader=loader)  # noqa: S506 - derived from the safe one
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f"line {where.line + 1}: " if where else ""
        raise ValueError(line + (getattr(error, "problem", None) or "not YAML")) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _convert(values: dict[str, Any], config: Path) -> Settings:
    _check_terminals(values.get("terminals"), config)
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        name, problem = _blame(error)
        raise HermesError(f"{config}: {problem}", f"change or remove {name} in {config}") from None


def _check_terminals(terminals: Any, config: Path) -> None:
    """One by one, so that the error names the terminal."""
    for name, place in terminals.items() if isinstance(terminals, dict) else ():
        try:
            chosen = msgspec.convert(place, PlaceSettings)
            wrong = (
                "" if name != "local" or chosen == LocalPlace() else "local is always this machine"
            )
        except msgspec.ValidationError as error:
            _, wrong = _blame(error)
        if wrong:
            kinds = ", ".join(kind.__struct_config__.tag for kind in get_args(PlaceSettings))
            raise HermesError(
                f"{config}: terminals.{name}: {wrong}",
                f"fix it, or choose another name; the kinds are {kinds}",
            )


def _blame(error: msgspec.ValidationError) -> tuple[str, str]:
    """The invalid setting, and what is wrong with it."""
    problem, place = _located(error)
    if unknown := re.match(r"Object contains unknown field `(.*)`", problem):
        name = f"{place}.{unknown[1]}" if place else unknown[1]
        return repr(name), f"no setting is called {name!r}"
    problem = _in_words(problem, _kind_of(place.split(".")))
    return repr(place), f"{place}: {problem}" if place else problem


def _located(error: msgspec.ValidationError) -> tuple[str, str]:
    """The message, and the dotted name of the setting; `NAME` stands for a name."""
    found = _PLACE.match(str(error))
    problem, place = found.groups() if found else (str(error), "")
    return problem, place.replace("[...]", ".NAME")


def _in_words(problem: str, kind: Any) -> str:
    """A message of msgspec without the names of types; `kind` is the type of the setting."""
    said = [meta for one in (kind, *get_args(kind)) for meta in getattr(one, "__metadata__", ())]
    if "matching regex" in problem and said:
        return f"must be {said[0].description}"
    if wanted := re.match(r"Expected `([^`]*)`(?: ([<>]=?) (\S+))?", problem):
        kinds = " or ".join(_KINDS.get(one, one) for one in wanted[1].split(" | "))
        bound = f", {_BOUNDS[wanted[2]]} {float(wanted[3]):g}" if wanted[2] else ""
        return f"must be {kinds}{bound}"
    if missing := re.match(r"Object missing required field `(.*)`", problem):
        return f"{missing[1]} is missing"
    if unknown := re.match(r"Object contains unknown field `(.*)`", problem):
        return f"it has no setting {unknown[1]!r}"
    literals = [one for one in (kind, *get_args(kind)) if get_origin(one) is Literal]
    if problem.startswith("Invalid enum value") and literals:
        choices = get_args(literals[0])
        named = ", ".join(one for one in choices if one)
        empty = "" in choices or literals[0] is not kind
        return f"must be one of: {named}{' (or empty)' if empty else ''}"
    return re.sub(r"^Invalid (?:enum )?value", "not a valid value:", problem)


def _kind_of(path: list[str]) -> Any:
    """The type of a setting; None if it is one of several."""
    kind: Any = Settings
    for step in path:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kind = {one.name: one.type for one in msgspec.structs.fields(kind)}.get(step)
        else:
            kind = next(reversed(get_args(kind)), None)
    return kind


def flatten(settings: Settings) -> dict[str, Any]:
    """All settings by their dotted names."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, msgspec.Struct):
            for field in value.__struct_fields__:
                walk(f"{prefix}.{field}" if prefix else field, getattr(value, field))
        else:
            flat[prefix] = msgspec.to_builtins(value)

    walk("", settings)
    return flat


def setting_path(name: str) -> list[str]:
    """The path to a setting. A model's name is one step, dots included, and may be quoted; so is
    everything below a channel's name."""
    known = flatten(Settings())
    for head, default in known.items():
        if isinstance(default, dict) and name.startswith(f"{head}."):
            model, last = name[len(head) + 1 :], []
            if head == "channels":
                return [head, *model.split(".", 1)]
            stem, _, field = model.rpartition(".")
            if stem and head in _FIELDS and field in _FIELDS[head].__struct_fields__:
                model, last = stem, [field]
            if len(model) > 1 and model[0] == model[-1] and model[0] in "'\"":
                model = model[1:-1]
            return [*head.split("."), model, *last]
    if name in known:
        return name.split(".")
    raise _unknown(name, known)


def get_setting(settings: Settings, name: str) -> Any:
    flat = flatten(settings)
    below = {key: value for key, value in flat.items() if key.startswith(f"{name}.")}
    if below:
        return below
    value = msgspec.to_builtins(settings)
    for step in setting_path(name):
        if not isinstance(value, dict) or step not in value:
            raise UsageError(f"{name} is not set", "`hermes config` lists what is")
        value = value[step]
    return value


def _unknown(name: str, known: Mapping[str, Any]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UsageError(f"no setting called {name!r}", f"{hint}`hermes config` lists them")


def set_setting(config: Path, name: str, text: str, check: Callable[[Settings], None]) -> Any:
    """Change one setting in the file, keeping comments and order, and return the new value. Nothing
    is written if `check` raises."""
    path = setting_path(name)
    try:
        value = _parse(text)
    except ValueError as error:
        raise UsageError(
            f"{name}: cannot parse {text!r}: {error}",
            "quote a string twice: \"'…'\"",
        ) from None
    before = read_config(config)
    changed = deepcopy(before)
    _put(changed, path, value)
    try:
        settings = msgspec.convert(changed, Settings)
    except msgspec.ValidationError as error:
        raise _refusal(config, name, path, before, error) from None
    check(settings)
    _rewrite(config, path, value)
    return value


def _refusal(
    config: Path, name: str, path: list[str], before: Any, error: msgspec.ValidationError
) -> HermesError:
    """Says whether the new value is wrong, or something that was in the file before."""
    try:
        msgspec.convert(before, Settings)
    except msgspec.ValidationError as earlier:
        wrong, problem = _blame(error)
        if str(earlier) == str(error) and wrong != repr(name):
            return HermesError(
                f"{config}: {problem}", f"change or remove {wrong} in {config} first"
            )
    problem, place = _located(error)
    problem = _in_words(problem, _kind_of(place.split(".")))
    if path[:2] == ["models", "prices"]:
        example = f"'models.prices.{path[2]}' '{{input: 1.25, output: 10}}'"
        return UsageError(f"{name}: {problem}", f"set the whole entry: hermes config set {example}")
    defaults = flatten(Settings())
    if name not in defaults:
        return UsageError(f"{name}: {problem}", "docs/reference/settings.md describes it")
    default = defaults[name]
    if isinstance(default, list | tuple):
        return UsageError(f"{name}: {problem}", f"write a list: hermes config set {name} '[a, b]'")
    shown = json.dumps(default) if default not in (None, "") else "empty"
    return UsageError(f"{name}: {problem}", f"the default is {shown}")


def _put(tree: Any, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        if not isinstance(tree.get(step), dict):
            tree[step] = {}
        tree = tree[step]
    tree[path[-1]] = value


def remove_setting(config: Path, name: str) -> None:
    """Remove one setting from the file, so that its default applies again."""
    path = setting_path(name)
    _rewrite(config, path, None, _take)


def _take(tree: Any, path: list[str], _value: None) -> None:
    for step in path[:-1]:
        tree = tree[step]
    del tree[path[-1]]


def _rewrite(
    config: Path, path: list[str], value: Any, change: Callable[[Any, list[str], Any], None] = _put
) -> None:
    refuse_agent("change settings of Hermes")
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    handler = YAML()
    text = config.read_text(encoding="utf-8") if config.exists() else ""
    try:
        tree = handler.load(text) or handler.map()
    except (YAMLError, ValueError) as error:
        raise HermesError(
            f"cannot edit {config} without losing something: "
            f"{getattr(error, 'problem', None) or error}",
            f"change {'.'.join(path)} in {config} by hand",
        ) from None
    change(tree, path, value)
    out = StringIO()
    handler.dump(tree, out)
    config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(config, out.getvalue().encode())
