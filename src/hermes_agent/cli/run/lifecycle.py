"""Start, stop and follow the runtime: `hermes up`, `down`, `restart`, `logs` and `serve`."""

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hermes_agent.cli.actions import emit
from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.output.formatting import count, sure
from hermes_agent.cli.output.pager import show
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.text.terminal import clean
from hermes_agent.host import paths
from hermes_agent.host.paths import (
    UNIT,
    find_home,
    has_systemd,
    log_path,
    run_folder,
    socket_paths,
    supervisor_note,
)

STOP_SECONDS = 20.0
POLL_SECONDS = 0.02
RESTARTS = ("5", "600", "1")
"""How often a runtime that crashes is restarted, within how many seconds, and the first pause."""


def up_arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "--unit", action=argparse.BooleanOptionalAction,
        help="have systemd restart it, also after a reboot; --no-unit: do not ask",
    )  # fmt: skip


def up(options: argparse.Namespace) -> int:
    """Start the runtime in the background, and have it restarted after a crash: by systemd if you
    agree, otherwise by a small process. Other commands start it themselves when needed."""
    from hermes_agent.cli.run.unit import has_unit, systemctl

    api = RuntimeClient()
    by_systemd = has_unit(api.home) or _wants_unit(options, api)
    already = api.is_up()
    if by_systemd:  # its runtime waits for one that something else has started
        systemctl("start", UNIT)
    api.ensure()
    status = api.get("/v1/status")
    socket = next(filter(os.path.exists, socket_paths(api.home)), "")
    text = f"{'already up' if already else 'up'}, pid {status['pid']}, home {status['home']}"
    if status["reason"]:
        text += f"\n{status['state']}: {status['reason']}\nhint: {status['hint']}"
    supervised = 0 if by_systemd else _supervise(api.home, status["pid"], socket)
    found = {**status, "socket": socket, "unit": by_systemd, "supervisor": supervised or None}
    return emit(options, found, text, int(status["state"] != "running"))


def _wants_unit(options: argparse.Namespace, api: RuntimeClient) -> bool:
    """Install a unit if that is wanted; whether there is one now."""
    wanted = getattr(options, "unit", None)
    if wanted and not has_systemd():
        raise UsageError(
            "systemd is not running here",
            "`hermes up` alone restarts the runtime after a crash, but not after a reboot",
        )
    if wanted is None and has_systemd() and os.isatty(0) and not options.json:
        wanted = sure("Have systemd restart it after a crash and a reboot?", yes=False)
    if not wanted:
        return False
    from hermes_agent.cli.run.unit import systemctl, write_unit

    write_unit(api.home)
    systemctl("daemon-reload")
    stop(api)  # systemd starts its own
    systemctl("enable", UNIT)
    return True


