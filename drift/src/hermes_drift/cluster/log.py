"""The audit log of an API server: it knows who a client was, where `managedFields` only know what
the client called itself."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from hermes_drift.cluster.manifests import DeclaredObjects
from hermes_drift.scopes.file_facts import text_of
from hermes_drift.values import LiveState, Who

CHANGES = ("create", "update", "patch", "delete")
NEAR = 2.0
SERVICE = "system:"
"""How the names of those begin who are no people."""


class ApiRequest(NamedTuple):
    at: float
    user: str
    verb: str
    resource: str
    """Such as `deployments`."""
    namespace: str
    name: str

    def is_about(self, one: DeclaredObjects) -> bool:
        named = (self.namespace, self.name) == (one.namespace, one.name)
        return named and self.resource.startswith(one.kind.lower()[:-1])  # policy, policies

    @property
    def kind(self) -> Literal["person", "controller"]:
        return "controller" if self.user.startswith(SERVICE) else "person"


async def read(live: LiveState, path: str) -> Sequence[ApiRequest]:
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
                ApiRequest(
                    at.timestamp(), user, event["verb"], about.get("resource", ""),
                    about.get("namespace", ""), about.get("name", ""),
                )
            )  # fmt: skip
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError):
            continue  # a line that was cut, or of another sort
    return found


def named(who: Who, one: DeclaredObjects, requests: Sequence[ApiRequest]) -> Who:
    """The same with the name of whoever sent the request, where the log has it."""
    if who.at is None:
        return who
    fitting = [each for each in requests if each.is_about(one) and abs(each.at - who.at) <= NEAR]
    if not fitting:
        return who
    last = fitting[-1]
    return replace(
        who, kind=last.kind, name=last.user, sure="certain",
        evidence=f"{who.evidence}; the API server's audit log names {last.user}",
    )  # fmt: skip


def remover(one: DeclaredObjects, requests: Sequence[ApiRequest]) -> Who:
    """Who has deleted what is not there, where the log has it."""
    for each in reversed(requests):
        if each.verb == "delete" and each.is_about(one):
            evidence = "the API server's audit log has the request to delete it"
            return Who(each.kind, each.user, "certain", each.at, evidence)
    return Who()
