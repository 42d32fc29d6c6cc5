"""Stop the runtime and start it again; it goes on with the turns it was working on."""

import argparse

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.client.restart_lock import restarting
from hermes_agent.cli.run import up
from hermes_agent.cli.run.down import stop


def arguments(parser: argparse.ArgumentParser) -> None:
    up.arguments(parser)


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    with restarting(api.home):
        stop(api)
        return up.run(options)
