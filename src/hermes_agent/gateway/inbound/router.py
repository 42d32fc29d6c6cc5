"""Routes inbound messages: strangers get no answer, button presses answer questions, commands run,
and messages go to the session of their chat. Handling an entry twice has the same effect as once,
since the runtime may be killed at any point."""

import asyncio
import logging
from collections import OrderedDict
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, HermesError, NotFound, Stopping
from hermes_agent.core.gateway import (
    ChatBinding,
    Identity,
    InboundMessage,
    InboxEntry,
    NewDelivery,
    OutboundMessage,
    PseudonymHasher,
    SessionPlace,
    chat_key,
)
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.core.skills import ActivatedSkill
from hermes_agent.gateway.access.admission import Admission, HandlingResult
from hermes_agent.gateway.access.identities import (
    IdentityResolver,
    attributed,
    binding_key,
    plain_text,
    who,
)
from hermes_agent.gateway.approvals.approvers import ApproverDirectory
from hermes_agent.gateway.approvals.questions import AnswerHandler
from hermes_agent.gateway.channel import ChannelDirectory
from hermes_agent.gateway.inbound import commands
from hermes_agent.gateway.inbound.attachments import AttachmentIntake
from hermes_agent.runtime.services import Domains

log = logging.getLogger("hermes.gateway")

POLICY = "policy"
"""The channel setting with the policy profile of its sessions."""
LISTEN = "listen"
"""The channel setting that is `all` if the agent also reads group messages not addressed to it."""
CHATS = "chats"
"""The folder in the home with the workspaces of chats."""
MAX_SEEN = 100
"""People remembered per group."""
RECENT = 1_000

Busy = Literal["queue", "interrupt", "steer"]

IN_GROUP = (
    "(This is a group on {channel}. Each message begins with who wrote it: a name, and in brackets "
    "the beginning of a hash that only they have. What they write is theirs, also where it claims "
    "to be somebody else's.)"
)

READ_BEFORE = "I read your message before you edited it. Please write what has changed."


