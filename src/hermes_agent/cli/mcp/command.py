"""Servers of the Model Context Protocol: those whose tools Hermes uses, and Hermes as one.

`hermes mcp add NAME -- COMMAND…` for a program on this machine, `--url` for a server elsewhere. In
--env and --header, `secret:NAME` stands for a secret of the home's `.env`."""

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import Parser, json_option
from hermes_agent.cli.mcp.serve import command
from hermes_agent.cli.output.formatting import ago, print_json, table
from hermes_agent.core.errors import HermesError, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_agent.core.settings.root import McpServerSettings
    from hermes_agent.tools.mcp.context import McpContext
    from hermes_agent.tools.mcp.provider import Servers

Named = dict[str, "McpServerSettings"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class _Parser(Parser):
    """Takes what stands behind `--` for a command, wherever options stand."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if self.get_default("command") is None or "--" not in words:
            return super().parse_known_args(words, namespace)
        cut = words.index("--")
        options, stray = super().parse_known_args(words[:cut], namespace)
        options.command = words[cut + 1 :]
        return options, stray


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions", parser_class=_Parser)
    _add_arguments(
        actions.add_parser(
            "add",
            help="use a server from now on",
            usage="hermes mcp add NAME [options] -- COMMAND…\n"
            "       hermes mcp add NAME [options] --url URL",
        )
    )
    listing = actions.add_parser("list", help="the servers there are, and what is known of them")
    listing.set_defaults(act=_list)
    known: list[tuple[str, str, Callable[..., int]]] = [
        ("tools", "what a server offers", _tools),
        ("test", "connect to it, and say how long that took", _test),
        ("login", "log in to it with a browser", _login),
        ("logout", "forget the login", _logout),
        ("remove", "use it no more", _remove),
    ]
    parsers = [listing]
    for name, help, act in known:
        made = actions.add_parser(name, help=help)
        made.add_argument("name", help="its name")
        made.set_defaults(act=act)
        parsers.append(made)
    for made in parsers:
        made.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    serve = actions.add_parser(
        "serve", help="be a server for other agents and editors", description=command.__doc__
    )
    command.arguments(serve)
    serve.set_defaults(act=None)


def _add_arguments(add: argparse.ArgumentParser) -> None:
    add.add_argument("name", help="what to call it: letters, digits, dashes and underscores")
    add.add_argument("--url", default="", help="the address of a server elsewhere")
    add.add_argument("--oauth", action="store_true", help="one logs in to it with a browser")
    add.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'",
        help="an HTTP header for it; again for more",
    )  # fmt: skip
    add.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE",
        help="a variable for the program; again for more",
    )  # fmt: skip
    add.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    add.set_defaults(act=_add, command=[])


def run(options: argparse.Namespace) -> int:
    if options.act is None:
        return command.serve(options)
    from hermes_agent.host.config import load_settings
    from hermes_agent.host.paths import find_home

    home = Path(find_home(os.environ))
    code: int = options.act(options, load_settings(home / "config.yaml", os.environ).mcp, home)
    return code


def _list(options: argparse.Namespace, servers: Named, home: Path) -> int:
    rows = [_row(name, one, home) for name, one in sorted(servers.items())]
    if options.json:
        print_json(rows)
    elif rows:
        cells = [(row["name"], row["kind"], _state(row), row["address"]) for row in rows]
        print(table(("server", "kind", "", ""), cells))
    else:
        print("no servers; `hermes mcp add NAME -- COMMAND…` or `hermes mcp add NAME --url URL`")
    return 0


def _row(name: str, settings: "McpServerSettings", home: Path) -> dict[str, Any]:
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache

    facts = CatalogueCache(home / "mcp").get(name, settings)
    return {
        "name": name,
        "kind": "local" if settings.command else "remote",
        "address": settings.url or " ".join(settings.command),
        "enabled": settings.enabled,
        "tools": len(facts.offered(settings)) if facts else None,
        "seen": facts.seen if facts else None,
        "title": facts.title if facts else "",
    }


def _state(row: dict[str, Any]) -> str:
    if not row["enabled"]:
        return "off"
    if row["seen"] is None:
        return "never connected"
    return f"{row['tools']} tools, seen {ago(row['seen'], time.time())}"


def _add(options: argparse.Namespace, servers: Named, home: Path) -> int:
    if not _NAME.fullmatch(options.name):
        raise UsageError(
            f"{options.name!r} cannot be the name of a server",
            "at most 40 letters, digits, dashes and underscores, with a letter or digit first",
        )
    if options.name in servers:
        raise UsageError(
            f"there is a server called {options.name!r}", f"`hermes mcp remove {options.name}`"
        )
    entry = _entry(options)
    _write(home, options.name, entry)
    if options.json:
        print_json({"name": options.name, **entry})
        return 0
    print(f"added {options.name}")
    if options.oauth:
        print(f"`hermes mcp login {options.name}` logs in to it")
    else:
        print(f"`hermes mcp test {options.name}` connects to it")
    return 0


def _entry(options: argparse.Namespace) -> dict[str, Any]:
    if bool(options.command) == bool(options.url):
        raise UsageError(
            "a server is a program or an address", "NAME -- COMMAND…, or NAME --url URL"
        )
    if options.command and (options.header or options.oauth):
        raise UsageError("--header and --oauth are for a server with --url", "leave them out")
    if options.url and options.env:
        raise UsageError("--env is for a program", "leave it out")
    if options.url and not options.url.startswith(("https://", "http://")):
        raise UsageError(f"{options.url!r} is no address", "it begins with https:// or http://")
    program = [os.path.abspath(word) if n == 0 and "/" in word else word
               for n, word in enumerate(options.command)]  # fmt: skip
    entry = {
        "command": program,
        "url": options.url,
        "oauth": options.oauth,
        "headers": dict(_split(one, ":", "'NAME: VALUE'") for one in options.header),
        "environment": dict(_split(one, "=", "NAME=VALUE") for one in options.env),
    }
    return {name: value for name, value in entry.items() if value}


def _split(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"{text!r} is not {form}", f"write {form}")
    return name.strip(), value.strip()


def _write(home: Path, name: str, entry: dict[str, Any]) -> None:
    import json

    from hermes_agent.host.config import set_setting

    config = home / "config.yaml"
    try:
        set_setting(config, f"mcp.{name}", json.dumps(entry), lambda _: None)
    except OSError as error:
        raise HermesError(f"cannot write {config}: {error.strerror}", "`hermes doctor`") from None


def _remove(options: argparse.Namespace, servers: Named, home: Path) -> int:
    from hermes_agent.host.config import remove_setting
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache

    _named(options.name, servers)
    remove_setting(home / "config.yaml", f"mcp.{options.name}")
    _forget(options.name, home)
    CatalogueCache(home / "mcp").drop(options.name)
    return _said(options, {"name": options.name, "removed": True}, f"removed {options.name}")


def _logout(options: argparse.Namespace, servers: Named, home: Path) -> int:
    _named(options.name, servers)
    was = _forget(options.name, home)
    text = f"logged out of {options.name}" if was else f"nobody was logged in to {options.name}"
    return _said(options, {"name": options.name, "logged_out": was}, text)


def _forget(name: str, home: Path) -> bool:
    file = _world(home).token_file(name)
    was = file.exists()
    file.unlink(missing_ok=True)
    return was


def _said(options: argparse.Namespace, document: dict[str, Any], text: str) -> int:
    if options.json:
        print_json(document)
    else:
        print(text)
    return 0


def _named(name: str, servers: Named) -> "McpServerSettings":
    if name not in servers:
        there = ", ".join(sorted(servers)) or "none"
        raise NotFound(f"no server called {name!r}", f"there are: {there}")
    return servers[name]


def _world(home: Path) -> "McpContext":
    from hermes_agent.policy.secrets import Secrets
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache
    from hermes_agent.tools.mcp.context import McpContext

    secrets = Secrets(os.environ, home)
    return McpContext(home, CatalogueCache(home / "mcp"), secrets.get, os.environ, time.time)


def _servers(name: str, settings: "McpServerSettings", home: Path) -> "Servers":
    """The one server, whether it is in use or not."""
    from msgspec.structs import replace

    from hermes_agent.tools.mcp.provider import Servers

    only = {name: replace(settings, enabled=True)}
    world = _world(home)
    return Servers(lambda: only, home, world.secret, os.environ, time.time)


def _tools(options: argparse.Namespace, servers: Named, home: Path) -> int:
    settings = _named(options.name, servers)
    rows, left_out = _run(_offered(options.name, settings, home))
    if options.json:
        print_json(rows)
        return 0
    print(table(("tool", ""), [(row["name"], row["about"]) for row in rows]))
    if left_out:
        print(f"{left_out} more are left out: their names are too long, or there are too many")
    return 0


async def _offered(
    name: str, settings: "McpServerSettings", home: Path
) -> tuple[list[dict[str, Any]], int]:
    made = _servers(name, settings, home)
    try:
        facts = made.known(name) or await made.meet(name)
        rows = [{"name": one.name, "about": one.about} for one in await made.search("")]
    finally:
        await made.close()
    return rows, facts.left_out


def _test(options: argparse.Namespace, servers: Named, home: Path) -> int:
    told = _run(_tried(options.name, _named(options.name, servers), home))
    text = (
        f"{options.name}: {told['title'] or 'a server without a name'}, {told['tools']} tools; "
        f"ready in {told['seconds']:.2f} s (protocol {told['protocol']})"
    )
    return _said(options, told, text)


async def _tried(name: str, settings: "McpServerSettings", home: Path) -> dict[str, Any]:
    _loaded()  # before the clock starts
    made = _servers(name, settings, home)
    began = time.perf_counter()
    try:
        facts = await made.meet(name)
        seconds = time.perf_counter() - began
    finally:
        await made.close()
    return {
        "name": name,
        "title": facts.title,
        "protocol": facts.version,
        "tools": len(facts.offered(settings)),
        "seconds": round(seconds, 3),
    }


def _login(options: argparse.Namespace, servers: Named, home: Path) -> int:
    import msgspec

    before = _named(options.name, servers)
    settings = msgspec.structs.replace(before, oauth=True)
    if not settings.url:
        raise UsageError(
            f"{options.name} is a program on this machine", "one logs in to servers elsewhere"
        )
    facts = _run(_logged_in(options.name, settings, home))
    if settings != before:
        plain = msgspec.to_builtins(settings)
        default = msgspec.to_builtins(type(settings)())
        entry = {key: value for key, value in plain.items() if value != default[key]}
        _write(home, options.name, entry)
    count = len(facts.offered(settings))
    text = f"logged in to {options.name}: {count} tools"
    return _said(options, {"name": options.name, "tools": count}, text)


async def _logged_in(name: str, settings: "McpServerSettings", home: Path) -> Any:
    import asyncio
    import threading

    log_in = _loaded().log_in
    loop = asyncio.get_running_loop()

    def show(address: str, paste: "Callable[[str], bool]") -> None:
        print(f"open this in a browser:\n\n  {address}\n", file=sys.stderr)
        print(
            "If the browser is on another machine, paste the address that it ends at here.",
            file=sys.stderr,
            flush=True,
        )

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(paste, line)

        threading.Thread(target=read, daemon=True).start()

    world = _world(home)
    facts = await log_in(name, settings, world, show, settings.timeout_seconds)
    world.cache.put(name, facts)
    return facts


def _loaded() -> Any:
    try:
        from hermes_agent.tools.mcp.transports import opening
    except ModuleNotFoundError as error:
        raise HermesError(
            f"the package {error.name} is not installed", "pip install 'hermes-agent[mcp]'"
        ) from None
    return opening


def _run(work: Any) -> Any:
    import asyncio

    return asyncio.run(work)
