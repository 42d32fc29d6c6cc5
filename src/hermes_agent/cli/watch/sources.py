"""What the agent can look at in production: metrics, logs, clusters, databases, Git hosts.

The agent reads a source without asking: adding one is your consent. Give it an account that can
only read. Keys go into `.env` in the home, never into config.yaml or a prompt."""

import argparse
import asyncio
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import add_action, add_actions, emit
from hermes_agent.cli.home import home_and_settings, write_setting
from hermes_agent.cli.output.formatting import table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.core.settings.sources import SourceSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_OPTIONS = {
    "user": "the user name for databases and basic authentication",
    "ca-file": "certificates to trust besides the system's",
    "kubeconfig": "the kubeconfig of `kubernetes`",
    "context": "the context in the kubeconfig",
    "index": "the index in which `opensearch` looks",
}
_WEB = ("http", "https")
_SCHEMES = {"http": _WEB, "https": _WEB, "redis": ("redis", "rediss", "tcp")}
_LOGIN = dict.fromkeys(("postgresql", "mysql"), "/DATABASE --user USER --password")


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    add = add_action(actions, "add", _add, "add a source, and test it")
    add.add_argument("kind", metavar="KIND", help="`hermes sources kinds` lists them")
    add.add_argument("url", metavar="URL", nargs="?", default="", help="its address")
    add.add_argument("--name", default="", help="its name; otherwise that of its kind")
    for name, text in _OPTIONS.items():
        add.add_argument(f"--{name}", default="", help=text)
    add.add_argument(
        "--repository", action="append", default=[], metavar="OWNER/NAME",
        help="a repository of a Git host whose changes count; repeatable",
    )  # fmt: skip
    add.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'",
        help="an HTTP header, with `secret:NAME` for a secret; repeatable",
    )  # fmt: skip
    add.add_argument("--token", action="store_true", help="ask for a token, or read it piped in")
    add.add_argument("--password", action="store_true", help="ask for a password, or read it")
    add_action(actions, "list", _list, "the configured sources")
    add_action(actions, "kinds", _kinds, "what can be added")
    add_action(actions, "discover", _discover, "find sources on this machine")
    test = add_action(actions, "test", _test, "ask sources whether they answer")
    test.add_argument("names", nargs="*", metavar="NAME")
    add_action(actions, "remove", _remove, "remove a source", "name")


def _list(options: argparse.Namespace) -> int:
    _, settings = home_and_settings()
    rows: list[dict[str, Any]] = [
        {"name": name, "kind": one.kind, "url": one.url, "enabled": one.enabled}
        for name, one in sorted(settings.sources.items())
    ]
    text = "no sources; `hermes sources discover` finds some, `hermes sources add` adds one"
    if rows:
        cells = [(row["name"], row["kind"], "" if row["enabled"] else "off", row["url"])
                 for row in rows]  # fmt: skip
        text = table(("source", "kind", "", "address"), cells)
    return emit(options, rows, text)


def _kinds(options: argparse.Namespace) -> int:
    from hermes_agent.tools.sources.registry import TYPES

    rows = [
        {"kind": kind, "about": row.about, "example": row.example} for kind, row in TYPES.items()
    ]
    cells = [(row["kind"], row["example"], row["about"]) for row in rows]
    return emit(options, rows, table(("kind", "address", ""), cells))


def _add(options: argparse.Namespace) -> int:
    from hermes_agent.tools.sources.registry import TYPES

    if options.kind not in TYPES:
        raise UsageError(f"no kind of source called {options.kind!r}", f"kinds: {', '.join(TYPES)}")
    _, settings = home_and_settings()
    name = options.name or _free_name(options.kind, settings)
    if not _NAME.fullmatch(name):
        hint = "at most 40 letters, digits, dashes and underscores"
        raise UsageError(f"not a valid source name: {name!r}", hint)
    if name in settings.sources:
        raise UsageError(
            f"a source called {name!r} already exists", f"`hermes sources remove {name}`"
        )
    for old, one in settings.sources.items():
        if options.url and (one.kind, one.url) == (options.kind, options.url) and not options.name:
            raise UsageError(f"{old!r} is this source already", "--name NAME adds it once more")
    entry = _entry(options, name)
    write_setting(f"sources.{name}", json.dumps(entry))
    with Progress(f"asking {name}"):
        [row] = asyncio.run(_checked((name,)))
    text = f"added {name}: {row['what']}"
    if not row["ok"]:
        text = f"saved {name}, but it does not work yet: {row['what']}"
        text += f"\nhint: {row['hint'] + '; ' if row['hint'] else ''}`hermes sources test {name}`"
        text += f" tries again, `hermes sources remove {name}` removes it"
    return emit(options, {**row, **entry}, text)


