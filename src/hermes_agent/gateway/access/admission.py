"""Admits people: strangers get no answer, and pairing codes let people in or raise their role. No
code reaches a model."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import (
    Chat,
    Identity,
    InboundMessage,
    InboxEntry,
    Pairing,
    PseudonymHasher,
    Role,
)
from hermes_agent.gateway.access import pairing
from hermes_agent.gateway.access.identities import claimed
from hermes_agent.host.config import set_setting
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import HOME
from hermes_agent.host.policy_gates import GateFactory

log = logging.getLogger("hermes.gateway")

MAX_STRANGERS = 10_000
"""Strangers remembered per channel, so that nobody can fill the memory."""

WELCOME = "Welcome. You can talk to me now; /help lists the commands."
KNOWN = "You are now {role} on {channel}; /help lists the commands."
NO_CODE = "This code is invalid or has expired. Owners can create one with `/pair`."
NOT_HERE = "Everyone here can see this code. Create another one and send it to me in private."
NEW_HOME = (
    "This chat is now the home of {channel}: requests for approval and messages with no other "
    "target come here. `hermes config set channels.{channel}.home CHAT` changes that."
)


class HandlingResult(NamedTuple):
    state: Literal["done", "ignored"]
    why: str = ""


class Admission:
    """`say` answers an inbox entry; `refresh` reads the settings again."""

    def __init__(
        self,
        context: RuntimeContext,
        ids: PseudonymHasher,
        say: Callable[[InboxEntry, str], Awaitable[None]],
        refresh: Callable[[], None],
    ) -> None:
        self._context = context
        self._ids = ids
        self._say = say
        self._refresh = refresh
        self._guesses = pairing.Guesses(context.clock)
        self._strangers: dict[str, set[str]] = {}

    async def pair(self, channel: str, role: Role, policy: str = "", name: str = "") -> str:
        """A new pairing code."""
        self._refresh()
        channels = self._context.settings.channels
        if channel not in channels:
            known = ", ".join(sorted(channels)) or "none set up"
            raise UsageError(f"no channel called {channel!r}", f"channels: {known}")
        if policy:
            GateFactory(self._context.home.path, Path.home()).expect(policy)
        if name:
            pairing.check_name(name, channels)
        code = pairing.new_code()
        hash, expires = pairing.hashed(self._ids, channel, code), self._context.clock()
        new = Pairing(hash, channel, role, expires + pairing.SECONDS, policy, name)
        await self._context.store.gateway.save_pairing(new)
        return code

    async def stranger(self, entry: InboxEntry) -> HandlingResult:
        """Ignores a stranger's message, unless it is a valid code."""
        arrived = entry.arrived
        channel, person = arrived.chat.channel, self._ids(arrived.chat.channel, arrived.person.id)
        gateway = self._context.store.gateway
        blocked = await gateway.identity(channel, person)
        if not arrived.group and blocked is None:
            new = Identity(channel, person, claimed(arrived.person), by="code")
            used = await self._used(arrived, new)
            if used is not None:
                log.info("%s was paired on %s as %s", person, channel, used.role)
                await self._welcome(entry, WELCOME, used.role)
                return HandlingResult("done")
        strangers = self._strangers.setdefault(channel, set())
        if person not in strangers and len(strangers) < MAX_STRANGERS:
            strangers.add(person)
            await gateway.stranger(channel, person)
            log.info("ignored a stranger on %s", channel)
        return HandlingResult("ignored", "a stranger")

    async def code_of_known(self, entry: InboxEntry, identity: Identity) -> HandlingResult | None:
        """Handles a code from a known person; None if the message is no code."""
        arrived = entry.arrived
        code = pairing.code_in(arrived.text)
        if not code:
            return None
        if not arrived.group and arrived.kind == "message":
            if identity.by == "code" and identity.since >= entry.kept:  # killed in between
                await self._confirm(entry, identity.role)
                return HandlingResult("done")
            used = await self._used(arrived, identity)
            if used is not None:
                role: Role = "owner" if "owner" in (identity.role, used.role) else "member"
                log.info("%s was paired as %s on %s", identity.hash, role, identity.channel)
                await self._confirm(entry, role)
                return HandlingResult("done")
        if not pairing.is_plainly_code(arrived.text):
            return None
        if arrived.kind == "edited":
            return HandlingResult("ignored", "an edited code")
        await self._say(entry, NOT_HERE if arrived.group else NO_CODE)
        return HandlingResult("done")

    async def _confirm(self, entry: InboxEntry, role: Role) -> None:
        await self._welcome(
            entry, KNOWN.format(role=role, channel=entry.arrived.chat.channel), role
        )

    async def _used(self, arrived: InboundMessage, before: Identity) -> Pairing | None:
        """Redeems the code in a message. It never lowers a role."""
        code = pairing.code_in(arrived.text) if arrived.kind == "message" else ""
        if not code or not self._guesses.may(before.channel, before.hash):
            return None
        now = self._context.clock()

        def let_in(by: Pairing) -> Identity:
            role: Role = "owner" if "owner" in (before.role, by.role) else by.role
            name, policy = by.name or before.name, by.policy or before.policy
            return Identity(before.channel, before.hash, name, role, policy, now, "code")

        hashed = pairing.hashed(self._ids, before.channel, code)
        return await self._context.store.gateway.redeem_pairing(before.channel, hashed, now, let_in)

    async def _welcome(self, entry: InboxEntry, said: str, role: Role) -> None:
        chat = entry.arrived.chat
        if role == "owner" and await self._make_home(chat):
            said += f"\n\n{NEW_HOME.format(channel=chat.channel)}"
        await self._say(entry, said)

    async def _make_home(self, chat: Chat) -> bool:
        """Makes a chat the home of its channel if that has none."""
        if self._context.settings.channels.get(chat.channel, {}).get(HOME):
            return False
        setting, config = f"channels.{chat.channel}.{HOME}", self._context.home.config
        try:
            await asyncio.to_thread(
                set_setting, config, setting, json.dumps(chat.chat), lambda _settings: None
            )
        except (HermesError, OSError) as error:
            log.warning("%s could not be set: %s", setting, error)
            return False
        self._refresh()
        return True
