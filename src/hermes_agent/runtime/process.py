"""The runtime as a process: `hermes serve` runs it until it is stopped or idle."""

import asyncio
import logging
import logging.handlers
import os
import resource
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvicorn

from hermes_agent.core.tools import Tool
from hermes_agent.host.http_listener import SignalFreeServer
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.runtime.api.app import build_app
from hermes_agent.runtime.api.peer_auth import OwnerOnlyProtocol
from hermes_agent.runtime.runtime import Hook, Runtime
from hermes_agent.runtime.services import ServiceFactory

log = logging.getLogger("hermes.serve")

LOG_BYTES = 5_000_000
IDLE_POLLS = 20
"""Event loop passes before the idle check, so that pending connections and requests are seen."""


def serve(
    home: Path,
    environ: Mapping[str, str],
    *,
    tools: Sequence[Tool] | None = None,
    store_hook: Hook | None = None,
    services: Sequence[ServiceFactory] = (),
) -> None:
    """Own the home and serve until stopped. Does not return: the process exits at once, and running
    commands stay with their shell daemons."""
    # Each session may hold a few files and connections; the usual soft limit of 1,024 is low.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    runtime = Runtime(home, environ, tools=tools, store_hook=store_hook, services=services)
    asyncio.run(_serve(runtime))


async def _serve(runtime: Runtime) -> None:
    await runtime.start()
    _log_to(runtime)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    app = build_app(runtime, stop.set)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=OwnerOnlyProtocol,
        loop="asyncio",
        timeout_graceful_shutdown=2,
    )
    server = SignalFreeServer(config)
    path = runtime.run_folder / "api.sock"
    answering = asyncio.create_task(server.serve(sockets=[_listen(path)]))
    stopped = asyncio.create_task(stop.wait())
    until_idle = asyncio.create_task(_until_idle(runtime, server))
    log.info("runtime up, pid %s, home %s", os.getpid(), runtime.context.home.path)
    await asyncio.wait({stopped, until_idle}, return_when=asyncio.FIRST_COMPLETED)
    path.unlink(missing_ok=True)  # from now on, clients start a new runtime
    await runtime.stop(asleep=not stop.is_set())
    server.should_exit = True
    await asyncio.wait({answering}, timeout=3)
    log.info("runtime down")
    logging.shutdown()
    os._exit(0)


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o077)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(512)
    listening.setblocking(False)
    return listening


async def _until_idle(runtime: Runtime, server: uvicorn.Server) -> None:
    """Return when nothing has needed the runtime for the configured time."""
    limit = runtime.context.settings.runtime.idle_seconds
    if limit <= 0:
        await asyncio.Future()
    while True:
        await asyncio.sleep(max(0.2, min(limit / 4, 30.0)))
        for _ in range(IDLE_POLLS):  # accept clients that arrived while this process was suspended
            await asyncio.sleep(0)
        try:
            needed = await runtime.is_in_use()
        except Exception:
            log.exception("cannot tell whether anything needs the runtime; staying up")
            needed = True
        # A request in progress may be a message whose turn has not started.
        if needed or server.server_state.tasks:
            runtime.context.note_activity()
        elif runtime.idle_for() >= limit:
            log.info("idle for %.0f s; stopping", limit)
            return


class _Redacted(logging.Formatter):
    """Redacts log lines, including tracebacks."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def _log_to(runtime: Runtime) -> None:
    root = logging.getLogger()
    root.setLevel(runtime.context.settings.runtime.log_level.upper())
    logging.getLogger("httpx").setLevel(logging.WARNING)
    handler: logging.Handler
    if os.access(runtime.context.home.logs, os.W_OK):
        handler = logging.handlers.RotatingFileHandler(
            runtime.context.home.logs / "runtime.log",
            maxBytes=LOG_BYTES,
            backupCount=3,
            encoding="utf-8",
        )
    else:
        handler = logging.StreamHandler()
    handler.setFormatter(_Redacted(runtime.context.redact))
    root.addHandler(handler)
