"""Stops asking a model that keeps failing; after a while, one call probes it."""

import asyncio
from typing import Literal

from hermes_agent.core.errors import ModelError

MAX_SECONDS = 600.0
MAX_ASKED_SECONDS = 3600.0
"""The longest wait, even where a service asks for more."""

CircuitState = Literal["closed", "open", "half-open"]


class Probe:
    """The one call that finds out whether a model works again."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def ended(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()


class CircuitBreaker:
    """The circuit of one model, shared by all calls. Closed: the model is asked. Open: it failed
    `failures` times in a row and is not asked for `seconds`, twice as long after each failed
    probe. Half-open: that time is over, and one call probes."""

    def __init__(self, failures: int, seconds: float) -> None:
        self.failures = failures
        self.seconds = seconds
        self.opened: float | None = None
        """When it opened first; None while it is closed."""
        self.until = 0.0
        """When it becomes half-open, where it is open."""
        self.held_until = 0.0
        """Until when the service asked us to wait."""
        self.trouble: ModelError | None = None
        """The latest failure."""
        self.probe: Probe | None = None
        self._row = 0
        self._length = 0.0

    def state(self, now: float) -> CircuitState:
        if self.opened is None:
            return "closed"
        return "half-open" if now >= self.until else "open"

    def admits(self, now: float) -> bool:
        """Whether a call may ask now, other than as the last resort."""
        if now < self.held_until:
            return False
        state = self.state(now)
        return state == "closed" or (state == "half-open" and self.probe is None)

    def enter(self, now: float) -> Probe | None:
        """Begin a call. Returns the probe if this call is to probe; `leave` must follow."""
        if self.state(now) == "half-open" and self.probe is None:
            self.probe = Probe()
            return self.probe
        return None

    def leave(self, probe: Probe | None) -> None:
        if probe is not None:
            probe.end()
            if self.probe is probe:
                self.probe = None

    def answered(self) -> bool:
        """The model answered. Returns whether that closed the circuit."""
        was_open = self.opened is not None
        self.opened = None
        self._row, self._length = 0, 0.0
        return was_open

    def failed(self, now: float, error: ModelError, probe: Probe | None) -> float | None:
        """A call failed with a transient error. Returns for how many seconds the circuit is open
        if this opened it."""
        if error.retry_after is not None and error.kind != "rate_limit":
            # A rate limit binds a key; anything else binds the model.
            asked = min(MAX_ASKED_SECONDS, error.retry_after)
            self.held_until = max(self.held_until, now + asked)
        self.trouble = error
        self._row += 1
        if self.opened is None:
            if self._row < self.failures:
                return None
            self.opened, self._length = now, self.seconds
        elif probe is not None and self.probe is probe:
            self._length = self._length * 2
        else:
            return None  # asked before it opened, or as the last resort: nothing new
        self._length = min(self._length, MAX_SECONDS)
        self.until = now + self._length
        return self._length
