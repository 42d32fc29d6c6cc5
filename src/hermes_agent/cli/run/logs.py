"""Show the end of the runtime's log; `--follow` goes on as it grows."""

import argparse
import os
import time

from hermes_agent.cli.arguments import positive
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.text.terminal import clean
from hermes_agent.host.paths import find_home, log_path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=positive, default=50, help="how many lines (default 50)")
    parser.add_argument("--follow", "-f", action="store_true", help="go on as it grows")


def run(options: argparse.Namespace) -> int:
    path = log_path(find_home(os.environ))
    try:
        file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise NotFound(f"no log at {path}", "`hermes up` starts the runtime") from None
    except OSError as error:
        raise HermesError(f"cannot read {path}: {error.strerror}", "`hermes doctor`") from None
    with file:
        for line in file.readlines()[-options.lines :]:
            print(clean(line), end="")
        while options.follow:
            line = file.readline()
            if line:
                print(clean(line), end="", flush=True)
            else:
                time.sleep(0.2)
    return 0
