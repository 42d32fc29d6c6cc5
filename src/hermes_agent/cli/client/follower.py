"""Follows a turn's events, across a runtime that dies or restarts."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

from hermes_agent.cli.client.api import HttpClientConnection, RuntimeClient, RuntimeGone
from hermes_agent.cli.client.stream import EventStream
from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.host.paths import socket_paths

TRIES = 5
"""How often in a row a runtime may die without progress before the client gives up."""

RESTART_POLLS = 60
POLL_SECONDS = 0.05
"""How often to poll for a runtime that was stopped on purpose: a service manager may start it
again. While `hermes restart` is at work, polling goes on."""

Event = dict[str, Any]
Answer = TypeVar("Answer")


def reach(api: RuntimeClient, act: Callable[[], Answer]) -> Answer:
    """Ask the runtime; start it if it is not running."""
    for attempt in range(TRIES):
        try:
            return act()
        except RuntimeGone:
            time.sleep(0.1 * attempt)
            api.ensure()
    raise keeps_dying()


def keeps_dying() -> HermesError:
    return HermesError("the runtime keeps dying", "`hermes logs` may say why")


def send(api: RuntimeClient, message: dict[str, object]) -> dict[str, Any]:
    """Submit a message. Its key makes a retry after a broken connection safe: it is stored once.
    Returns its session, key, and the journal's last number before it."""
    message = {"key": os.urandom(16).hex(), **message}
    return reach(api, lambda: submit(api, message))


def submit(api: RuntimeClient, message: dict[str, object]) -> dict[str, Any]:
    """`send` without a retry; raises `RuntimeGone` when no runtime is running."""
    sent: dict[str, Any] = api.post("/v1/messages", message)
    return sent


class TurnFollower:
    """Follows one turn. `ours` says that it has already taken our message."""

    def __init__(
        self, api: RuntimeClient, session: str, key: str, after: int, *, ours: bool = False
    ) -> None:
        self._api = api
        self._session = session
        self._key = key
        self.after = after
        """The number of the last event that was yielded."""
        self.ours = ours
        self._connection: HttpClientConnection | None = None
        self._left = False

    def leave(self) -> None:
        """Call from another thread: `events` ends at once."""
        self._left = True
        if self._connection is not None:
            self._connection.disconnect()

    def _opened(self, connection: HttpClientConnection) -> None:
        self._connection = connection
        if self._left:  # before there was a connection
            connection.disconnect()

    def events(self) -> Iterator[Event]:
        """Events until the turn that took our message has ended. A runtime that dies is started
        again, which an event `reconnected` tells; one that was stopped on purpose is not."""
        failures = 0
        while True:
            try:
                for recorded in self._api.events(self._session, self.after, self._opened):
                    event: Event = recorded["event"]
                    if recorded["number"]:
                        self.after, failures = recorded["number"], 0
                    if event["kind"] == "message_taken" and event["key"] == self._key:
                        self.ours = True
                    if event["kind"] == "runtime_changed" and event["state"] == "stopping":
                        self._wait_for_restart()
                        yield {"kind": "reconnected"}
                        break
                    yield event
                    # An end without a number is a crash: the turn takes no message any more.
                    ours = self.ours or not recorded["number"]
                    if ours and event["kind"] == "turn_finished":
                        return
            except RuntimeGone:
                if self._left:
                    return
                failures += 1
                if failures > TRIES:
                    raise keeps_dying() from None
                start_again(self._api, failures)
                yield {"kind": "reconnected"}

    def _wait_for_restart(self) -> None:
        polls = RESTART_POLLS
        restarting = True
        while restarting:
            restarting = polls > 0 or is_restarted(self._api.home)
            if self._api.is_up():  # polled last: a finished restart has brought it up
                return
            polls -= 1
            time.sleep(POLL_SECONDS)
        raise HermesError(
            "the runtime was stopped; the turn continues when it is started again",
            f"`hermes up` starts it, `hermes chat --session {self._session}` continues",
        )


def follow(api: RuntimeClient, sent: dict[str, Any]) -> EventStream:
    """The events of the turn that takes a message, read beside the keyboard."""
    return EventStream(TurnFollower(api, sent["session"], sent["key"], sent["after"]).events())


def start_again(api: RuntimeClient, failures: int) -> None:
    """Restart a runtime that died, unless it keeps dying."""
    time.sleep(0.2 * (failures - 1))
    try:
        api.ensure()
    except Degraded:
        raise
    except HermesError:
        if failures >= TRIES:
            raise


@contextmanager
def restarting(home: str) -> Iterator[None]:
    """Inside this, `is_restarted` tells other processes that the runtime will come back."""
    with ExitStack() as held:
        for folder in _folders(home, held):
            with suppress(OSError):  # no locks on this file system: followers wait a shorter time
                fcntl.flock(folder, fcntl.LOCK_SH)
        yield


def is_restarted(home: str) -> bool:
    with ExitStack() as held:
        for folder in _folders(home, held):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:
                continue
    return False


def _folders(home: str, held: ExitStack) -> Iterator[int]:
    for path in socket_paths(home):
        with suppress(OSError):
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, folder)
            yield folder
