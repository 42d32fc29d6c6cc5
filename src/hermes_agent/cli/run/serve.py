"""Run the runtime in the foreground, until it is told to stop or has been idle for long enough."""

import argparse
import os
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    """There are none: everything is in config.yaml."""


def run(options: argparse.Namespace) -> int:  # noqa: ARG001 - every command has this shape
    from hermes_agent.gateway.gateway import Gateway
    from hermes_agent.host.paths import find_home
    from hermes_agent.runtime.process import serve
    from hermes_agent.web.api import ChatCompletionsApi

    serve(Path(find_home(os.environ)), os.environ, services=(ChatCompletionsApi, Gateway))
    return 0