def _supervise(home: str, pid: int, socket: str) -> int:
    """Start the process that restarts this runtime after a crash, unless it runs; its id."""
    import subprocess

    from hermes_agent.host.inspect import supervisor
    from hermes_agent.host.secret_handover import VARIABLE, set_apart

    running, _ = supervisor(home)
    run = run_folder(home)
    if running or not socket or not os.access(run, os.W_OK):
        return running
    # No secrets: it would hold them for as long as it runs. A restarted runtime reads those of the
    # home and the keyring.
    environ, secrets = set_apart({**os.environ, "HERMES_HOME": home})
    if secrets is not None:
        os.close(secrets)
        del environ[VARIABLE]
    script = os.path.join(os.path.dirname(paths.__file__), "supervisor.sh")
    note, lock = supervisor_note(home), os.path.join(run, "lock")
    command = ["bash", script, note, log_path(home), socket, lock, str(pid), *RESTARTS]
    process = subprocess.Popen(
        [*command, sys.executable, "-m", "hermes_agent", "serve"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env=environ,
    )
    return process.pid


def _end_supervisor(home: str) -> None:
    from hermes_agent.host.inspect import supervisor

    pid, _ = supervisor(home)
    if pid:
        os.kill(pid, signal.SIGTERM)
    with suppress(OSError):
        os.unlink(supervisor_note(home))


def down(options: argparse.Namespace) -> int:
    """Stop the runtime. The next one resumes turns under way; commands keep running."""
    stopped = stop(RuntimeClient()) or {}
    pid, jobs = stopped.get("pid"), (stopped.get("jobs") or {}).get("active", 0)
    text = f"down (was pid {pid})" if pid else "the runtime was not running"
    if jobs:
        text += f"\n{count(jobs, 'active job')} will be missed until it is up again"
        text += "\nhint: `hermes up`"
    return emit(options, {"state": "stopped", "pid": None, "was": pid, "jobs": jobs}, text)


def stop(api: RuntimeClient) -> dict[str, Any] | None:
    """Stop the runtime and wait until its process has ended; its last status, or None."""
    from hermes_agent.cli.run.unit import has_unit, systemctl

    status = _stop_runtime(api)
    if has_unit(api.home):
        with suppress(HermesError):  # one that waited to take over
            systemctl("stop", UNIT)
    return status


def _stop_runtime(api: RuntimeClient) -> dict[str, Any] | None:
    from hermes_agent.host.inspect import alive

    _end_supervisor(api.home)
    try:
        status: dict[str, Any] = api.get("/v1/status")
        api.post("/v1/stop")
    except RuntimeGone:
        return None
    pid = int(status["pid"])
    with Progress("waiting for the runtime to stop"):
        for _ in range(round(STOP_SECONDS / POLL_SECONDS)):  # not a clock: we may be suspended
            if not alive(pid):
                return status
            time.sleep(POLL_SECONDS)
    raise HermesError(
        f"the runtime (pid {pid}) has not stopped after {STOP_SECONDS:.0f} s",
        "it is waiting for an effect to end; `hermes logs` may say which",
    )


def restart(options: argparse.Namespace) -> int:
    """Stop the runtime and start it again; it resumes the turns it was working on."""
    from hermes_agent.cli.client.follower import restarting

    api = RuntimeClient()
    with restarting(api.home):
        stop(api)
        return up(options)


def logs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=positive, default=50, help="how many lines (default 50)")
    parser.add_argument("--follow", "-f", action="store_true", help="keep printing as it grows")


def logs(options: argparse.Namespace) -> int:
    """Show the end of the runtime's log; `--follow` keeps printing as it grows."""
    path = log_path(find_home(os.environ))
    try:
        file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise NotFound(f"no log at {path}", "`hermes up` starts the runtime") from None
    except OSError as error:
        raise HermesError(f"cannot read {path}: {error.strerror}", "`hermes doctor`") from None
    with file:
        lines = "".join(clean(line) for line in file.readlines()[-options.lines :])
        if not options.follow:
            show(lines.removesuffix("\n"), end=True)
            return 0
        print(lines, end="", flush=True)
        while True:
            line = file.readline()
            if line:
                print(clean(line), end="", flush=True)
            else:
                time.sleep(0.2)


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="wait while another process owns the home"
    )


def serve(options: argparse.Namespace) -> int:
    """Run the runtime in the foreground, until it is stopped or has been idle for long enough."""
    from hermes_agent.host.secret_handover import own_environment

    environ = own_environment(os.environ)
    if options.wait:
        _wait_for(find_home(environ))
    from hermes_agent.gateway.gateway import Gateway
    from hermes_agent.runtime.process import serve as serve_home
    from hermes_agent.web.api import ChatCompletionsApi

    home = Path(find_home(environ))
    serve_home(home, environ, services=(ChatCompletionsApi, Gateway))
    return 0


def _wait_for(home: str) -> None:
    """Wait until no process owns the home: systemd would start one that fails again and again."""
    import fcntl

    from hermes_agent.core.files import try_lock

    with suppress(FileNotFoundError), open(os.path.join(run_folder(home), "lock")) as file:
        if not try_lock(file.fileno()):
            print(f"another process owns the home {home}; waiting until it ends", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
