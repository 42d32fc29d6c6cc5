"""Resolves senders to identities and roles, from the store (`hermes gateway people`) or the
allow-lists in the settings."""

import unicodedata
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.gateway import Chat, Identity, InboundMessage, Person, PseudonymHasher
from hermes_agent.host.context import RuntimeContext

ALLOW = "allow"
"""The channel setting that lists who may talk, by id; `group:CHAT` admits everybody in that group,
there."""
OWNERS = "owners"
"""The channel setting that lists who may also decide."""
GROUP = "group:"
CLAIMED = "~"
"""Prefix of a name that only the platform vouches for."""
MAX_NAME = 40
MAX_TEXT = 100_000


class IdentityResolver:
    def __init__(self, context: RuntimeContext, ids: PseudonymHasher) -> None:
        self._context = context
        self._ids = ids

    async def known(self, arrived: InboundMessage) -> Identity | None:
        """The sender, if they may talk to us."""
        channel, person = arrived.chat.channel, arrived.person
        hash = self._ids(channel, person.id)
        kept = await self._context.store.gateway.identity(channel, hash)
        if kept is not None:
            return None if kept.role == "blocked" else _at_most(kept, person)
        given = self._context.settings.channels.get(channel, {})
        name = claimed(person)
        if person.id.casefold() in _folded(given, OWNERS):
            return _at_most(Identity(channel, hash, name, "owner", by=OWNERS), person)
        allowed = {person.id.casefold()}
        if arrived.group:
            allowed.add(f"{GROUP}{arrived.chat.chat}".casefold())
        if allowed & _folded(given, ALLOW):
            return Identity(channel, hash, name, "member", by=ALLOW)
        return None


def _at_most(identity: Identity, person: Person) -> Identity:
    return identity if person.vouched else replace(identity, role="member")


def listed(settings: Mapping[str, Any], name: str) -> list[str]:
    given = settings.get(name, ())
    many = given if isinstance(given, list | tuple) else [given]
    return [str(one) for one in many if one not in (None, "")]


def _folded(settings: Mapping[str, Any], name: str) -> set[str]:
    return {one.casefold() for one in listed(settings, name)}


def binding_key(ids: PseudonymHasher, chat: Chat, person: str = "") -> str:
    """The key of a chat's binding; `person` is the hash of a private chat's person."""
    return ids("bond", chat.channel, chat.chat, chat.thread, person)


def who(identity: Identity) -> str:
    """The name of a person in rules: as given by the owner of the home, else the hash."""
    named = identity.name and not identity.name.startswith(CLAIMED)
    return identity.name if named else identity.hash


def names(identity: Identity) -> tuple[str, ...]:
    """The names that rules may use: a person, a person on a channel, a channel."""
    one, channel = who(identity), identity.channel
    return (one, f"{channel}:{one}", identity.hash, f"{channel}:{identity.hash}", channel)


def claimed(person: Person) -> str:
    """The name on the platform, marked as such."""
    return f"{CLAIMED}{plain_name(person.name)}" if plain_name(person.name) else ""


def plain_name(name: str) -> str:
    """A name without line breaks, invisible characters, and the punctuation we put around names."""
    kept = "".join(
        " " if sign.isspace() else sign
        for sign in name[: MAX_NAME * 4]
        if sign.isspace() or (unicodedata.category(sign)[0] != "C" and sign not in "():[]<>~")
    )
    return " ".join(kept.split())[:MAX_NAME].strip()


def attributed(identity: Identity, person: Person, text: str) -> str:
    """A group message as `Name (hash): text`. Further lines are indented, so that nobody can forge
    a line of somebody else."""
    shown = plain_name(person.name) or "somebody"
    if not identity.name.startswith(CLAIMED) and identity.name:
        shown = identity.name
    first, *more = text.splitlines() or [""]
    begin = f"{shown} ({identity.hash[:6]}): {first}"
    return "\n".join([begin, *(f"    {line}" for line in more)])


def plain_text(text: str) -> str:
    """A message that can be stored: no lone surrogates or zero bytes, and of bounded length."""
    text = text.encode("utf-8", "replace").decode().replace("\x00", "")
    if len(text) > MAX_TEXT:
        return text[:MAX_TEXT] + "\n(the rest of this message was cut off)"
    return text