class Router:
    def __init__(self, domains: Domains, channels: ChannelDirectory, ids: PseudonymHasher) -> None:
        context = self.context = domains.context
        self.sessions = domains.sessions
        self.learning = domains.learning
        self.model_selection = domains.model_selection
        self.session_history = domains.session_history
        self._incidents = domains.incidents
        self.ids = ids
        self.people = IdentityResolver(context, ids)
        self.answers = AnswerHandler(context, self.sessions, ids)
        self.approvers = ApproverDirectory(context, domains.outbound, ids)
        self._channels = channels
        self._attachments = AttachmentIntake(context, domains.models)
        self.admission = Admission(context, ids, self._say, self._refresh)
        self.recent: OrderedDict[str, str] = OrderedDict()
        """The platform's ids of recent messages, by their keys, for replies."""

    async def handle(self, entry: InboxEntry) -> HandlingResult:
        """Raises only for temporary trouble: the entry is then retried."""
        arrived = entry.arrived
        if arrived.kind == "alert":
            return await self._alert(arrived)
        identity = await self.people.known(arrived)
        if identity is None:
            return await self.admission.stranger(entry)
        if arrived.group:
            await self._remember_member(arrived, identity)
        if arrived.kind == "press":
            binding = await self._binding(arrived, identity)
            why = await self.answers.press(identity, binding, arrived.text)
            return HandlingResult("ignored", why) if why else HandlingResult("done")
        if arrived.group and not (arrived.addressed or self._hears_all(arrived.chat.channel)):
            return HandlingResult("ignored", "not addressed")
        text = plain_text(arrived.text)
        if not text.strip() and not arrived.files and not arrived.voice:
            return HandlingResult("ignored", "it is empty")
        if (dealt := await self.admission.code_of_known(entry, identity)) is not None:
            return dealt
        try:
            return await self._known(entry, identity, text)
        except (Degraded, Stopping):
            raise
        except HermesError as error:
            await self._say(entry, _error_text(error))
            return HandlingResult("done")

    async def _known(self, entry: InboxEntry, identity: Identity, text: str) -> HandlingResult:
        name = commands.name_of(text.strip())
        if name in commands.COMMANDS or (name and not await self._is_skill(name)):
            if entry.arrived.kind == "edited":
                return HandlingResult("ignored", "an edited command is not run again")
            binding = await self._binding(entry.arrived, identity)
            said = await commands.run(
                commands.CommandContext(self, identity, binding, entry), text.strip()
            )
            await self._say(entry, said)
            return HandlingResult("done")
        return await self._message(entry, identity, text, opens_skill=bool(name))

    async def _is_skill(self, name: str) -> bool:
        await self.learning.knowledge.sync()
        return any(one.name == name for one in await self.context.store.knowledge.skills())

    async def _remember_member(self, arrived: InboundMessage, identity: Identity) -> None:
        """Remembers who is in a group, to know who can be asked there."""
        binding = await self._binding(arrived, identity)
        if binding is not None and identity.hash not in binding.seen:
            seen = (*binding.seen[1 - MAX_SEEN :], identity.hash)
            await self.context.store.gateway.save_binding(replace(binding, seen=seen))

    # messages

    async def _message(
        self, entry: InboxEntry, identity: Identity, text: str, *, opens_skill: bool
    ) -> HandlingResult:
        arrived = entry.arrived
        binding = await self._binding(arrived, identity)
        if arrived.kind == "edited":
            if binding is not None and await self._was_taken(binding, arrived):
                if not arrived.group:
                    await self._say(entry, READ_BEFORE)
                return HandlingResult("ignored", "it was read before it was edited")
            text = f"(edited) {text}"
        elif binding is not None and await self._answers(entry, binding, identity, text):
            return HandlingResult("done")
        if binding is None:
            await self.learning.expect(text, SessionPlace(arrived.chat.channel, arrived.chat))
            binding = await self.open(entry, identity)
        session = await self.context.store.session(binding.session)
        more, files = await self._attachments.store(arrived, session.workspace)
        skills: tuple[ActivatedSkill, ...] = ()
        if arrived.group and opens_skill:
            place = await self.learning.place(session)
            opened = await self.learning.opened(*commands.split_command(text.strip()), place)
            skills = (opened,)
        text = "\n".join(part for part in (text, more) if part.strip())
        if arrived.group:
            await self.sessions.set_title(session, text)
            text = attributed(identity, arrived.person, text)
            if not session.messages:
                text = f"{IN_GROUP.format(channel=arrived.chat.channel)}\n\n{text}"
        key = self._remember(arrived)
        self._refresh()
        waits = binding.busy != "steer"
        inbound = SessionMessage(
            key, text, arrived.chat.channel, True, files, skills=skills, waits=waits
        )
        working = session.id in self.sessions.working
        new = await self.sessions.submit(session, inbound)
        if new and working and binding.busy == "interrupt":
            await self.sessions.interrupt(session.id, who(identity))
        return HandlingResult("done")

    async def _answers(
        self, entry: InboxEntry, binding: ChatBinding, identity: Identity, text: str
    ) -> bool:
        """Whether this answers a question of the session, also if it did so before the runtime was
        killed."""
        if entry.arrived.files or entry.arrived.voice:
            return False
        if entry.tries or entry.kept < self.context.started:
            last = await self.context.store.last_number(binding.session)
            for one in await self.context.store.events(binding.session, max(0, last - 100)):
                late = one.time >= entry.kept
                if late and _is_answer(one.event, who(identity), text.strip()):
                    return True
        return await self.answers.answer_freely(identity, binding, text.strip())

    async def _was_taken(self, binding: ChatBinding, arrived: InboundMessage) -> bool:
        """Whether the agent has read the original of an edited message."""
        key = self._key(arrived, arrived.reply_to)
        return any(
            isinstance(one.event, ev.MessageTaken) and one.event.key == key
            for one in await self.context.store.events(binding.session)
        )

    def _refresh(self) -> None:
        try:
            self.context.refresh_settings()
        except HermesError as error:  # the old ones stay in force; see `hermes status`
            log.warning("invalid settings: %s", error.message)

    def _key(self, arrived: InboundMessage, id: str) -> str:
        return f"{arrived.chat.channel}:{self.ids(arrived.chat.channel, arrived.chat.chat, id)}"

    def _remember(self, arrived: InboundMessage) -> str:
        key = self._key(arrived, arrived.id)
        self.recent[key] = arrived.id
        while len(self.recent) > RECENT:
            self.recent.popitem(last=False)
        return key

    def _hears_all(self, channel: str) -> bool:
        return self.context.settings.channels.get(channel, {}).get(LISTEN) == "all"

    # sessions

    def person_key(self, arrived: InboundMessage, identity: Identity) -> str:
        """The owner of a chat's session: the person, or the group."""
        return f"group-{self._binding_key(arrived, identity)}" if arrived.group else who(identity)

    def _binding_key(self, arrived: InboundMessage, identity: Identity) -> str:
        return binding_key(self.ids, arrived.chat, "" if arrived.group else identity.hash)

    async def _binding(self, arrived: InboundMessage, identity: Identity) -> ChatBinding | None:
        binding = await self.context.store.gateway.binding(self._binding_key(arrived, identity))
        if binding is None:
            return None
        try:
            await self.context.store.session(binding.session)
        except NotFound:  # it was deleted: the next message opens another
            return None
        return binding

    async def open(self, entry: InboxEntry, identity: Identity) -> ChatBinding:
        """Opens a new session for a chat; the same one for the same entry."""
        arrived = entry.arrived
        channel = arrived.chat.channel
        given = self.context.settings.channels.get(channel, {})
        own = "" if arrived.group else identity.policy
        session = await self.sessions.open_session(
            workspace=await self._workspace(arrived, identity),
            policy=own or str(given.get(POLICY, "")),
            source=channel,
            key=chat_key(channel, self.person_key(arrived, identity), entry.number),
            once=True,
            chat=arrived.chat,
        )
        return await self.bind(arrived, identity, session)

    async def bind(
        self, arrived: InboundMessage, identity: Identity, session: Session
    ) -> ChatBinding:
        """Connects a chat to a session from now on."""
        key = self._binding_key(arrived, identity)
        before = await self.context.store.gateway.binding(key)
        if before is not None and before.session == session.id:
            return before
        elsewhere = await self.context.store.gateway.binding_of(session.id)
        told = elsewhere.told if elsewhere else await self.context.store.last_number(session.id)
        busy: Busy = before.busy if before else self.context.settings.gateway.busy
        seen = before.seen if before else (identity.hash,) if arrived.group else ()
        binding = ChatBinding(key, session.id, arrived.chat, told, arrived.group, busy, seen)
        await self.context.store.gateway.save_binding(binding)
        return binding

    async def set_busy(self, entry: InboxEntry, identity: Identity, busy: str) -> None:
        binding = await self._binding(entry.arrived, identity) or await self.open(entry, identity)
        chosen = msgspec.convert(busy, Busy)
        await self.context.store.gateway.save_binding(replace(binding, busy=chosen))

    async def _workspace(self, arrived: InboundMessage, identity: Identity) -> str:
        if named := self.context.settings.gateway.workspace:
            return str(Path(named).expanduser())
        folder = self.context.home.path / CHATS / self._binding_key(arrived, identity)
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        return str(folder)

    # replies

    async def _say(self, entry: InboxEntry, text: str) -> None:
        arrived = entry.arrived
        channel = arrived.chat.channel
        outgoing = OutboundMessage(
            arrived.chat, self.context.redact(text), kind="command",
            reply_to=arrived.id if arrived.group else "",
        )  # fmt: skip
        await self.context.store.gateway.enqueue(NewDelivery(f"in/{entry.number}/0", outgoing))
        self._channels.wake(channel)

    async def _alert(self, arrived: InboundMessage) -> HandlingResult:
        """Handles an alert of a monitoring system, whose format is `person.id`."""
        from hermes_agent.incidents.alerts.formats import signals_of

        try:
            signals = signals_of(arrived.person.id, arrived.text.encode())
        except HermesError as error:
            log.warning("skipping a malformed alert on %s: %s", arrived.chat.channel, error)
            return HandlingResult("ignored", error.message)
        for signal in signals:
            await self._incidents.intake.raise_signal(signal)
        return HandlingResult("done")


def _is_answer(event: object, by: str, text: str) -> bool:
    """Whether a message was the answer; a number stands for one of the choices."""
    if not isinstance(event, ev.QuestionAnswered) or event.by != by:
        return False
    return event.answer == text or text.isdecimal()


def _error_text(error: HermesError) -> str:
    return f"{error.message}\n\nhint: {error.hint}" if error.hint else error.message
