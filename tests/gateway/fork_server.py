"""Starts runtimes with a gateway quickly: everything is imported once, and each runtime is a fork.

Run as `python -m tests.gateway.fork_server`; reads `HOME` lines, answers `pid`."""

import os
import signal
import sys
import traceback
from pathlib import Path

from hermes_agent.gateway.delivery import publisher  # noqa: F401
from hermes_agent.gateway.gateway import Gateway
from hermes_agent.gateway.registry import ChannelRegistry

# What a runtime with channels needs is imported before it is forked.
from hermes_agent.models import scripted  # noqa: F401
from hermes_agent.runtime.process import serve
from tests.support.loop_channel import manifest

KNOWING = ("alpha", "beta", "gamma")
"""Channels whose platform knows a key that comes again."""
FORGETFUL = "delta"
CHANNELS = (*KNOWING, FORGETFUL)
BOOK = ChannelRegistry({name: manifest(name, knows_twice=name != FORGETFUL) for name in CHANNELS})


def run(home: Path) -> None:
    os.setsid()
    log = os.open(home / "fork.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    serve(home, dict(os.environ), services=(lambda runtime: Gateway(runtime, registry=BOOK),))


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children need no burial
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                run(Path(line.rstrip("\n")))
            finally:  # a fork must never go on with this loop
                traceback.print_exc()
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
