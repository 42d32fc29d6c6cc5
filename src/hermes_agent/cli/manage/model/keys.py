"""`hermes model services | key | login | logout | refresh`."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import emit
from hermes_agent.cli.home import home_and_settings, home_folder, open_models
from hermes_agent.cli.output.formatting import table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import ModelSettings
    from hermes_agent.core.settings.services import ModelService

SHOWN = 10
"""How many changes of a catalogue are listed."""


def run(word: str, rest: list[str], options: argparse.Namespace) -> int:
    if word == "services":
        return _services(rest, options)
    if word == "refresh":
        return _refresh(rest, options)
    if len(rest) != 1:
        if word == "key" and len(rest) > 1:
            raise UsageError(
                "do not write a key on the command line: others could read it there",
                f"`hermes model key {rest[0]}` asks for it; remove this one from your history",
            )
        raise UsageError("name one service", "`hermes model services` lists them")
    acts = {"key": _key, "login": _login, "logout": _logout}
    return acts[word](rest[0], options)


def _services(rest: list[str], options: argparse.Namespace) -> int:
    if rest:
        raise UsageError(
            f"unexpected argument: {rest[0]!r}",
            f"`hermes model list --service {rest[0]}` lists the models of one",
        )
    home, settings = home_and_settings()
    rows = open_models(home, settings).services()
    cells = [(row["name"], row["wire"], str(row["models"]), _key_state(row)) for row in rows]
    text = table(("service", "format", "models", "key"), cells)
    return emit(options, rows, f"{text}\n`hermes model key SERVICE` stores a key")


def _key_state(row: dict[str, Any]) -> str:
    if row["lacks"]:
        return f"no: {row['lacks']}"
    labels = ", ".join(key["label"] for key in row["keys"])
    return f"yes: {labels}" if labels else "not needed"


def check_service(name: str, settings: "ModelSettings") -> None:
    from hermes_agent.models.catalogue.services import known_services

    names = known_services(settings)
    if name not in names:
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"no model service called {name!r}", f"{meant}`hermes model services` lists them"
        )


def _service(name: str) -> "ModelService":
    from hermes_agent.models.catalogue.services import service_of

    _, settings = home_and_settings()
    check_service(name, settings.models)
    _, service, _ = service_of(name, settings.models, os.environ)
    return service


def _key(name: str, options: argparse.Namespace) -> int:
    from hermes_agent.models.keys.keyring import SERVICE
    from hermes_agent.models.keys.storage import forget_key, store_key

    home = home_folder()
    service = _service(name)
    if options.remove:
        gone = forget_key(name, service, home)
        text = "deleted: " + ", ".join(gone) if gone else f"no key is stored for {name}"
        return emit(options, {"service": name, "forgotten": gone}, text)
    secret = read_secret(f"key for {name} (not shown): ")
    if not secret:
        raise UsageError("no key given; nothing was changed", "type it, or pipe it in")
    where = store_key(name, service, secret, "keyring" if options.keyring else "env-file", home)
    label = f"keyring:{SERVICE}/{name}" if options.keyring else service.key_variables[0]
    overridden = _overridden(name, label)
    document = {"service": name, "kept": where, "passed_over": overridden}
    return emit(options, document, f"stored in {where}; new turns use it" + _note(overridden))


def _note(overridden: str) -> str:
    return f"\n! {overridden}" if overridden else ""


def _overridden(name: str, label: str) -> str:
    """What is used instead of the key that was just stored, if anything."""
    if os.environ.get(label):
        return f"{label} is set in this environment and overrides it"
    rows = open_models(*home_and_settings()).services()
    used = [key["label"] for row in rows if row["name"] == name for key in row["keys"]]
    if label in used:
        return ""
    return f"{', '.join(used)} takes precedence; models.keys.{name} in config.yaml sets the order"


def read_secret(prompt: str) -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass(prompt).strip()
    return sys.stdin.readline().strip()


def _login(name: str, options: argparse.Namespace) -> int:
    import asyncio

    from hermes_agent.models.catalogue.services import SERVICES
    from hermes_agent.models.keys.login import LoginContext, log_in, post_by_http
    from hermes_agent.models.keys.tokens import save_token

    way = _service(name).login
    if way is None:
        others = ", ".join(name for name, service in SERVICES.items() if service.login)
        raise UsageError(
            f"{name} does not support signing in with a code",
            f"`hermes model key {name}` stores a key; signing in works for {others}",
        )

    def show(code: str, url: str) -> None:
        text = f"open {clean(url)}\nand enter the code {clean(code)}\nwaiting …"
        print(text, file=sys.stderr, flush=True)

    signing = LoginContext(post_by_http, show, time.time, asyncio.sleep, os.urandom)
    save_token(home_folder(), name, asyncio.run(log_in(name, way, signing)))
    overridden = _overridden(name, f"the login of {name}")
    document = {"service": name, "signed_in": True, "passed_over": overridden}
    return emit(options, document, f"signed in to {name}; new turns use it" + _note(overridden))


def _logout(name: str, options: argparse.Namespace) -> int:
    from hermes_agent.models.keys.tokens import forget_token

    _service(name)
    gone = forget_token(home_folder(), name)
    text = f"signed out of {name}" if gone else f"you are not signed in to {name}"
    return emit(options, {"service": name, "forgotten": gone}, text)


def _refresh(rest: list[str], options: argparse.Namespace) -> int:
    import asyncio

    import msgspec

    from hermes_agent.models.catalogue.refresh import SOURCE, fetched, refresh

    if len(rest) > 1:
        raise UsageError("name one source", "a URL or a file, or none for the default")
    home = home_folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = rest[0] if rest else SOURCE
    if not options.json:
        print(f"reading {source}", file=sys.stderr)
    with Progress("reading the catalogue"):
        made = asyncio.run(refresh(source, home, fetched, time.time()))
    counts = f"{len(made.added)} new, {len(made.removed)} gone"
    prices = f"{len(made.changed_prices)} with a new price"
    lines = [f"{made.models} models of {made.date}: {counts}, {prices}"]
    for what, names in (("new", made.added), ("price changed", made.changed_prices)):
        lines += [f"  {what}: {name}" for name in names[:SHOWN]]
        lines += [f"  {what}: {len(names) - SHOWN} more"] * (len(names) > SHOWN)
    return emit(options, msgspec.to_builtins(made), "\n".join(lines))
