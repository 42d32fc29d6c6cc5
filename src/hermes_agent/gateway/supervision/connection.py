"""Keeps a channel connected: creates it, runs it, and restarts it when it fails."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from hermes_agent.core.errors import HermesError
from hermes_agent.core.supervise import backoff, first_of
from hermes_agent.gateway.channel import Channel, CredentialsRejected

log = logging.getLogger("hermes.gateway")

FIRST_SECONDS = 1.0
MAX_SECONDS = 300.0
STEADY_SECONDS = 10.0
"""A connection that lasted this long, and longer than the wait before it, was a good one."""
REFUSED_SECONDS = 3_600.0
"""How often to retry a channel that was refused or lacks something: platforms err, too."""
CLOSE_SECONDS = 10.0

State = Literal["starting", "up", "waiting", "refused", "missing"]
"""`waiting`: it failed and is restarted soon. `missing`: it lacks a package, a setting or a secret.
`refused`: the platform does not accept us."""


class ChannelConnection:
    """`make` creates the channel, or raises what it lacks."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Channel],
        *,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._make = make
        self._monotonic = monotonic
        self._sleep = sleep
        self._random = random
        self.on_connected: Callable[[], None] = lambda: None
        self._restart = asyncio.Event()
        self.channel: Channel | None = None
        self.state: State = "starting"
        self.error = ""
        self.hint = ""

    async def run(self) -> None:
        failures, wait = 0, 0.0
        while True:
            self._restart.clear()
            began = self._monotonic()
            hopeless = await self._run_once()
            lasted = self._monotonic() - began
            failures = 1 if lasted > max(STEADY_SECONDS, wait) else failures + 1
            if self._restart.is_set():
                continue
            wait = backoff(failures, FIRST_SECONDS, MAX_SECONDS, self._random)
            await first_of(self._restart.wait(), self._sleep(REFUSED_SECONDS if hopeless else wait))

    def restart(self) -> None:
        if self.channel is None:
            self.state = "starting"
        self._restart.set()

    async def _run_once(self) -> bool:
        """Runs the channel until it ends; True if a restart will hardly help."""
        self.state = "starting"
        try:
            channel = self._make()
        except HermesError as error:
            self._set("missing", error.message, error.hint)
            return True
        except Exception as error:
            log.exception("%s could not be created", self.name)
            self._set("missing", f"{type(error).__name__}: {error}", "see `hermes logs`")
            return True
        running = asyncio.create_task(channel.run())
        try:
            self.channel = channel
            self._set("up")
            self.on_connected()
            await first_of(asyncio.wait({running}), self._restart.wait())
            if running.done():
                return self._ended(running)
            self._set("waiting", "restarting")
            return False
        finally:
            self.channel = None
            await self._close(channel, running)

    def _ended(self, running: asyncio.Task[None]) -> bool:
        error = None if running.cancelled() else running.exception()
        if isinstance(error, CredentialsRejected):
            self._set("refused", error.message, error.hint)
            return True
        if isinstance(error, HermesError):
            self._set("waiting", error.message, error.hint)
        elif error is not None:
            log.error("%s failed", self.name, exc_info=error)
            self._set("waiting", f"{type(error).__name__}: {error}")
        else:
            self._set("waiting", "the connection ended")
        return False

    async def _close(self, channel: Channel, running: asyncio.Task[None]) -> None:
        """Abandons a channel that hangs while it is closed."""
        for _ in range(2):  # the first is lost if a message arrives at the same moment
            running.cancel()
            await asyncio.wait({running}, timeout=CLOSE_SECONDS / 2)
        if running.done() and not running.cancelled() and (error := running.exception()):
            log.debug("%s ended: %s", self.name, error)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await channel.close()
        except TimeoutError:
            log.warning("%s did not close in time", self.name)
        except Exception:
            log.exception("%s could not be closed", self.name)

    def _set(self, state: State, error: str = "", hint: str = "") -> None:
        if error and (state, error) != (self.state, self.error):
            log.warning("%s: %s", self.name, error)
        self.state, self.error, self.hint = state, error, hint
