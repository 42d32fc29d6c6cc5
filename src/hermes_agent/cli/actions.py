"""What command modules share: actions (`hermes memory add`), the runtime, and printing results."""

import argparse
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.cli.output.pager import show

if TYPE_CHECKING:
    from hermes_agent.cli.client.api import RuntimeClient


def add_actions(
    parser: argparse.ArgumentParser, act: Any, *, parser_class: Any = None, **defaults: object
) -> Any:
    """Add `--json` and a list of actions; without an action, `act` runs."""
    json_option(parser)
    parser.set_defaults(act=act, **defaults)
    return parser.add_subparsers(
        metavar="ACTION", title="actions", dest="action",
        parser_class=parser_class or type(parser),
        prog=parser.prog,  # to find it, argparse would measure the terminal
    )  # fmt: skip


def add_action(
    actions: Any, name: str, act: Any, summary: str, *arguments: str
) -> argparse.ArgumentParser:
    """Add one action that `act` runs; it takes --json and these positional arguments."""
    made: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    for argument in arguments:
        made.add_argument(argument, metavar=argument.upper())
    json_option(made, default=argparse.SUPPRESS)
    made.set_defaults(act=act)
    return made


def connect() -> "RuntimeClient":
    """The runtime of this home, started if it was not running."""
    from hermes_agent.cli.client.api import RuntimeClient

    api = RuntimeClient()
    api.ensure()
    return api


def emit(options: argparse.Namespace, document: Any, text: str = "", code: int = 0) -> int:
    """Print the result: a document with --json, a text otherwise, paged if it is long. Returns the
    exit code."""
    if options.json:
        print_json(document)
    elif text:
        show(text)
    return code
