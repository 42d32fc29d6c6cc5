"""Install optional parts of Hermes: channels, terminals, tools. Without a name, list them.

It finds out how Hermes was installed (pip, pipx, uv, from a checkout), shows the command that
it will run, and asks."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import emit
from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import sure, table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import PARTS, OptionalPart, lacking
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_LINES = 12
"""How much of a failed installer's output is shown."""
_STEP = re.compile(r"(Collecting|Downloading|Building|Preparing|Resolved|Prepared|Installing)\b.*")
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off",
          "PIP_ROOT_USER_ACTION": "ignore", "PIP_USER": "0", "NO_COLOR": "1"}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", nargs="*", metavar="PART", help="`hermes add` lists them")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="print the command and stop")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    if not options.parts:
        return _list(options)
    chosen = list(dict.fromkeys(_part(word) for word in options.parts))
    absent = [part for part in chosen if lacking(part.name)]
    document: dict[str, Any] = {
        "parts": [part.name for part in chosen], "commands": [], "restart": False
    }  # fmt: skip
    if not absent:
        return emit(options, document, f"installed already: {_names(chosen)}")
    from hermes_agent.host.installation import find_installer, this_place  # slow to import

    installer = find_installer(this_place())
    commands = installer.commands(absent)
    document["commands"] = commands
    shown = "\n".join(map(shlex.join, commands))
    if options.dry_run:
        return emit(options, document, shown)
    print(f"Hermes was installed with {installer.name}. To install {_names(absent)}, this runs:\n"
          f"\n{shown}\n", file=sys.stderr)  # fmt: skip
    if not sure("run it?", options.yes):
        return emit(options, document, "nothing was changed", 1)
    for command in commands:
        _install(installer.name, command)
    _prove(absent)
    document["restart"] = RuntimeClient().is_up()
    lines = [f"installed: {_names(absent)}"]
    if document["restart"]:
        lines.append("next: `hermes restart` loads it into the running runtime")
    lines += [f"next: `{part.then}`" for part in absent if part.then]
    if installer.note:
        lines.append(installer.note)
    return emit(options, document, "\n".join(lines))


def _names(parts: "Sequence[OptionalPart]") -> str:
    return ", ".join(part.name for part in parts)


def _part(word: str) -> OptionalPart:
    known = {name: part for part in PARTS.values() for name in (part.name, *part.aliases)}
    if word.lower() in known:
        return known[word.lower()]
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), known, 1)
    meant = f"did you mean `hermes add {known[near[0]].name}`? " if near else ""
    raise UsageError(f"no part called {word!r}", f"{meant}`hermes add` lists them")


def _list(options: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = [
        {
            "name": part.name, "about": part.about, "aliases": list(part.aliases),
            "installed": not lacking(part.name),
        }
        for part in PARTS.values()
    ]  # fmt: skip
    cells = [(row["name"], "yes" if row["installed"] else "no", row["about"]) for row in rows]
    text = table(("part", "installed", "what it is for"), cells)
    return emit(options, rows, f"{text}\n\n`hermes add PART` installs one")


def _install(name: str, command: list[str]) -> None:
    """Run an installer; on a terminal, one line shows how far it is."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | _QUIET, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise HermesError(f"cannot run {command[0]}: {error.strerror}") from None
    assert process.stdout is not None
    lines = []
    with process, Progress("starting") as progress:
        for line in filter(None, (clean(line).rstrip() for line in process.stdout)):
            lines.append(line)
            if _STEP.match(line.strip()):
                progress.what = line.strip()
    if process.returncode:
        failed = [line for line in lines if re.match(r"\s*(ERROR|error)", line)] or lines
        print("\n".join(failed[-LAST_LINES:]), file=sys.stderr)
        raise HermesError(
            f"{name} could not install it (exit code {process.returncode})",
            "check the network and the package index; the command itself prints more",
        )


def _prove(parts: "Sequence[OptionalPart]") -> None:
    """Import the parts in a new process; this one may remember that they were missing."""
    for part in parts:
        code = f"import {', '.join(part.packages)}"
        if part.data_only:
            code = f"from importlib.util import find_spec as s; s({part.packages[0]!r}).origin"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = clean(done.stderr).strip().splitlines()[-1:] or ["not found"]
            raise HermesError(
                f"{part.name} was installed, but cannot be imported: {why[0]}", "`hermes doctor`"
            )
