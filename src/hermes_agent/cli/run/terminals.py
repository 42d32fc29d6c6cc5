"""Where commands can run: the terminals in `config.yaml`, whether each is usable now and what is
missing if not; then the other kinds of terminal.

`hermes terminals test NAME` opens one, runs a command in it, and removes it again."""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import add_action, add_actions, emit
from hermes_agent.cli.home import home_and_settings
from hermes_agent.cli.output.formatting import table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import HermesError, UsageError

if TYPE_CHECKING:
    from hermes_agent.core.protocols import Terminal
    from hermes_agent.core.settings.root import Settings


NEEDED = "the kernel needs bubblewrap, and user namespaces allowed"


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    add_action(actions, "test", _test, "open a terminal and run a command in it", "name")


def _list(options: argparse.Namespace) -> int:
    rows = asyncio.run(_checked(home_and_settings()[1]))
    cells = [
        (
            row["name"] + (" *" if row["default"] else ""),
            row["kind"],
            "yes" if row["usable"] else "no",
            row["looks"],
            row["changes"],
            row["missing"] or (row["why"] and f"{row['summary']}; {row['why']}") or row["summary"],
        )
        for row in rows
    ]
    head = ("terminal", "kind", "usable", "read-only by", "confined by", "")
    text = table(head, cells)
    hint = "* is the default; `hermes config set terminal.default NAME` changes it"
    return emit(options, rows, f"{text}\n{hint}")


async def _checked(settings: "Settings") -> list[dict[str, Any]]:
    from hermes_agent.terminals.registry import KINDS, check, kind_of, missing, unset

    places = settings.places
    kinds = {name: kind_of(place).name for name, place in places.items()}
    checks = [check(kinds[name], place, os.environ) for name, place in places.items()]
    lacks = dict(zip(places, await asyncio.gather(*checks), strict=True))
    probes = [_held_at(name, settings, lacks[name]) for name in places]
    rows = [
        _row(name, kinds[name], lacks[name], settings.terminal.default == name, held)
        for name, held in zip(places, await asyncio.gather(*probes), strict=True)
    ]
    for kind in KINDS.values():
        if kind.name not in kinds.values():  # not checked: some take seconds to load
            lacking = missing(kind) or unset(kind, os.environ)
            lacking = lacking or f"not configured in `terminals`; needs {kind.needs}"
            rows.append(_row("-", kind.name, lacking, False, _held("it is not configured")))
    return rows


def _row(name: str, kind: str, missing: str, default: bool, held: dict[str, str]) -> dict[str, Any]:
    from hermes_agent.terminals.registry import KINDS

    return {
        "name": name,
        "kind": kind,
        "usable": not missing,
        "missing": missing,
        "default": default,
        **held,
        "summary": KINDS[kind].summary,
    }


def _held(looks: str, changes: str | None = None) -> dict[str, str]:
    """What keeps commands that only look from writing, and those that may change the workspace
    from writing elsewhere, by why it is not the kernel."""
    changes = looks if changes is None else changes
    return {
        "looks": "rules" if looks else "kernel",
        "changes": "rules" if changes else "kernel",
        "why": looks or (changes and f"changes: {changes}"),
    }


async def _held_there(terminal: "Terminal") -> dict[str, str]:
    return _held(await terminal.unconfined(), await terminal.unconfined("workspace"))


async def _held_at(name: str, settings: "Settings", missing: str) -> dict[str, str]:
    """A machine that is there is asked; one that would be made for it is not."""
    from hermes_agent.terminals.registry import lasts

    if missing:
        return _held("not usable")
    if not lasts(settings.places[name]):
        return _held(f"see `hermes terminals test {name}`")
    try:
        async with _trial(name, settings, home_and_settings()[0]) as terminal:
            held = await _held_there(terminal)
    except HermesError as error:
        held = _held(error.message)
    return {**held, "why": f"{held['why']}: {NEEDED}"} if held["looks"] == "rules" else held


def _test(options: argparse.Namespace) -> int:
    home, settings = home_and_settings()
    if options.name not in settings.places:
        raise UsageError(
            f"no terminal called {options.name!r}", f"available: {', '.join(settings.places)}"
        )
    with Progress(f"opening {options.name}"):
        done = asyncio.run(_tried(options.name, settings, home))
    text = (
        f"{options.name}: {done['system']} in {done['workspace']}\n"
        f"ready in {done['ready']:.2f} s, a command took {done['command'] * 1000:.1f} ms\n"
        f"read-only commands are confined by the {done['looks']}, others by the {done['changes']}"
        f"{done['why'] and '; ' + done['why']}"
    )
    return emit(options, done, text)


@asynccontextmanager
async def _trial(name: str, settings: "Settings", home: Path) -> AsyncIterator["Terminal"]:
    """A terminal for a moment."""
    from hermes_agent.terminals.registry import open_terminal

    trial = f"trial-{os.getpid()}-{name}"
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
        yield terminal
    finally:
        await terminal.destroy()
        folder = home / "terminals" / trial
        if folder.is_dir():
            import shutil

            shutil.rmtree(folder)


async def _tried(name: str, settings: "Settings", home: Path) -> dict[str, Any]:
    from hermes_agent.core.protocols import ShellCommand

    async with _trial(name, settings, home) as terminal:
        began = time.perf_counter()
        first = await terminal.run(ShellCommand("trial-1", "uname -sr"))
        ready = time.perf_counter() - began
        if first.code != 0:
            raise HermesError(f"{name} could not run a command: {first.stderr.strip()}")
        began = time.perf_counter()
        await terminal.run(ShellCommand("trial-2", "true"))
        took = time.perf_counter() - began
        return {
            "terminal": name,
            "system": first.stdout.strip(),
            "workspace": terminal.workspace,
            "ready": ready,
            "command": took,
            **await _held_there(terminal),
        }
