"""The gateway as a service of the runtime: its channels and its HTTP routes."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.gateway import DeliveryState, Identity, InboxEntry, OutboxEntry, Role
from hermes_agent.core.messages import Media
from hermes_agent.gateway.service import ChannelHost
from hermes_agent.host.outbound import HOME
from hermes_agent.host.responses import body_of, reply
from hermes_agent.runtime.services import Row

TEST_SECONDS = 20.0
MAX_COUNT = 1_000
ALL = "all"
INBOUND = "in-"
"""Prefix of the ids of inbound messages; those of deliveries are bare numbers."""


class PairRequest(msgspec.Struct, forbid_unknown_fields=True):
    channel: str
    role: Role = "member"
    policy: str = ""
    name: str = ""


class SendRequest(msgspec.Struct, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    text: str = ""
    files: tuple[Media, ...] = ()
    key: str = ""


class Gateway(ChannelHost):
    """One per runtime."""

    def table(self) -> Sequence[Row]:
        return [
            ("GET", "/v1/gateway", self._status),
            ("POST", "/v1/gateway/{channel}/test", self._test),
            ("GET", "/v1/gateway/dead", self._dead),
            ("DELETE", "/v1/gateway/dead/{id}", self._drop),
            ("POST", "/v1/gateway/again/{id}", self._again),
            ("GET", "/v1/gateway/deliveries", self._deliveries),
            ("GET", "/v1/gateway/people", self._people),
            ("POST", "/v1/gateway/pair", self._pair),
            ("POST", "/v1/gateway/people/{who}/block", self._block),
            ("DELETE", "/v1/gateway/people/{who}", self._remove),
            ("POST", "/v1/send", self._send),
        ]

    def public(self) -> Sequence[Row]:
        path = "/channels/{channel}/{rest:path}"
        return [("POST", path, self._called), ("GET", path, self._called)]

    # channels and their queues

    async def _status(self, _request: Request) -> Response:
        return reply(await self.status())

    async def _test(self, request: Request) -> Response:
        from hermes_agent.gateway.supervision.health import in_words

        await self.apply_settings()
        supervisor = self.supervisor(request.path_params["channel"])
        health = await supervisor.liveness.test(TEST_SECONDS)
        counts = (await self.ledger.counts()).get(supervisor.manifest.name)
        now = self.context.clock()
        shown = supervisor.status(counts, now)
        return reply(
            {**shown, "proven_now": not health.error, "error": health.error or shown["error"],
             "says": in_words(health, now)}
        )  # fmt: skip

    async def _dead(self, _request: Request) -> Response:
        deliveries = await self.ledger.deliveries(state="dead", limit=MAX_COUNT)
        return reply(
            {"deliveries": [_delivery(one) for one in deliveries],
             "left": [_delivery(one) for one in await self._left()],
             "arrived": [_entry(one) for one in await self.ledger.dead_letters(MAX_COUNT)]}
        )  # fmt: skip

    async def _left(self) -> list[OutboxEntry]:
        """Messages queued for channels that are no longer set up."""
        left = (await self.status()).get("left", {})
        states: tuple[DeliveryState, ...] = ("sending", "waiting")
        return [
            one for channel in left for state in states
            for one in await self.ledger.deliveries(channel=channel, state=state, limit=MAX_COUNT)
        ]  # fmt: skip

    async def _drop(self, request: Request) -> Response:
        ledger, id = self.ledger, request.path_params["id"]
        if id != ALL:
            dropped = [id]
        else:
            inbox = await ledger.dead_letters(MAX_COUNT)
            dead = [*await ledger.deliveries(state="dead", limit=MAX_COUNT), *await self._left()]
            dropped = [f"{INBOUND}{one.number}" for one in inbox] + [str(one.id) for one in dead]
        for one in dropped:
            inbound, number = _number(one)
            await (ledger.drop_dead_letter(number) if inbound else ledger.drop(number))
        return reply({"dropped": dropped})

    async def _again(self, request: Request) -> Response:
        inbound, number = _number(request.path_params["id"])
        if inbound:
            entry = await self.ledger.retry_dead_letter(number)
            if self.inbox is not None:
                self.inbox.add(entry)
            return reply(_entry(entry))
        delivery = await self.ledger.again(number, self.context.clock())
        self.wake(delivery.outgoing.chat.channel)
        return reply(_delivery(delivery))

    async def _deliveries(self, request: Request) -> Response:
        query = request.query_params
        state = msgspec.convert(query.get("state") or None, type=DeliveryState | None)
        found = await self.ledger.deliveries(
            channel=query.get("channel", ""),
            state=state,
            key=query.get("key", ""),
            limit=min(int(query.get("limit", 100)), MAX_COUNT),
        )
        return reply({"deliveries": [_delivery(one) for one in found]})

    async def _called(self, request: Request) -> Response:
        """A call to an unknown channel does not reveal which channels exist."""
        from hermes_agent.gateway.channel import WebhookReceiver

        channel: object = self.channel(request.path_params["channel"])
        if not isinstance(channel, WebhookReceiver):
            return Response(status_code=404)
        return await channel.called(request, request.path_params["rest"])

    # people

    async def _people(self, request: Request) -> Response:
        return reply(await self.ledger.identities(request.query_params.get("channel", "")))

    async def _pair(self, request: Request) -> Response:
        from hermes_agent.gateway.access.pairing import SECONDS

        new = body_of(await request.body(), PairRequest)
        if new.role == "blocked":
            raise UsageError("a pairing code cannot block a person", "owner or member")
        code = await self.router.admission.pair(new.channel, new.role, new.policy, new.name)
        has_home = bool(self.context.settings.channels[new.channel].get(HOME))
        return reply(
            {"code": code, "channel": new.channel, "role": new.role, "seconds": SECONDS,
             "makes_home": new.role == "owner" and not has_home}
        )  # fmt: skip

    async def _block(self, request: Request) -> Response:
        """Blocks a known person by name or hash; with `channel`, anybody by the platform's id."""
        wanted, channel = request.path_params["who"], request.query_params.get("channel", "")
        try:
            found = await self._find(wanted)
        except NotFound:
            if not channel:
                raise
            found = Identity(channel, self.router.ids(channel, wanted), by="cli")
        blocked = replace(found, role="blocked", since=found.since or self.context.clock())
        await self.ledger.save_identity(blocked)
        return reply(blocked)

    async def _remove(self, request: Request) -> Response:
        found = await self._find(request.path_params["who"])
        await self.ledger.drop_identity(found.channel, found.hash)
        return reply(found)

    async def _find(self, wanted: str) -> Identity:
        """By name, or by the beginning of a hash."""
        from hermes_agent.gateway.access.identities import who

        known = await self.ledger.identities()
        fit = [one for one in known if who(one) == wanted]
        if not fit and len(wanted) >= 4:
            fit = [one for one in known if one.hash.startswith(wanted)]
        if len(fit) != 1:
            some = "several people are" if fit else "nobody is"
            raise NotFound(f"{some} called {wanted!r}", "`hermes gateway people` lists them")
        return fit[0]

    async def _send(self, request: Request) -> Response:
        """Queues a message; it is stored once this answers."""
        new = body_of(await request.body(), SendRequest)
        self.context.refresh_settings()
        chats = self._outbound.chats(new.targets)
        if not chats:
            raise UsageError("no target given", "name a channel, such as telegram:CHAT")
        key = f"send/{new.key or self.context.clock()}"
        rows = await self._outbound.send(key, chats, new.text, files=new.files)
        queued = [
            {"id": one.id, "key": one.key, "target": one.outgoing.chat.target} for one in rows
        ]
        return reply({"key": key, "deliveries": queued}, 202)


def _number(id: str) -> tuple[bool, int]:
    """Whether it is the id of an inbound message, and its number."""
    number = id.removeprefix(INBOUND)
    if not number.isascii() or not number.isdigit():
        raise UsageError(f"not a valid id: {id!r}", "`hermes gateway dead` lists them")
    return id.startswith(INBOUND), int(number)


def _delivery(delivery: OutboxEntry) -> dict[str, Any]:
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


def _entry(entry: InboxEntry) -> dict[str, Any]:
    arrived = entry.arrived
    return {
        "id": f"{INBOUND}{entry.number}",
        "target": arrived.chat.target,
        "from": arrived.person.name,
        "kind": arrived.kind,
        "text": arrived.text,
        "files": [one.name or one.type for one in (*arrived.files, *arrived.voice)],
        "state": entry.state,
        "kept": entry.kept,
        "tries": entry.tries,
        "why": entry.why,
    }
