"""Routes of the local API for people: who may talk, codes that let them in, messages to them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.gateway import Identity, Role
from hermes_agent.core.messages import Media
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import HOME, OutboundMessages
from hermes_agent.host.responses import body_of, reply

if TYPE_CHECKING:
    from hermes_agent.gateway.inbound.router import Router
    from hermes_agent.runtime.services import Row


class NewPairing(msgspec.Struct, forbid_unknown_fields=True):
    channel: str
    role: Role = "member"
    policy: str = ""
    name: str = ""


class NewPost(msgspec.Struct, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    text: str = ""
    files: tuple[Media, ...] = ()
    key: str = ""


class PeopleApi:
    """`router` is made when it is first wanted."""

    def __init__(
        self,
        context: RuntimeContext,
        outbound: OutboundMessages,
        router: "Callable[[], Router]",
    ) -> None:
        self._context = context
        self._outbound = outbound
        self._made = router

    @property
    def _router(self) -> "Router":
        return self._made()

    def table(self) -> "list[Row]":
        return [
            ("GET", "/v1/gateway/people", self.people),
            ("POST", "/v1/gateway/pair", self.pair),
            ("POST", "/v1/gateway/people/{who}/block", self.block),
            ("DELETE", "/v1/gateway/people/{who}", self.remove),
            ("POST", "/v1/send", self.send),
        ]

    async def people(self, request: Request) -> Response:
        channel = request.query_params.get("channel", "")
        return reply(await self._context.store.gateway.identities(channel))

    async def pair(self, request: Request) -> Response:
        from hermes_agent.gateway.access.pairing import SECONDS

        new = body_of(await request.body(), NewPairing)
        if new.role == "blocked":
            raise UsageError("nobody is let in to be kept out", "owner or member")
        code = await self._router.admission.pair(new.channel, new.role, new.policy, new.name)
        has_home = bool(self._context.settings.channels[new.channel].get(HOME))
        return reply(
            {"code": code, "channel": new.channel, "role": new.role, "seconds": SECONDS,
             "makes_home": new.role == "owner" and not has_home}
        )  # fmt: skip

    async def block(self, request: Request) -> Response:
        """Somebody we know by name or hash; or, with `channel`, anybody by the platform's id, who
        need not have written yet."""
        gateway = self._context.store.gateway
        wanted, channel = request.path_params["who"], request.query_params.get("channel", "")
        try:
            found = await self._find(wanted)
        except NotFound:
            if not channel:
                raise
            found = Identity(channel, self._router.ids(channel, wanted), by="cli")
        blocked = replace(found, role="blocked", since=found.since or self._context.clock())
        await gateway.save_identity(blocked)
        return reply(blocked)

    async def remove(self, request: Request) -> Response:
        found = await self._find(request.path_params["who"])
        await self._context.store.gateway.drop_identity(found.channel, found.hash)
        return reply(found)

    async def _find(self, wanted: str) -> Identity:
        """By a name that was given, or the beginning of a hash."""
        from hermes_agent.gateway.access.identities import who

        known = await self._context.store.gateway.identities()
        fit = [one for one in known if who(one) == wanted]
        if not fit and len(wanted) >= 4:
            fit = [one for one in known if one.hash.startswith(wanted)]
        if len(fit) != 1:
            some = "several people are" if fit else "nobody is"
            raise NotFound(f"{some} called {wanted!r}", "`hermes gateway people` lists them")
        return fit[0]

    async def send(self, request: Request) -> Response:
        """Hand a message in; the ledger has it when this answers."""
        new = body_of(await request.body(), NewPost)
        self._context.refresh_settings()
        chats = self._outbound.chats(new.targets)
        if not chats:
            raise UsageError("there is nowhere to send it to", "name a channel, as telegram:CHAT")
        key = f"send/{new.key or self._context.clock()}"
        rows = await self._outbound.send(key, chats, new.text, files=new.files)
        for chat in chats:
            self._router.wake(chat.channel)
        told = [{"id": one.id, "key": one.key, "target": one.outgoing.chat.target} for one in rows]
        return reply({"key": key, "deliveries": told}, 202)
