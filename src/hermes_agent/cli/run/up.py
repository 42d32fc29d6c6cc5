"""Start the runtime in the background. Commands do this by themselves when it is not there."""

import argparse
import json
import os

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.host.paths import socket_paths


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    already = api.is_up()
    api.ensure()
    status = api.get("/v1/status")
    if options.json:
        socket = next(filter(os.path.exists, socket_paths(api.home)), "")
        print(json.dumps({**status, "socket": socket}))
    else:
        print(f"{'already up' if already else 'up'}, pid {status['pid']}, home {status['home']}")
        if status["state"] == "degraded":
            print(f"degraded: {status['reason']}\nhint: {status['hint']}")
    return 0 if status["state"] == "running" else 1
