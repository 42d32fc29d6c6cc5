"""Stop the runtime and start it again; it goes on with the turns it was working on."""

import argparse

from hermes_agent.cli import up
from hermes_agent.cli.client import Api
from hermes_agent.cli.down import stop
from hermes_agent.cli.restarting import restarting


def arguments(parser: argparse.ArgumentParser) -> None:
    up.arguments(parser)


def run(options: argparse.Namespace) -> int:
    api = Api()
    with restarting(api.home):
        stop(api)
        return up.run(options)
