"""Following a turn: its events as they come, over the runtime's death if need be."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.client.connection import HttpClientConnection
from hermes_agent.cli.client.restart_lock import is_restarted
from hermes_agent.cli.client.stream import EventStream
from hermes_agent.core.errors import Degraded, HermesError

TRIES = 5
"""How often in a row a runtime may die without getting further before we give up."""

RESTART_LOOKS = 60
POLL_SECONDS = 0.05
"""How often to look for a runtime that was stopped on purpose, and how far apart: a service manager
may start it again. For one that `hermes restart` has stopped it is looked as long as that works."""

Event = dict[str, Any]
Answer = TypeVar("Answer")


def reach(api: RuntimeClient, act: Callable[[], Answer]) -> Answer:
    """Ask the runtime, and start it when it is not there."""
    for attempt in range(TRIES):
        try:
            return act()
        except RuntimeGone:
            time.sleep(0.1 * attempt)
            api.ensure()
    raise HermesError("the runtime keeps going away", "`hermes logs` may say why")


def send(api: RuntimeClient, message: dict[str, object]) -> dict[str, Any]:
    """Hand a message in. It has a key of ours, so handing it in again after a broken connection
    stores it once. Returns its session, key, and the journal's last number before it."""
    message = {"key": os.urandom(16).hex(), **message}
    return reach(api, lambda: hand_in(api, message))


def hand_in(api: RuntimeClient, message: dict[str, object]) -> dict[str, Any]:
    """What `send` does, once; `RuntimeGone` when there is no runtime."""
    sent: dict[str, Any] = api.post("/v1/messages", message)
    return sent


class TurnFollower:
    """A turn as it goes on. With `ours`, it has taken our message already."""

    def __init__(
        self, api: RuntimeClient, session: str, key: str, after: int, *, ours: bool = False
    ) -> None:
        self._api = api
        self._session = session
        self._key = key
        self.after = after
        """The number of the last event that was given."""
        self.ours = ours
        self._connection: HttpClientConnection | None = None
        self._left = False

    def leave(self) -> None:
        """From another thread: `events` ends at once, whatever it waits for."""
        self._left = True
        if self._connection is not None:
            self._connection.disconnect()

    def _opened(self, connection: HttpClientConnection) -> None:
        self._connection = connection
        if self._left:  # before there was anything to hang up
            connection.disconnect()

    def events(self) -> Iterator[Event]:
        """Events until the turn that took our message has ended. When the runtime dies, it is
        started again and an event `reconnected` says so; the turn goes on by itself. One that was
        stopped on purpose is not started again."""
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
                        self._wait_for_the_next()
                        yield {"kind": "reconnected"}
                        break
                    yield event
                    if self.ours and event["kind"] == "turn_finished":
                        return
            except RuntimeGone:
                if self._left:
                    return
                failures += 1
                if failures > TRIES:
                    raise HermesError(
                        "the runtime keeps going away", "`hermes logs` may say why"
                    ) from None
                start_again(self._api, failures)
                yield {"kind": "reconnected"}

    def _wait_for_the_next(self) -> None:
        """A runtime that is restarted comes back by itself; one that is stopped does not."""
        looks = RESTART_LOOKS
        comes = True
        while comes:
            comes = looks > 0 or is_restarted(self._api.home)
            if self._api.is_up():  # looked for last: a restart that is over has brought it up
                return
            looks -= 1
            time.sleep(POLL_SECONDS)
        raise HermesError(
            "the runtime was stopped; the turn goes on when it is started again",
            f"`hermes up` starts it, `hermes chat --session {self._session}` goes on",
        )


def follow(api: RuntimeClient, sent: dict[str, Any]) -> EventStream:
    """The turn that takes a message, beside what is typed."""
    return EventStream(TurnFollower(api, sent["session"], sent["key"], sent["after"]).events())


def start_again(api: RuntimeClient, failures: int) -> None:
    """Start a runtime that died, unless it keeps dying."""
    time.sleep(0.2 * (failures - 1))
    try:
        api.ensure()
    except Degraded:
        raise
    except HermesError:
        if failures >= TRIES:
            raise
