"""Start the runtime in the background. Commands do this by themselves when it is not there."""

import argparse
import json

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client import Api


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    api = Api()
    already = api.is_up()
    api.ensure()
    status = api.get("/v1/status")
    if options.json:
        print(json.dumps(status))
    else:
        print(f"{'already up' if already else 'up'}, pid {status['pid']}, home {status['home']}")
        if status["state"] == "degraded":
            print(f"degraded: {status['reason']}\nhint: {status['hint']}")
    return 0 if status["state"] == "running" else 1
