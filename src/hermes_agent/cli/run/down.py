"""Stop the runtime. Turns under way are taken up by the next one; commands go on running."""

import argparse
import json
import time
from typing import Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.core.errors import HermesError
from hermes_agent.host.inspect import alive

STOP_SECONDS = 20.0
POLL_SECONDS = 0.02


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    stopped = stop(RuntimeClient()) or {}
    pid, jobs = stopped.get("pid"), (stopped.get("jobs") or {}).get("active", 0)
    if options.json:
        print(json.dumps({"state": "stopped", "pid": None, "was": pid, "jobs": jobs}))
        return 0
    print(f"down (was pid {pid})" if pid else "it was not running")
    if jobs:
        some = "1 job is" if jobs == 1 else f"{jobs} jobs are"
        print(f"{some} active and will be missed until it is up again\nhint: `hermes up`")
    return 0


def stop(api: RuntimeClient) -> dict[str, Any] | None:
    """Ask the runtime to stop and wait until its process has ended; how it was, or None."""
    try:
        status: dict[str, Any] = api.get("/v1/status")
        api.post("/v1/stop")
    except RuntimeGone:
        return None
    pid = int(status["pid"])
    for _ in range(round(STOP_SECONDS / POLL_SECONDS)):  # not by the clock: we may stand still, too
        if not alive(pid):
            return status
        time.sleep(POLL_SECONDS)
    raise HermesError(
        f"the runtime (pid {pid}) has not stopped after {STOP_SECONDS:.0f} s",
        "it waits for an effect to end; `hermes logs` may say which",
    )
