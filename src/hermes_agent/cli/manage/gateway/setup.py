"""Setting a channel up: its fields go to config.yaml, its secrets to `.env` in the home."""

import argparse
import json
import os
import sys
from pathlib import Path

from hermes_agent.cli.manage.gateway.test import tested
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.root import Settings
from hermes_agent.gateway.channel import Manifest, SettingField
from hermes_agent.gateway.registry import ChannelRegistry
from hermes_agent.gateway.service import COMMON
from hermes_agent.host.config import load_settings, set_setting
from hermes_agent.host.home import Home
from hermes_agent.host.outbound import HOME
from hermes_agent.host.paths import find_home


def channels(options: argparse.Namespace) -> int:
    """Which channels there are."""
    settings = load_settings(_home().config, os.environ)
    rows = [
        {
            "name": name,
            "title": one.title,
            "about": one.about,
            "set_up": name in settings.channels,
            "fields": [field.name for field in one.fields],
        }
        for name, one in sorted(ChannelRegistry(home=_home().path).manifests().items())
    ]
    if options.json:
        print_json(rows)
        return 0
    cells = [(str(row["name"]), "yes" if row["set_up"] else "", str(row["about"])) for row in rows]
    print(table(("channel", "set up", "about"), cells))
    print("hint: `hermes gateway setup CHANNEL`")
    return 0


def setup(options: argparse.Namespace) -> int:
    manifest = ChannelRegistry(home=_home().path).manifest(options.channel)
    given = _given(manifest, options.given)
    home = _home()
    before = dict(load_settings(home.config, os.environ).channels.get(manifest.name, {}))
    asks = sys.stdin.isatty() and not options.json
    if asks:
        for number, step in enumerate(manifest.steps, 1):
            print(f"{number}. {step}")
    values: dict[str, object] = {}
    for field in manifest.fields:
        value = _value(home, manifest, field, given, str(before.get(field.name, "")), asks)
        if value and value != before.get(field.name):
            values[field.name] = value
    if options.home:
        values["home"] = options.home
    _write(home, manifest, values, known=manifest.name in _channels(home))
    if not options.json:
        print(f"{manifest.name} is set up in {str(home.config)!r}")
    code = 0 if options.no_test else tested(manifest.name, json=options.json)
    if options.no_test and options.json:
        print_json({"channel": manifest.name, "set": sorted(values)})
    elif not options.json:
        homeless = not _channels(home).get(manifest.name, {}).get(HOME)
        more = "; your chat becomes the home, where consent is asked for" if homeless else ""
        print(f"hint: `hermes gateway pair {manifest.name} --role owner` lets you in{more}")
    return code


def _home() -> Home:
    return Home(Path(find_home(os.environ)))


def _channels(home: Home) -> dict[str, dict[str, object]]:
    return load_settings(home.config, os.environ).channels


def _given(manifest: Manifest, pairs: list[str]) -> dict[str, str]:
    known = {field.name for field in manifest.fields} | COMMON
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in known:
            raise UsageError(
                f"{manifest.name} has no field {name!r}", f"fields: {', '.join(sorted(known))}"
            )
        given[name] = value
    return given


def _value(
    home: Home,
    manifest: Manifest,
    field: SettingField,
    given: dict[str, str],
    before: str,
    asks: bool,
) -> str:
    if field.name in given:
        return given[field.name]
    if field.secret:
        return _secret(home, manifest, field, before, asks)
    if before or not (asks or field.required):
        return before
    if not asks:
        raise UsageError(f"{field.name} is needed: {field.about}", f"--set {field.name}=…")
    default = f" [{field.default}]" if field.default else "" if field.required else " [none]"
    said = input(f"{field.about}{default}: ").strip()
    if not said and field.required and not field.default:
        raise UsageError(f"{field.name} is needed", "nothing was changed")
    return said


def _secret(home: Home, manifest: Manifest, field: SettingField, before: str, asks: bool) -> str:
    """The name of the secret. One that is typed or piped in takes the place of the one before."""
    from hermes_agent.cli.manage.model.keys import read_secret
    from hermes_agent.models.keys.storage import store_secret
    from hermes_agent.policy.secrets import Secrets, is_secret

    name = before or f"{manifest.name}_{field.name}".upper().replace("-", "_")
    kept = name in Secrets(os.environ, home.path).names()
    if not (field.required or asks):
        return name if kept else before
    keeps = "; nothing typed: the one that is kept" if kept else ""
    secret = read_secret(f"{field.about} (it is not shown{keeps}): ")
    if secret and is_secret(name, os.environ.get(name, "")):
        raise UsageError(
            f"{name} stands in the environment, which counts before {str(home.path / '.env')!r}",
            "change it there, or take it out; the runtime must be started anew then",
        )
    if secret:
        where = store_secret(name, secret, home.path)
        if kept:
            print(f"{field.name}: replaced, {where}", file=sys.stderr)
        return name
    if field.required and not kept:
        raise UsageError(f"{field.name} is needed; nothing was changed", "type it, or pipe it in")
    return name if kept else before


def _write(home: Home, manifest: Manifest, values: dict[str, object], *, known: bool) -> None:
    def fine(_settings: Settings) -> None: ...

    try:
        if not known:
            set_setting(home.config, f"channels.{manifest.name}", "{}", fine)
        for name, value in values.items():
            text = json.dumps(value, ensure_ascii=False) if _is_text(value) else str(value)
            set_setting(home.config, f"channels.{manifest.name}.{name}", text, fine)
    except OSError as error:
        raise HermesError(f"cannot write {home.config}: {error.strerror}") from None


def _is_text(value: object) -> bool:
    """Lists are written as they are given, `[a, b]`; the rest is text."""
    return not str(value).startswith("[")
