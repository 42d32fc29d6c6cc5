"""Finds who can approve a request, and names the requester."""

from collections.abc import Callable, Sequence

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, ChatBinding, Identity, PseudonymHasher, person_of
from hermes_agent.core.records import Session
from hermes_agent.gateway.access.identities import (
    CLAIMED,
    OWNERS,
    binding_key,
    listed,
    plain_name,
    who,
)
from hermes_agent.gateway.approvals.questions import one_line
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import ALL, OutboundMessages

May = Callable[[Identity], bool]


def is_owner(identity: Identity) -> bool:
    return identity.role == "owner"


class ApproverDirectory:
    def __init__(
        self, context: RuntimeContext, outbound: OutboundMessages, ids: PseudonymHasher
    ) -> None:
        self._context = context
        self._outbound = outbound
        self._ids = ids

    async def chats(self, channel: str = "", may: May = is_owner) -> list[Chat]:
        """The home chat of a channel, else all home chats, else the private chats of those who may
        approve, preferably on that channel."""
        homes = self._homes(channel)
        return homes or await self._private(channel, may) or await self._private("", may)

    async def among(self, chats: Sequence[Chat], may: May) -> list[Chat]:
        """The chats in which somebody may answer: home chats, private chats of those who may, and
        groups in which they have written."""
        able = [*self._homes(""), *await self._private("", may)]
        people = [one for one in await self.people() if may(one)] if chats else []
        for binding in await self._context.store.gateway.bindings() if people else ():
            here = (one for one in people if one.channel == binding.chat.channel)
            if binding.group and any(one.hash in binding.seen for one in here):
                able.append(binding.chat)
        return [chat for chat in chats if chat in able]

    def _homes(self, channel: str) -> list[Chat]:
        for target in (channel, ALL):
            try:
                if target and (found := self._outbound.chats([target])):
                    return found
            except HermesError:
                continue  # no home chat
        return []

    async def _private(self, channel: str, may: May) -> list[Chat]:
        """Private chats in which they have written, one per person."""
        asked = [one for one in await self.people(channel) if may(one)]
        found: dict[tuple[str, str], Chat] = {}
        for binding in await self._context.store.gateway.bindings() if asked else ():
            chat = binding.chat
            here = (one for one in asked if one.channel == chat.channel)
            if any(binding_key(self._ids, chat, one.hash) == binding.key for one in here):
                found[chat.channel, chat.chat] = chat
        return list(found.values())

    async def people(self, channel: str = "") -> list[Identity]:
        """Known people, with the owners listed in the settings."""
        known = list(await self._context.store.gateway.identities(channel))
        seen = {(one.channel, one.hash) for one in known}
        for name, given in self._context.settings.channels.items():
            if channel in ("", name):
                made = (Identity(name, self._ids(name, id), role="owner", by=OWNERS)
                        for id in listed(given, OWNERS))  # fmt: skip
                known += [one for one in made if (one.channel, one.hash) not in seen]
        return known

    async def person(self, session: Session, binding: ChatBinding) -> Identity:
        """The person whose private chat this session belongs to."""
        channel, person = binding.chat.channel, person_of(session.key) or ""
        known = await self.people(channel)
        return next((one for one in known if who(one) == person), Identity(channel, person))

    async def describe_request(self, session: Session, binding: ChatBinding | None) -> str:
        """Names the requester, chat and session, for approvers in other chats."""
        about = f"Session `{session.id}`"
        if session.title:
            about = f"{_code(session.title)}, session `{session.id}`"
        if binding is None:
            return f"{about} ({session.source})"
        person = await self.person(session, binding)
        name = plain_name(person.name.removeprefix(CLAIMED)) or "somebody"
        return f"For {_code(name)} ({person.hash[:6]}) in {_code(binding.chat.target)}. {about}"


def _code(text: str) -> str:
    quoted = one_line(text).replace("`", "'")
    return f"`{quoted}`"
