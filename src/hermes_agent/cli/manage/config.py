"""Show, get and set settings. `*` marks what differs from the default.

HERMES_MODEL and HERMES_POLICY go before the file, here as everywhere."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from hermes_agent.cli.arguments import absolute_model, json_option
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.host.home import Home
from hermes_agent.host.paths import find_home


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    get = actions.add_parser("get", help="print one setting, or a group of them")
    get.add_argument("name", help="for instance `model` or `budgets`")
    get.set_defaults(act=_get)
    set_ = actions.add_parser("set", help="change one setting in config.yaml")
    set_.add_argument("name", help="for instance `budgets.day_dollars`")
    set_.add_argument("value", help="as it would stand in config.yaml; `null` for none")
    set_.set_defaults(act=_set)
    actions.add_parser("path", help="print where config.yaml is").set_defaults(act=_path)
    actions.add_parser("check", help="check config.yaml").set_defaults(act=_check)
    for action in (get, set_):
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    options.act(options, Home(Path(find_home(os.environ))).config)
    return 0


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(options: argparse.Namespace, config: Path) -> None:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.host.config import flatten, load_settings

    defaults = flatten(Settings())
    rows = [
        {"name": name, "value": value, "changed": value != defaults[name]}
        for name, value in flatten(load_settings(config, os.environ)).items()
    ]
    if options.json:
        print_json(rows)
    else:
        cells = [
            ("*" if row["changed"] else "", str(row["name"]), _shown(row["value"])) for row in rows
        ]
        print(table(("", "setting", "value"), cells))


def _get(options: argparse.Namespace, config: Path) -> None:
    from hermes_agent.host.config import get_setting, load_settings

    value = get_setting(load_settings(config, os.environ), options.name)
    if options.json:
        print_json({"name": options.name, "value": value})
    elif isinstance(value, dict):
        for name, each in value.items():
            print(f"{name}: {_shown(each)}")
    else:
        print(_shown(value))


def _set(options: argparse.Namespace, config: Path) -> None:
    from hermes_agent.cli.client.api import RuntimeClient
    from hermes_agent.host.config import set_setting

    trouble: HermesError | None = None

    def check(settings: Any) -> None:
        nonlocal trouble
        named = options.name == "terminal.default" or (
            options.name in ("model", "policy") and getattr(settings, options.name)
        )
        if named:
            trouble = _unusable(settings, options.name)
            if isinstance(trouble, UsageError):
                raise trouble
        _refuse_astray(settings, options.name)

    given = absolute_model(options.value) if options.name == "model" else options.value
    try:
        value = set_setting(config, options.name, given, check)
    except OSError as error:
        raise HermesError(f"cannot write {config}: {error.strerror}", "`hermes doctor`") from None
    up = RuntimeClient().is_up()
    if options.json:
        print_json({"name": options.name, "value": value, "restart": up})
        return
    print(f"{options.name}: {_shown(value)}")
    if up:
        print("new sessions go by it; `hermes restart` makes the others and the runtime do so")
    if trouble is not None:
        print(f"but: {trouble.message}\nhint: {trouble.hint}")


def _path(_options: argparse.Namespace, config: Path) -> None:
    print(config)


def _check(_options: argparse.Namespace, config: Path) -> None:
    from hermes_agent.host.config import load_settings

    settings = load_settings(config, os.environ)
    for name in ("policy", "terminal.default", "model"):
        trouble = _unusable(settings, name)
        if trouble is not None:
            raise HermesError(trouble.message, trouble.hint)
    _refuse_astray(settings, "")
    print(f"{config} is in order" if config.exists() else f"no {config}; the defaults are in order")


def _refuse_astray(settings: Any, name: str) -> None:
    """A setting that names what is not there is not taken; below one that is set whole, too. An
    empty name is all of them."""
    from hermes_agent.runtime.references import dangling_references

    for one in dangling_references(Path(find_home(os.environ)), settings):
        if name in ("", one.name) or one.name.startswith(f"{name}."):
            raise UsageError(f"{one.name}: {one.error.message}", one.error.hint)


def _unusable(settings: Any, name: str) -> HermesError | None:
    """Why a session could not be opened with this model, policy or terminal."""
    from hermes_agent.host.paths import find_home
    from hermes_agent.policy.files.loader import Policies

    try:
        if name == "policy":
            Policies.of_home(Path(find_home(os.environ)), Path.home()).rules(settings.policy)
        elif name == "terminal.default":
            if settings.terminal.default not in settings.places:
                there = ", ".join(settings.places)
                name = settings.terminal.default
                raise UsageError(f"no terminal called {name!r}", f"there are: {there}")
        else:
            from hermes_agent.cli.manage.model.registry import open_models

            open_models(Path(find_home(os.environ)), settings).check(settings.model)
    except HermesError as error:
        return error
    return None
