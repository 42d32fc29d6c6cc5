"""The gateway's own routes: how channels are, what could not be sent, and platforms that call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import UsageError
from hermes_agent.core.gateway import DeliveryState, InboxEntry, OutboxEntry
from hermes_agent.host.responses import reply
from hermes_agent.runtime.services import Row

if TYPE_CHECKING:
    from hermes_agent.gateway.service import ChannelHost

TEST_SECONDS = 20.0
MAX_COUNT = 1_000
ALL = "all"
ARRIVED = "in-"
"""What the ids of what arrived begin with; those of deliveries are bare numbers."""


class Routes:
    def __init__(self, gateway: "ChannelHost") -> None:
        self._gateway = gateway

    def table(self) -> Sequence[Row]:
        return [
            ("GET", "/v1/gateway", self._status),
            ("POST", "/v1/gateway/{channel}/test", self._test),
            ("GET", "/v1/gateway/dead", self._dead),
            ("DELETE", "/v1/gateway/dead/{id}", self._drop),
            ("POST", "/v1/gateway/again/{id}", self._again),
            ("GET", "/v1/gateway/deliveries", self._deliveries),
        ]

    def public(self) -> Sequence[Row]:
        path = "/channels/{channel}/{rest:path}"
        return [("POST", path, self._called), ("GET", path, self._called)]

    async def _status(self, _request: Request) -> Response:
        return reply(await self._gateway.status())

    async def _test(self, request: Request) -> Response:
        from hermes_agent.gateway.supervision.health import in_words

        gateway = self._gateway
        await gateway.follow()
        supervisor = gateway.supervisor(request.path_params["channel"])
        proof = await supervisor.liveness.test(TEST_SECONDS)
        counts = (await gateway.ledger.counts()).get(supervisor.manifest.name)
        now = gateway.context.clock()
        shown = supervisor.status(counts, now)
        return reply(
            {**shown, "proven_now": not proof.error, "error": proof.error or shown["error"],
             "says": in_words(proof, now)}
        )  # fmt: skip

    async def _dead(self, _request: Request) -> Response:
        ledger = self._gateway.ledger
        deliveries = await ledger.deliveries(state="dead", limit=MAX_COUNT)
        arrived = await ledger.dead_letters(MAX_COUNT)
        return reply(
            {
                "deliveries": [_delivery(one) for one in deliveries],
                "left": [_delivery(one) for one in await self._left()],
                "arrived": [_kept(one) for one in arrived],
            }
        )

    async def _left(self) -> list[OutboxEntry]:
        """What waits for channels that are not set up any more."""
        left = (await self._gateway.status()).get("left", {})
        states: tuple[DeliveryState, ...] = ("sending", "waiting")
        return [
            one for channel in left for state in states
            for one in await self._gateway.ledger.deliveries(
                channel=channel, state=state, limit=MAX_COUNT
            )
        ]  # fmt: skip

    async def _drop(self, request: Request) -> Response:
        ledger, id = self._gateway.ledger, request.path_params["id"]
        if id != ALL:
            dropped = [id]
        else:
            aside = await ledger.dead_letters(MAX_COUNT)
            dead = [*await ledger.deliveries(state="dead", limit=MAX_COUNT), *await self._left()]
            dropped = [f"{ARRIVED}{one.number}" for one in aside] + [str(one.id) for one in dead]
        for one in dropped:
            arrived, number = _number(one)
            await (ledger.drop_dead_letter(number) if arrived else ledger.drop(number))
        return reply({"dropped": dropped})

    async def _again(self, request: Request) -> Response:
        arrived, number = _number(request.path_params["id"])
        gateway = self._gateway
        if arrived:
            kept = await gateway.ledger.retry_dead_letter(number)
            if gateway.inbox is not None:
                gateway.inbox.take(kept)
            return reply(_kept(kept))
        delivery = await gateway.ledger.again(number, gateway.context.clock())
        gateway.wake(delivery.outgoing.chat.channel)
        return reply(_delivery(delivery))

    async def _deliveries(self, request: Request) -> Response:
        query = request.query_params
        state = msgspec.convert(query.get("state") or None, type=DeliveryState | None)
        found = await self._gateway.ledger.deliveries(
            channel=query.get("channel", ""),
            state=state,
            key=query.get("key", ""),
            limit=min(int(query.get("limit", 100)), MAX_COUNT),
        )
        return reply({"deliveries": [_delivery(one) for one in found]})

    async def _called(self, request: Request) -> Response:
        """Whoever calls a channel that is not there learns nothing of those that are."""
        from hermes_agent.gateway.channel import WebhookReceiver

        channel: object = self._gateway.channel(request.path_params["channel"])
        if not isinstance(channel, WebhookReceiver):
            return Response(status_code=404)
        return await channel.called(request, request.path_params["rest"])


def _number(id: str) -> tuple[bool, int]:
    """Whether it is the id of something that arrived, and its number."""
    number = id.removeprefix(ARRIVED)
    if not number.isascii() or not number.isdigit():
        raise UsageError(f"{id!r} is no id", "`hermes gateway dead` lists them")
    return id.startswith(ARRIVED), int(number)


def _delivery(delivery: OutboxEntry) -> dict[str, Any]:
    """As people see it: files by their names."""
    outgoing = delivery.outgoing
    return {
        "id": str(delivery.id),
        "key": delivery.key,
        "target": outgoing.chat.target,
        "kind": outgoing.kind,
        "text": outgoing.text,
        "files": [one.name or one.type for one in outgoing.files],
        "state": delivery.state,
        "created": delivery.created,
        "attempts": delivery.attempts,
        "due": delivery.due,
        "receipt": delivery.receipt,
        "sent": delivery.sent,
        "error": delivery.error,
        "doubtful": delivery.doubtful,
    }


def _kept(kept: InboxEntry) -> dict[str, Any]:
    arrived = kept.arrived
    return {
        "id": f"{ARRIVED}{kept.number}",
        "target": arrived.chat.target,
        "from": arrived.person.name,
        "kind": arrived.kind,
        "text": arrived.text,
        "files": [one.name or one.type for one in (*arrived.files, *arrived.voice)],
        "state": kept.state,
        "kept": kept.kept,
        "tries": kept.tries,
        "why": kept.why,
    }
