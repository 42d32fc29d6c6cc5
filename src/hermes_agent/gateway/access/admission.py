"""The entrance: strangers get nothing, and codes let their bearers in. What a person may more by a
code, they may at once; no code goes to a model."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import Chat, Identity, InboundMessage, InboxEntry, Pairing, Role
from hermes_agent.core.pseudonyms import PseudonymHasher
from hermes_agent.gateway.access import pairing
from hermes_agent.gateway.access.identities import claimed
from hermes_agent.host.config import set_setting
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import HOME
from hermes_agent.host.policy_gates import GateFactory

log = logging.getLogger("hermes.gateway")

MAX_STRANGERS = 10_000
"""Of a channel that are remembered: nobody fills the memory."""

WELCOME = "Welcome. I know you now; /help says what I understand."
KNOWN = "You are {role} on {channel} now; /help says what I understand."
NO_CODE = "This code lets nobody in, or not any more. `/pair` makes one, for owners."
NOT_HERE = "Everybody here could use this code. Make another, and send it to me alone."
NEW_HOME = (
    "This chat is the home of {channel} from now on: what an owner must consent to, and what is "
    "said to nobody in particular, comes here. `hermes config set channels.{channel}.home CHAT` "
    "names another."
)


class HandlingResult(NamedTuple):
    state: Literal["done", "ignored"]
    why: str = ""


class Admission:
    """`say` answers a row; `refresh` reads the settings again."""

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
        """A new code for whoever is to be let in."""
        self._refresh()
        channels = self._context.settings.channels
        if channel not in channels:
            known = ", ".join(sorted(channels)) or "none is set up"
            raise UsageError(f"there is no channel {channel!r}", f"channels: {known}")
        if policy:
            GateFactory(self._context.home.path, Path.home()).expect(policy)
        if name:
            pairing.check_name(name, channels)
        code = pairing.new_code()
        kept = pairing.kept(self._ids, code, channel, role, policy, name, self._context.clock())
        await self._context.store.gateway.save_pairing(kept)
        return code

    async def stranger(self, kept: InboxEntry) -> HandlingResult:
        """Nothing is answered and nothing shown, but to whoever brings a code."""
        arrived = kept.arrived
        channel, person = arrived.chat.channel, self._ids(arrived.chat.channel, arrived.person.id)
        gateway = self._context.store.gateway
        blocked = await gateway.identity(channel, person)
        if not arrived.group and blocked is None:
            new = Identity(channel, person, claimed(arrived.person), by="code")
            used = await self._used(arrived, new)
            if used is not None:
                log.info("%s was let in on %s by a code, as %s", person, channel, used.role)
                await self._welcome(kept, WELCOME, used.role)
                return HandlingResult("done")
        strangers = self._strangers.setdefault(channel, set())
        if person not in strangers and len(strangers) < MAX_STRANGERS:
            strangers.add(person)
            await gateway.stranger(channel, person)
            log.info("a stranger wrote on %s; nothing was answered", channel)
        return HandlingResult("ignored", "a stranger")

    async def code_of_known(self, kept: InboxEntry, identity: Identity) -> HandlingResult | None:
        """What comes of a code that somebody brings whom we know already; None when it is none."""
        arrived = kept.arrived
        code = pairing.code_in(arrived.text)
        if not code:
            return None
        if not arrived.group and arrived.kind == "message":
            if identity.by == "code" and identity.since >= kept.kept:  # the runtime died in between
                await self._let_in(kept, identity.role)
                return HandlingResult("done")
            used = await self._used(arrived, identity)
            if used is not None:
                role: Role = "owner" if "owner" in (identity.role, used.role) else "member"
                log.info("%s is %s on %s by a code", identity.hash, role, identity.channel)
                await self._let_in(kept, role)
                return HandlingResult("done")
        if not pairing.is_plainly_code(arrived.text):
            return None
        if arrived.kind == "edited":
            return HandlingResult("ignored", "a code that was edited")
        await self._say(kept, NOT_HERE if arrived.group else NO_CODE)
        return HandlingResult("done")

    async def _let_in(self, kept: InboxEntry, role: Role) -> None:
        await self._welcome(kept, KNOWN.format(role=role, channel=kept.arrived.chat.channel), role)

    async def _used(self, arrived: InboundMessage, before: Identity) -> Pairing | None:
        """The pairing of the code in a message, which is used up; nobody may less by it."""
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

    async def _welcome(self, kept: InboxEntry, said: str, role: Role) -> None:
        chat = kept.arrived.chat
        if role == "owner" and await self._make_home(chat):
            said += f"\n\n{NEW_HOME.format(channel=chat.channel)}"
        await self._say(kept, said)

    async def _make_home(self, chat: Chat) -> bool:
        """Make a chat the home of its channel, where that has none."""
        if self._context.settings.channels.get(chat.channel, {}).get(HOME):
            return False
        setting, config = f"channels.{chat.channel}.{HOME}", self._context.home.config
        try:
            await asyncio.to_thread(set_setting, config, setting, json.dumps(chat.chat), _fine)
        except (HermesError, OSError) as error:
            log.warning("%s could not be set: %s", setting, error)
            return False
        self._refresh()
        return True


def _fine(_settings: object) -> None:
    """Nothing more is asked of the settings."""
