"""Commands that have actions, as `hermes memory` and `hermes skills` do."""

import argparse
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import print_json


def add_action(actions: Any, name: str, act: Any, summary: str) -> argparse.ArgumentParser:
    """One more action, which `act` does. It takes --json, too, where the command itself does."""
    made: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    made.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document"
    )
    made.set_defaults(act=act)
    return made


def runtime() -> RuntimeClient:
    """The runtime of this home, started where it was not."""
    api = RuntimeClient()
    api.ensure()
    return api


def run_action(options: argparse.Namespace) -> int:
    """Do the action that was chosen; with --json, print what it returns."""
    told = options.act(runtime(), options)
    if options.json:
        print_json(told)
    return 0
