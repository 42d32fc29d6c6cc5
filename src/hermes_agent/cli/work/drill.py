"""Drills: a small machine is really broken; Hermes detects it, heals it and reports. Checks outside
the machine, which nothing inside can see or touch, judge the result.

Every run has a seed, which decides the stack, its layout, names, ports and paths. Some stacks and
layouts (--held) and some mechanisms (--foreign) are held out from practice, for measurements.
Drills run as you, in namespaces of their own, and touch nothing outside. They are a separate
package, `hermes-drills`."""

import argparse
from importlib.util import find_spec

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.host.distributions import NotInstalled
from hermes_agent.host.paths import socket_paths

PACKAGE = "hermes_drills"


def arguments(parser: argparse.ArgumentParser) -> None:
    if find_spec(PACKAGE) is None:
        parser.add_argument("words", nargs=argparse.REMAINDER, help="arguments of hermes-drills")
        return
    from hermes_drills.run import commands

    commands.arguments(parser)


def completed(words: list[str]) -> list[str]:
    """The words unchanged, if the package is installed."""
    if find_spec(PACKAGE) is None and not {"-h", "--help"} & {*words}:
        raise NotInstalled(PACKAGE)
    return words


def abandoned(home: str) -> list[str]:
    """The boxes that killed drills left in a home; none without the package."""
    if find_spec(PACKAGE) is None:
        return []
    from pathlib import Path

    from hermes_drills.run import left

    try:
        return [box.folder.name for box in left.abandoned(Path(home))]
    except OSError:  # no such home, which is reported elsewhere
        return []


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from hermes_drills import errors
    from hermes_drills.run import commands
    from hermes_drills.run.client import Runtime

    api = RuntimeClient()
    try:
        runtime = Runtime(Path(api.home), tuple(socket_paths(api.home)), api.ensure)
        return commands.run(options, runtime)
    except errors.DrillError as error:
        kind = UsageError if isinstance(error, errors.UsageError) else HermesError
        raise kind(error.message, error.hint) from None
