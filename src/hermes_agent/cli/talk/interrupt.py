"""Stop what a session is doing, at once. What was done is kept."""

import argparse
import json

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient, session_path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="its id, the beginning of its id, or its name")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    path = session_path(options.session)
    api.ensure()
    told = api.post(f"{path}/interrupt")
    if options.json:
        print(json.dumps(told))
    else:
        print("interrupted" if told["interrupted"] else "it was not doing anything")
    return 0
