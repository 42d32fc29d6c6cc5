"""The audit log of an API server: it knows who a client was, where `managedFields` only know what
the client called itself."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from hermes_agent.incidents.drift.manifests_of import Declared
from hermes_agent.incidents.drift.reading import text_of
from hermes_agent.incidents.drift.values import Live, Who

CHANGES = ("create", "update", "patch", "delete")
NEAR = 2.0
SERVICE = "system:"
"""How the names of those begin who are no people."""


class Request(NamedTuple):
    at: float
    user: str
    namespace: str
    name: str


async def read(live: Live, path: str) -> Sequence[Request]:
    found = []
    for line in (await text_of(live, path)).splitlines():
        try:
            event = msgspec.json.decode(line)
            about = event["objectRef"]
            if event["verb"] not in CHANGES or event.get("stage") != "ResponseComplete":
                continue
            at = datetime.fromisoformat(event["requestReceivedTimestamp"])
            user = event["user"]["username"]
            found.append(
                Request(at.timestamp(), user, about.get("namespace", ""), about.get("name", ""))
            )
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError):
            continue  # a line that was cut, or of another sort
    return found


def named(who: Who, one: Declared, requests: Sequence[Request]) -> Who:
    """The same with the name of whoever sent the request, where the log has it."""
    if who.at is None:
        return who
    fitting = [each for each in requests
               if (each.namespace, each.name) == (one.namespace, one.name)
               and abs(each.at - who.at) <= NEAR]  # fmt: skip
    if not fitting:
        return who
    last = fitting[-1]
    service = last.user.startswith(SERVICE)
    return replace(
        who, kind="controller" if service else "person", name=last.user, sure="certain",
        evidence=f"{who.evidence}; the API server's audit log names {last.user}",
    )  # fmt: skip
