"""Following a turn: its events as they come, over the runtime's death if need be."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

from hermes_agent.cli.client import Api, Gone
from hermes_agent.core.errors import Degraded, HermesError

TRIES = 5
"""How often in a row a runtime may die without getting further before we give up."""

Event = dict[str, Any]


def send(api: Api, message: dict[str, object]) -> dict[str, Any]:
    """Hand a message in. It has a key of ours, so handing it in again after a broken connection
    stores it once. Returns its session, key, and the journal's last number before it."""
    message = {"key": uuid.uuid4().hex, **message}
    for attempt in range(TRIES):
        api.ensure()
        try:
            sent: dict[str, Any] = api.post("/v1/messages", message)
        except Gone:
            time.sleep(0.1 * attempt)
        else:
            return sent
    raise HermesError("the runtime keeps going away", "`hermes logs` may say why")


def follow(api: Api, session: str, key: str, after: int) -> Iterator[Event]:
    """Events until the turn that took our message has ended. When the runtime dies, it is started
    again and an event `reconnected` says so; the turn goes on by itself."""
    ours = False
    failures = 0
    while True:
        try:
            for recorded in api.events(session, after):
                event: Event = recorded["event"]
                if recorded["number"]:
                    after, failures = recorded["number"], 0
                event["number"] = recorded["number"]
                yield event
                ours = ours or (event["kind"] == "message_taken" and event["key"] == key)
                if ours and event["kind"] == "turn_finished":
                    return
        except Gone:
            failures += 1
            if failures > TRIES:
                raise HermesError(
                    "the runtime keeps going away", "`hermes logs` may say why"
                ) from None
            start_again(api, failures)
            yield {"kind": "reconnected", "number": 0}


def start_again(api: Api, failures: int) -> None:
    """Start a runtime that died, unless it keeps dying."""
    time.sleep(0.2 * (failures - 1))
    try:
        api.ensure()
    except Degraded:
        raise
    except HermesError:
        if failures >= TRIES:
            raise
