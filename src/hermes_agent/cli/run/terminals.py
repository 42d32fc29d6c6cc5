"""Where commands can run: the terminals of `config.yaml`, whether each is usable now and, if not,
what is missing; and the kinds there are.

`hermes terminals test NAME` opens one for real, runs a command in it, and removes it again."""

import argparse
import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import HermesError, UsageError

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    test = actions.add_parser("test", help="open one for real and run a command in it")
    test.add_argument("name", help="its name")
    test.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    test.set_defaults(act=_test)


def run(options: argparse.Namespace) -> int:
    from hermes_agent.host.config import load_settings
    from hermes_agent.host.paths import find_home

    home = Path(find_home(os.environ))
    code: int = options.act(options, load_settings(home / "config.yaml", os.environ), home)
    return code


def _list(options: argparse.Namespace, settings: "Settings", _home: Path) -> int:
    rows = asyncio.run(_looked_at(settings))
    if options.json:
        print_json(rows)
        return 0
    cells = [
        (
            row["name"] + (" *" if row["default"] else ""),
            row["kind"],
            "yes" if row["usable"] else "no",
            row["missing"] or row["summary"],
        )
        for row in rows
    ]
    print(table(("terminal", "kind", "usable", ""), cells))
    print("* is the default; `hermes config set terminal.default NAME` changes it")
    return 0


async def _looked_at(settings: "Settings") -> list[dict[str, Any]]:
    from hermes_agent.terminals.registry import KINDS, check, kind_of, missing, unset

    places = settings.places
    kinds = {name: kind_of(place).name for name, place in places.items()}
    checks = [check(kinds[name], place, os.environ) for name, place in places.items()]
    rows = [
        _row(name, kinds[name], lacking, settings.terminal.default == name)
        for name, lacking in zip(places, await asyncio.gather(*checks), strict=True)
    ]
    for kind in KINDS.values():
        if kind.name not in kinds.values():  # not looked at: some take seconds to load
            lacking = missing(kind) or unset(kind, os.environ)
            lacking = lacking or f"none is set up in `terminals`; it needs {kind.needs}"
            rows.append(_row("-", kind.name, lacking, False))
    return rows


def _row(name: str, kind: str, missing: str, default: bool) -> dict[str, Any]:
    from hermes_agent.terminals.registry import KINDS

    return {
        "name": name,
        "kind": kind,
        "usable": not missing,
        "missing": missing,
        "default": default,
        "summary": KINDS[kind].summary,
    }


def _test(options: argparse.Namespace, settings: "Settings", home: Path) -> int:
    if options.name not in settings.places:
        raise UsageError(
            f"no terminal called {options.name!r}", f"there are: {', '.join(settings.places)}"
        )
    told = asyncio.run(_tried(options.name, settings, home))
    if options.json:
        print_json(told)
    else:
        print(f"{options.name}: {told['system']} in {told['workspace']}")
        print(f"ready in {told['ready']:.2f} s, a command took {told['command'] * 1000:.1f} ms")
    return 0


async def _tried(name: str, settings: "Settings", home: Path) -> dict[str, Any]:
    from hermes_agent.core.protocols import ShellCommand
    from hermes_agent.terminals.registry import open_terminal

    trial = f"trial-{os.getpid()}"
    terminal = open_terminal(
        settings.places[name],
        session=trial,
        workspace=os.getcwd(),
        folder=home / "terminals" / trial / name,
        settings=settings.terminal,
        environ=os.environ,
        clock=time.time,
    )
    try:
        began = time.perf_counter()
        first = await terminal.run(ShellCommand("trial-1", "uname -sr"))
        ready = time.perf_counter() - began
        if first.code != 0:
            raise HermesError(f"{name} could not run a command: {first.stderr.strip()}")
        began = time.perf_counter()
        await terminal.run(ShellCommand("trial-2", "true"))
        return {
            "terminal": name,
            "system": first.stdout.strip(),
            "workspace": terminal.workspace,
            "ready": ready,
            "command": time.perf_counter() - began,
        }
    finally:
        await terminal.destroy()
        folder = home / "terminals" / trial
        if folder.is_dir():
            import shutil

            shutil.rmtree(folder)