def _free_name(kind: str, settings: "Settings") -> str:
    names = (kind, *(f"{kind}-{number}" for number in range(2, 100)))
    return next(name for name in names if name not in settings.sources)


def _entry(options: argparse.Namespace, name: str) -> dict[str, Any]:
    from hermes_agent.tools.sources.registry import TYPES

    row = TYPES[options.kind]
    scheme = row.example.partition("://")[0]
    url = re.sub("^postgres://", "postgresql://", options.url)
    if not url and options.kind == "kubernetes":
        url = row.load().server(options.kubeconfig, options.context, os.environ)
    allowed = _SCHEMES.get(scheme, (scheme, "tcp"))
    if url.partition("://")[0] not in allowed or "://" not in url:
        example = row.example if "://" in url or not url else f"{scheme}://{url}"
        raise UsageError(f"not an address of {options.kind}: {url!r}", f"such as {example}")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise UsageError("the address contains a user or password", "--user NAME and --password")
    headers = dict(one.partition(":")[::2] for one in options.header)
    entry = {
        "kind": options.kind,
        "url": url,
        **{key.replace("-", "_"): getattr(options, key.replace("-", "_")) for key in _OPTIONS},
        "headers": {key.strip(): value.strip() for key, value in headers.items()},
        "repositories": options.repository,
    }
    for field in ("token", "password"):
        if getattr(options, field):
            entry[field] = f"secret:{_stored(name, field)}"
    return {key: value for key, value in entry.items() if value}


def _stored(name: str, field: str) -> str:
    """Ask for a secret and store it; its name."""
    from hermes_agent.cli.manage.model.keys import read_secret
    from hermes_agent.models.keys.storage import store_secret

    variable = re.sub(r"\W", "_", f"source_{name}_{field}").upper()
    value = read_secret(f"{field} of {name} (not shown): ")
    if not value:
        raise UsageError(f"no {field} given; nothing was changed", "type it, or pipe it in")
    store_secret(variable, value, home_and_settings()[0])
    return variable


def _discover(options: argparse.Namespace) -> int:
    from hermes_agent.runtime.sources import discover

    _, settings = home_and_settings()
    with Progress("looking around"):
        found = list(discover(settings.sources, os.environ))
    rows = [
        {
            "kind": one.kind,
            "url": one.url,
            "add": f"hermes sources add {one.kind} {one.url}{_LOGIN.get(one.kind, '')}".strip(),
        }
        for one in found
    ]
    text = "nothing new was found on this machine"
    if rows:
        lines = [row["add"] for row in rows]
        text = "\n".join(("found; to let the agent look at it:", *lines))
    return emit(options, rows, text)


def _test(options: argparse.Namespace) -> int:
    names = tuple(options.names)
    _, settings = home_and_settings()
    for name in names:
        _known(name, settings)
    with Progress("asking"):
        rows = asyncio.run(_checked(names))
    cells = [(row["name"], row["kind"], "ok" if row["ok"] else "fails", row["what"])
             for row in rows]  # fmt: skip
    text = table(("source", "kind", "", ""), cells) if rows else "no sources"
    text += "".join(f"\nhint: {row['name']}: {row['hint']}" for row in rows if row["hint"])
    return emit(options, rows, text, 0 if all(row["ok"] for row in rows) else 1)


async def _checked(names: tuple[str, ...]) -> list[dict[str, Any]]:
    from hermes_agent.policy.secrets import Secrets
    from hermes_agent.runtime.sources import verify_all

    home, settings = home_and_settings()
    secrets = Secrets(os.environ, home)
    checks = await verify_all(settings, secrets.get, time.time, names)
    return [{**one._asdict(), "what": clean(one.what), "hint": clean(one.hint)} for one in checks]


def _known(name: str, settings: "Settings") -> "SourceSettings":
    if name not in settings.sources:
        known = ", ".join(sorted(settings.sources)) or "none"
        raise NotFound(f"no source called {name!r}", f"configured: {known}")
    return settings.sources[name]


def _remove(options: argparse.Namespace) -> int:
    from hermes_agent.host.config import remove_setting

    home, settings = home_and_settings()
    left = _known(options.name, settings).secrets
    text = f"removed {options.name}"
    text += f"; still in {home / '.env'}: {', '.join(left)}" if left else ""
    remove_setting(home / "config.yaml", f"sources.{options.name}")
    return emit(options, {"name": options.name, "removed": True}, text)
