"""Stop what a session is doing, at once. What was done is kept."""

import argparse
import json
from urllib.parse import quote

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client import Api


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="its id, the beginning of its id, or its name")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    api = Api()
    api.ensure()
    told = api.post(f"/v1/sessions/{quote(options.session)}/interrupt")
    if options.json:
        print(json.dumps(told))
    else:
        print("interrupted" if told["interrupted"] else "it was not doing anything")
    return 0
