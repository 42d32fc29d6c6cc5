"""Sets up a channel: its fields go to config.yaml, its secrets to `.env` in the home."""

import argparse
import json
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.client.api import quoted
from hermes_agent.cli.home import home_and_settings, write_setting
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.files import write_private
from hermes_agent.core.text.terminal import clean
from hermes_agent.gateway.channel import Manifest, SettingField
from hermes_agent.gateway.registry import ChannelRegistry
from hermes_agent.gateway.service import COMMON
from hermes_agent.host.outbound import HOME


def channels(options: argparse.Namespace) -> int:
    """List the channels."""
    home, settings = home_and_settings()
    rows = [
        {
            "name": name,
            "title": one.title,
            "about": one.about,
            "set_up": name in settings.channels,
            "fields": [field.name for field in one.fields],
        }
        for name, one in sorted(ChannelRegistry(home=home).manifests().items())
    ]
    cells = [(str(row["name"]), "yes" if row["set_up"] else "", str(row["about"])) for row in rows]
    text = table(("channel", "set up", "about"), cells)
    return emit(options, rows, f"{text}\nhint: `hermes gateway setup CHANNEL`")


def setup(options: argparse.Namespace) -> int:
    home, settings = home_and_settings()
    manifest = ChannelRegistry(home=home).manifest(options.channel)
    given = _given(manifest, options.given)
    files = {path: _content(path) for path in (home / "config.yaml", home / ".env")}
    before = dict(settings.channels.get(manifest.name, {}))
    asks = sys.stdin.isatty() and not options.json
    if asks:
        for number, step in enumerate(manifest.steps, 1):
            print(f"{number}. {step}")
    if options.home:
        given["home"] = options.home
    fields = {field.name for field in manifest.fields}
    values = {name: _common(home, name, given[name]) for name in given.keys() - fields}
    for field in manifest.fields:
        value = _value(home, manifest, field, given, str(before.get(field.name, "")), asks)
        if value and value != before.get(field.name):
            values[field.name] = value
    if manifest.name not in settings.channels:
        write_setting(f"channels.{manifest.name}", "{}")
    for name, given_value in values.items():  # lists are written as they are given, `[a, b]`
        is_list = isinstance(given_value, str) and given_value.startswith("[")
        text = str(given_value) if is_list else json.dumps(given_value, ensure_ascii=False)
        write_setting(f"channels.{manifest.name}.{name}", text)
    after = home_and_settings()[1].channels.get(manifest.name, {})
    off = not after.get("enabled", True)
    done = {} if options.no_test or off else _tested(manifest.name)
    if done.get("state") == "refused":
        for path, content in files.items():
            _put_back(path, content)
        error = clean(str(done["error"]))
        raise HermesError(f"{manifest.name}: {error}; nothing was changed", clean(done["hint"]))
    if not options.json:
        switched = ", and switched off" if off else ""
        print(f"{manifest.name} is set up in {str(home / 'config.yaml')!r}{switched}")
    code = _report(options, manifest.name, done) if done else 0
    if options.json and not done:
        print_json({"channel": manifest.name, "set": sorted(values)})
    elif off:
        print(f"hint: `hermes gateway setup {manifest.name} --set enabled=true` switches it on")
    elif not options.json:
        homeless = not after.get(HOME)
        more = "; your chat becomes its home, where approvals are asked for" if homeless else ""
        print(f"hint: `hermes gateway pair {manifest.name} --role owner` lets you in{more}")
    return code


def test_channel(options: argparse.Namespace, channel: str) -> int:
    """Send a real test message; 1 when the channel is not proven to receive."""
    return _report(options, channel, _tested(channel))


def _tested(channel: str) -> dict[str, Any]:
    done: dict[str, Any] = connect().post(f"/v1/gateway/{quoted(channel)}/test")
    return done


def _report(options: argparse.Namespace, channel: str, done: dict[str, Any]) -> int:
    if done["proven_now"]:
        proves = "it receives messages" if done["proof"] == "round-trip" else "the platform answers"
        return emit(options, done, f"{channel}: verified just now: {proves}")
    hint = done.get("hint") or "it is retried automatically; see `hermes logs`"
    text = f"{channel}: not verified: {clean(str(done['error']))}\nhint: {clean(str(hint))}"
    return emit(options, done, text, 1)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _put_back(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    elif content != path.read_bytes():
        write_private(path, content)


def _given(manifest: Manifest, pairs: list[str]) -> dict[str, str]:
    known = sorted({field.name for field in manifest.fields} | COMMON.keys())
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"{manifest.name} has no field {name!r}", f"{meant}fields: {', '.join(known)}"
            )
        if not equals:
            raise UsageError(f"{name} needs a value", f"--set {name}=…")
        given[name] = value
    return given


def _common(home: Path, name: str, text: str) -> object:
    """The value of a setting that every channel has."""
    if COMMON[name] is list:  # ids are texts, even those made of digits
        return [one for word in text.strip("[]").split(",") if (one := word.strip(" \"'"))]
    if COMMON[name] is bool:
        if text not in ("true", "false"):
            raise UsageError(f"{name} must be true or false, not {text!r}", f"--set {name}=true")
        return text == "true"
    if name == "policy" and text:
        from hermes_agent.policy.files.loader import Policies

        Policies.of_home(home, Path.home()).rules(text)
    if name == "listen" and text not in ("", "all"):
        raise UsageError(
            f"listen cannot be {text!r}",
            "--set listen=all also reads messages not addressed to the agent; listen= does not",
        )
    return text


def _value(
    home: Path,
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
        raise UsageError(f"{field.name} is required: {field.about}", f"--set {field.name}=…")
    default = f" [{field.default}]" if field.default else "" if field.required else " [none]"
    said = input(f"{field.about}{default}: ").strip()
    if not said and field.required and not field.default:
        raise UsageError(f"{field.name} is required", "nothing was changed")
    return said


def _secret(home: Path, manifest: Manifest, field: SettingField, before: str, asks: bool) -> str:
    """The name of the secret. A value that is typed or piped in replaces the stored one."""
    from hermes_agent.cli.manage.model.keys import read_secret
    from hermes_agent.models.keys.storage import store_secret
    from hermes_agent.policy.secrets import Secrets, is_secret

    name = before or f"{manifest.name}_{field.name}".upper().replace("-", "_")
    stored = name in Secrets(os.environ, home).names()
    if not (field.required or asks):
        return name if stored else before
    keeps = "; Enter keeps the stored one" if stored else ""
    secret = read_secret(f"{field.about} (not shown{keeps}): ")
    if secret and is_secret(name, os.environ.get(name, "")):
        raise UsageError(
            f"{name} is set in the environment, which overrides {str(home / '.env')!r}",
            "change or unset it there, then restart the runtime",
        )
    if secret:
        where = store_secret(name, secret, home)
        if stored:
            print(f"{field.name}: replaced, {where}", file=sys.stderr)
        return name
    if field.required and not stored:
        raise UsageError(f"{field.name} is required; nothing was changed", "type it, or pipe it in")
    return name if stored else before
