"""The services, their keys, and the catalogue's upkeep: the rest of `hermes model`."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.manage.model.facts import check_service
from hermes_agent.cli.manage.model.registry import home_and_settings, open_models
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.core.settings.services import ModelService

SHOWN = 10
"""How many changes of a catalogue are told one by one."""


def run(word: str, rest: list[str], options: argparse.Namespace) -> int:
    if word == "services":
        return _services(rest, options)
    if word == "refresh":
        return _refresh(rest, options)
    if len(rest) != 1:
        if word == "key" and len(rest) > 1:
            raise UsageError(
                "a key is not written on the command line: others could read it there",
                f"`hermes model key {rest[0]}` asks for it; take this one out of your history",
            )
        raise UsageError("name one service", "`hermes model services` lists them")
    acts = {"key": _key, "login": _login, "logout": _logout}
    return acts[word](rest[0], options)


def _services(rest: list[str], options: argparse.Namespace) -> int:
    if rest:
        raise UsageError(
            f"`hermes model services` takes no {rest[0]!r}",
            f"`hermes model list --service {rest[0]}` lists the models of one",
        )
    home, settings = home_and_settings()
    rows = open_models(home, settings).services()
    if options.json:
        print_json(rows)
        return 0
    cells = [(row["name"], row["wire"], str(row["models"]), _key_state(row)) for row in rows]
    print(table(("service", "speaks", "models", "key"), cells))
    print("`hermes model key SERVICE` keeps one")
    return 0


def _key_state(row: dict[str, Any]) -> str:
    if row["lacks"]:
        return f"no: {row['lacks']}"
    labels = ", ".join(key["label"] for key in row["keys"])
    return f"yes: {labels}" if labels else "needs none"


def _service(name: str) -> "ModelService":
    from hermes_agent.models.catalogue.services import service_of

    _, settings = home_and_settings()
    check_service(name, settings.models)
    _, service, _ = service_of(name, settings.models, os.environ)
    return service


def _key(name: str, options: argparse.Namespace) -> int:
    from hermes_agent.models.keys.keyring import SERVICE
    from hermes_agent.models.keys.storage import forget_key, store_key

    home, _ = home_and_settings()
    service = _service(name)
    if options.remove:
        gone = forget_key(name, service, home)
        if options.json:
            print_json({"service": name, "forgotten": gone})
        else:
            print("forgotten: " + ", ".join(gone) if gone else f"nothing is kept for {name}")
        return 0
    secret = read_secret(f"key for {name} (it is not shown): ")
    if not secret:
        raise UsageError("no key was given; nothing was changed", "type it, or pipe it in")
    where = store_key(name, service, secret, "keyring" if options.keyring else "env-file", home)
    label = f"keyring:{SERVICE}/{name}" if options.keyring else service.key_variables[0]
    passed_over = _passed_over(name, label)
    if options.json:
        print_json({"service": name, "kept": where, "passed_over": passed_over})
        return 0
    print(f"kept in {where}; new turns use it")
    if passed_over:
        print(f"! {passed_over}")
    return 0


def _passed_over(name: str, label: str) -> str:
    """What is used instead of a key that was just kept, if something is."""
    if os.environ.get(label):
        return f"{label} is set in this environment and goes before it"
    rows = open_models(*home_and_settings()).services()
    used = [key["label"] for row in rows if row["name"] == name for key in row["keys"]]
    if label in used:
        return ""
    return f"{', '.join(used)} goes before it; models.keys.{name} in config.yaml names the order"


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

    home, _ = home_and_settings()
    way = _service(name).login
    if way is None:
        others = ", ".join(name for name, service in SERVICES.items() if service.login)
        raise UsageError(
            f"{name} has no sign-in with a code",
            f"`hermes model key {name}` keeps a key; sign-in is there for {others}",
        )

    def show(code: str, url: str) -> None:
        told = f"open {clean(url)}\nand enter the code {clean(code)}\nwaiting for it …"
        print(told, file=sys.stderr, flush=True)

    signing = LoginContext(post_by_http, show, time.time, asyncio.sleep, os.urandom)
    save_token(home, name, asyncio.run(log_in(name, way, signing)))
    passed_over = _passed_over(name, f"the login of {name}")
    if options.json:
        print_json({"service": name, "signed_in": True, "passed_over": passed_over})
        return 0
    print(f"signed in with {name}; new turns use it")
    if passed_over:
        print(f"! {passed_over}")
    return 0


def _logout(name: str, options: argparse.Namespace) -> int:
    from hermes_agent.models.keys.tokens import forget_token

    home, _ = home_and_settings()
    _service(name)
    gone = forget_token(home, name)
    if options.json:
        print_json({"service": name, "forgotten": gone})
        return 0
    print(f"the sign-in with {name} is forgotten" if gone else f"nobody is signed in with {name}")
    return 0


def _refresh(rest: list[str], options: argparse.Namespace) -> int:
    import asyncio

    from hermes_agent.models.catalogue.refresh import SOURCE, fetched, refresh

    if len(rest) > 1:
        raise UsageError("name one source", "a URL or a file, or none for the usual one")
    home, _ = home_and_settings()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = rest[0] if rest else SOURCE
    if not options.json:
        print(f"reading {source}", file=sys.stderr)
    made = asyncio.run(refresh(source, home, fetched, time.time()))
    if options.json:
        import msgspec

        print_json(msgspec.to_builtins(made))
        return 0
    print(
        f"{made.models} models of {made.date}: {len(made.added)} new, {len(made.removed)} gone, "
        f"{len(made.changed_prices)} with another price"
    )
    for what, names in (("new", made.added), ("price changed", made.changed_prices)):
        for name in names[:SHOWN]:
            print(f"  {what}: {name}")
        if len(names) > SHOWN:
            print(f"  {what}: {len(names) - SHOWN} more")
    return 0
