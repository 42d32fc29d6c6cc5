"""Show, get and set settings. `*` marks what differs from the default.

HERMES_MODEL and HERMES_POLICY override the file."""

import argparse
import json
from pathlib import Path
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, emit
from hermes_agent.cli.arguments import absolute_model
from hermes_agent.cli.home import home_and_settings, home_folder, open_models, write_setting
from hermes_agent.cli.output.formatting import table
from hermes_agent.core.errors import HermesError, UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    get = add_action(actions, "get", _get, "print one setting, or a group of them")
    get.add_argument("name", help="for instance `model` or `budgets`")
    set_ = add_action(actions, "set", _set, "change one setting in config.yaml")
    set_.add_argument("name", help="for instance `budgets.day_dollars`")
    set_.add_argument("value", help="as in config.yaml; `null` for none")
    actions.add_parser("path", help="print where config.yaml is").set_defaults(act=_path)
    actions.add_parser("check", help="check config.yaml").set_defaults(act=_check)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(options: argparse.Namespace) -> int:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.host.config import flatten

    defaults = flatten(Settings())
    rows: list[dict[str, Any]] = [
        {"name": name, "value": value, "changed": value != defaults[name]}
        for name, value in flatten(home_and_settings()[1]).items()
    ]
    cells = [("*" if row["changed"] else "", row["name"], _shown(row["value"])) for row in rows]
    return emit(options, rows, table(("", "setting", "value"), cells))


def _get(options: argparse.Namespace) -> int:
    from hermes_agent.host.config import get_setting

    value = get_setting(home_and_settings()[1], options.name)
    text = _shown(value)
    if isinstance(value, dict):
        text = "\n".join(f"{name}: {_shown(each)}" for name, each in value.items())
    return emit(options, {"name": options.name, "value": value}, text)


def _set(options: argparse.Namespace) -> int:
    from hermes_agent.cli.client.api import RuntimeClient

    problem: HermesError | None = None

    def check(settings: Any) -> None:
        nonlocal problem
        named = options.name == "terminal.default" or (
            options.name in ("model", "policy") and getattr(settings, options.name)
        )
        if named:
            problem = _unusable(settings, options.name)
            if isinstance(problem, UsageError):
                raise problem
        _check_references(settings, options.name)

    given = absolute_model(options.value) if options.name == "model" else options.value
    value = write_setting(options.name, given, check)
    up = RuntimeClient().is_up()
    text = f"{options.name}: {_shown(value)}"
    if up:
        text += "\napplies to new sessions; `hermes restart` applies it to the rest"
    if problem is not None:
        text += f"\nwarning: {problem.message}\nhint: {problem.hint}"
    return emit(options, {"name": options.name, "value": value, "restart": up}, text)


def _path(_options: argparse.Namespace) -> None:
    print(home_folder() / "config.yaml")


def _check(_options: argparse.Namespace) -> None:
    home, settings = home_and_settings()
    config = home / "config.yaml"
    for name in ("policy", "terminal.default", "model"):
        problem = _unusable(settings, name)
        if problem is not None:
            raise HermesError(problem.message, problem.hint)
    _check_references(settings, "")
    print(f"{config} is valid" if config.exists() else f"no {config}; the defaults apply")


def _check_references(settings: Any, name: str) -> None:
    """Refuse a setting, or one below it, that names something that does not exist. An empty name
    checks all settings."""
    from hermes_agent.runtime.references import dangling_references

    for one in dangling_references(home_folder(), settings):
        if name in ("", one.name) or one.name.startswith(f"{name}."):
            raise UsageError(f"{one.name}: {one.error.message}", one.error.hint)


def _unusable(settings: Any, name: str) -> HermesError | None:
    """Why a session cannot be opened with this model, policy or terminal."""
    from hermes_agent.policy.files.loader import Policies

    try:
        if name == "policy":
            Policies.of_home(home_folder(), Path.home()).rules(settings.policy)
        elif name == "terminal.default":
            if (chosen := settings.terminal.default) not in settings.places:
                available = ", ".join(settings.places)
                raise UsageError(f"no terminal called {chosen!r}", f"available: {available}")
        else:
            open_models(home_folder(), settings).check(settings.model)
    except HermesError as error:
        return error
    return None
