"""MCP (Model Context Protocol) servers whose tools Hermes uses, and Hermes as an MCP server.

`hermes mcp add NAME -- COMMAND…` adds a program on this machine, `--url` a remote server. In --env
and --header, `secret:NAME` stands for a secret in the home's `.env`."""

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import add_action, add_actions, emit
from hermes_agent.cli.arguments import Parser
from hermes_agent.cli.home import home_and_settings, write_setting
from hermes_agent.cli.mcp.serve import command
from hermes_agent.cli.output.formatting import ago, count, table
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.installation.extras import install_hint, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_agent.core.settings.root import McpServerSettings
    from hermes_agent.tools.mcp.context import McpContext
    from hermes_agent.tools.mcp.provider import Servers

Named = dict[str, "McpServerSettings"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class _Parser(Parser):
    """Takes everything after `--` as the command, wherever options are."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if self.get_default("command") is None or "--" not in words:
            return super().parse_known_args(words, namespace)
        cut = words.index("--")
        options, stray = super().parse_known_args(words[:cut], namespace)
        options.command = words[cut + 1 :]
        return options, stray


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, parser_class=_Parser)
    _add_arguments(add_action(actions, "add", _add, "add a server"))
    add_action(actions, "list", _list, "the configured servers and their tools")
    add_action(actions, "tools", _tools, "what a server offers", "name")
    agree = add_action(actions, "agree", _agree, "show changed tools, and accept them", "name")
    agree.add_argument("mark", nargs="?", default="", metavar="MARK", help="accept exactly these")
    add_action(actions, "test", _test, "connect to a server, and measure the time", "name")
    add_action(actions, "login", _login, "log in to a server with a browser", "name")
    add_action(actions, "logout", _logout, "log out of a server", "name")
    add_action(actions, "remove", _remove, "remove a server", "name")
    serve = actions.add_parser(
        "serve",
        help="run Hermes as an MCP server, for other agents and editors",
        description=command.__doc__,
    )
    command.arguments(serve)
    serve.set_defaults(act=command.serve)


def _add_arguments(add: argparse.ArgumentParser) -> None:
    add.usage = (
        "hermes mcp add NAME [options] -- COMMAND…\n       hermes mcp add NAME [options] --url URL"
    )
    add.add_argument("name", help="its name: letters, digits, dashes and underscores")
    add.add_argument("--url", default="", help="the address of a remote server")
    add.add_argument("--oauth", action="store_true", help="the server needs a login with a browser")
    add.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'",
        help="an HTTP header; repeatable",
    )  # fmt: skip
    add.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE",
        help="a variable for the program; repeatable",
    )  # fmt: skip
    add.set_defaults(command=[])


def _configured() -> tuple[Path, Named]:
    home, settings = home_and_settings()
    return home, settings.mcp


def _list(options: argparse.Namespace) -> int:
    home, servers = _configured()
    rows = [_row(name, one, home) for name, one in sorted(servers.items())]
    text = "no servers; `hermes mcp add NAME -- COMMAND…` or `hermes mcp add NAME --url URL`"
    if rows:
        cells = [(row["name"], row["kind"], _state(row), row["address"]) for row in rows]
        text = table(("server", "kind", "", ""), cells)
    return emit(options, rows, text)


def _row(name: str, settings: "McpServerSettings", home: Path) -> dict[str, Any]:
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache

    facts = CatalogueCache(home / "mcp").get(name, settings)
    return {
        "name": name,
        "kind": "local" if settings.command else "remote",
        "address": settings.url or " ".join(settings.command),
        "enabled": settings.enabled,
        "tools": len(facts.offered(settings)) if facts else None,
        "changed": sorted(facts.changed()) if facts else [],
        "seen": facts.seen if facts else None,
        "title": facts.title if facts else "",
    }


def _state(row: dict[str, Any]) -> str:
    if not row["enabled"]:
        return "off"
    if row["seen"] is None:
        return "never connected"
    changed = f", {len(row['changed'])} changed" if row["changed"] else ""
    return f"{count(row['tools'], 'tool')}{changed}, seen {ago(row['seen'], time.time())}"


def _add(options: argparse.Namespace) -> int:
    name = options.name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"not a valid server name: {name!r}",
            "at most 40 letters, digits, dashes and underscores, starting with a letter or digit",
        )
    if name in _configured()[1]:
        raise UsageError(f"a server called {name!r} already exists", f"`hermes mcp remove {name}`")
    entry = _entry(options)
    write_setting(f"mcp.{name}", json.dumps(entry))
    then = f"`hermes mcp {'login' if options.oauth else 'test'} {name}`"
    does = "logs in" if options.oauth else "connects"
    return emit(options, {"name": name, **entry}, f"added {name}\n{then} {does} to it")


def _entry(options: argparse.Namespace) -> dict[str, Any]:
    if bool(options.command) == bool(options.url):
        raise UsageError("give either a command or --url", "NAME -- COMMAND…, or NAME --url URL")
    if options.command and (options.header or options.oauth):
        raise UsageError("--header and --oauth need --url", "leave them out")
    if options.url and options.env:
        raise UsageError("--env needs a command, not --url", "leave it out")
    if options.url and not options.url.startswith(("https://", "http://")):
        raise UsageError(f"not a URL: {options.url!r}", "it starts with https:// or http://")
    program = [os.path.abspath(word) if n == 0 and "/" in word else word
               for n, word in enumerate(options.command)]  # fmt: skip
    environment = dict(_split(one, "=", "NAME=VALUE") for one in options.env)
    path = environment.get("PATH", os.environ.get("PATH"))
    if program and shutil.which(program[0], path=path) is None:
        raise UsageError(f"no program called {program[0]!r}", "install it, or correct the command")
    entry = {
        "command": program,
        "url": options.url,
        "oauth": options.oauth,
        "headers": dict(_split(one, ":", "'NAME: VALUE'") for one in options.header),
        "environment": environment,
    }
    return {name: value for name, value in entry.items() if value}


def _split(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"{text!r} is not {form}", f"write {form}")
    return name.strip(), value.strip()


def _remove(options: argparse.Namespace) -> int:
    from hermes_agent.host.config import remove_setting
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache

    name, _settings, home = _named(options)
    remove_setting(home / "config.yaml", f"mcp.{name}")
    _forget(name, home)
    CatalogueCache(home / "mcp").drop(name)
    return emit(options, {"name": name, "removed": True}, f"removed {name}")


def _logout(options: argparse.Namespace) -> int:
    name, _settings, home = _named(options)
    was = _forget(name, home)
    text = f"logged out of {name}" if was else f"you were not logged in to {name}"
    return emit(options, {"name": name, "logged_out": was}, text)


def _forget(name: str, home: Path) -> bool:
    file = _context(home).token_file(name)
    was = file.exists()
    file.unlink(missing_ok=True)
    return was


def _named(options: argparse.Namespace) -> "tuple[str, McpServerSettings, Path]":
    home, servers = _configured()
    if options.name not in servers:
        available = ", ".join(sorted(servers)) or "none"
        raise NotFound(f"no server called {options.name!r}", f"configured: {available}")
    return options.name, servers[options.name], home


def _context(home: Path) -> "McpContext":
    from hermes_agent.policy.secrets import Secrets
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache
    from hermes_agent.tools.mcp.context import McpContext

    secrets = Secrets(os.environ, home)
    return McpContext(home, CatalogueCache(home / "mcp"), secrets.get, os.environ, time.time)


def _servers(name: str, settings: "McpServerSettings", home: Path) -> "Servers":
    """This one server, even if it is disabled."""
    from msgspec.structs import replace

    from hermes_agent.tools.mcp.provider import Servers

    only = {name: replace(settings, enabled=True)}
    context = _context(home)
    return Servers(lambda: only, home, context.secret, os.environ, time.time)


def _tools(options: argparse.Namespace) -> int:
    rows, left_out = asyncio.run(_offered(*_named(options)))
    text = table(("tool", ""), [(row["name"], row["about"]) for row in rows])
    if left_out:
        text += f"\n{left_out} more were left out: names too long, or too many tools"
    return emit(options, rows, text)


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


def _agree(options: argparse.Namespace) -> int:
    """What is agreed to is what was shown: the mark is a hash of it."""
    from difflib import unified_diff
    from hashlib import sha256

    import msgspec

    from hermes_agent.core.text.terminal import visible
    from hermes_agent.tools.mcp.catalogue_cache import CatalogueCache

    def lines(tool: object) -> list[str]:
        return visible(json.dumps(msgspec.to_builtins(tool), indent=2)).splitlines()

    name, settings, home = _named(options)
    cache = CatalogueCache(home / "mcp")
    facts = cache.get(name, settings)
    changed = facts.changed() if facts else {}
    if facts is None or not changed:
        return emit(options, {"name": name, "changed": {}}, f"no tools of {name} have changed")
    shown = {
        tool: list(unified_diff(lines(before), lines(now), "agreed to", "now", lineterm=""))
        for tool, (before, now) in sorted(changed.items())
    }
    mark = sha256(json.dumps(shown).encode()).hexdigest()[:12]
    if options.mark == mark:
        cache.agree(name, facts)
        return emit(options, {"name": name, "agreed": sorted(changed)}, f"agreed: {name} is used")
    text = "\n".join(line for tool, rows in shown.items() for line in (tool, *rows))
    text += f"\nhint: `hermes mcp agree {name} {mark}` lets the agent call them again"
    return emit(options, {"name": name, "changed": shown, "mark": mark}, text)


def _test(options: argparse.Namespace) -> int:
    done = asyncio.run(_tried(*_named(options)))
    text = (
        f"{options.name}: {done['title'] or 'a server without a name'}, "
        f"{count(done['tools'], 'tool')}; ready in {done['seconds']:.2f} s "
        f"(protocol {done['protocol']})"
    )
    return emit(options, done, text)


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


def _login(options: argparse.Namespace) -> int:
    import msgspec

    name, before, home = _named(options)
    settings = msgspec.structs.replace(before, oauth=True)
    if not settings.url:
        raise UsageError(f"{name} is a program on this machine", "only remote servers need a login")
    facts = asyncio.run(_logged_in(name, settings, home))
    if settings != before:
        plain = msgspec.to_builtins(settings)
        default = msgspec.to_builtins(type(settings)())
        entry = {key: value for key, value in plain.items() if value != default[key]}
        write_setting(f"mcp.{name}", json.dumps(entry))
    count = len(facts.offered(settings))
    return emit(options, {"name": name, "tools": count}, f"logged in to {name}, tools: {count}")


async def _logged_in(name: str, settings: "McpServerSettings", home: Path) -> Any:
    import threading

    log_in = _loaded().log_in
    loop = asyncio.get_running_loop()

    def show(address: str, paste: "Callable[[str], bool]") -> None:
        print(f"open this in a browser:\n\n  {address}\n", file=sys.stderr)
        print(
            "If the browser is on another machine, paste the final address from it here.",
            file=sys.stderr,
            flush=True,
        )

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(paste, line)

        threading.Thread(target=read, daemon=True).start()

    context = _context(home)
    facts = await log_in(name, settings, context, show, settings.timeout_seconds)
    context.cache.put(name, facts)
    return facts


def _loaded() -> Any:
    try:
        from hermes_agent.tools.mcp.transports import opening
    except ModuleNotFoundError as error:
        raise HermesError(needs("MCP", [error.name or "mcp"]), install_hint("mcp")) from None
    return opening
