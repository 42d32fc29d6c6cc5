"""Sends open questions and parked effects to where they can be answered: the chat of the session,
or home chats and chats of owners if nobody there may. Decisions then replace the questions."""

from typing import NamedTuple

from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound
from hermes_agent.core.gateway import (
    Chat,
    ChatBinding,
    Identity,
    NewDelivery,
    OutboundMessage,
    OutboxEntry,
    PseudonymHasher,
)
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.records import Parked, Question, Session
from hermes_agent.gateway.access.identities import CLAIMED, who
from hermes_agent.gateway.approvals.approvers import ApproverDirectory, May, is_owner
from hermes_agent.gateway.approvals.questions import (
    DECISIONS,
    RenderedQuestion,
    may_answer,
    parked_hash,
    question_hash,
    render_parked,
    render_question,
)
from hermes_agent.gateway.channel import ChannelDirectory
from hermes_agent.gateway.delivery.splitting import split_for
from hermes_agent.runtime.services import Domains

AT_HOME = (INCIDENTS, JOBS, "commander")
"""Sources of sessions without a chat, whose questions go to home chats."""

ASKED = "Nobody here is allowed to answer this, so I have also asked elsewhere."
NOBODY = (
    "Nobody here is allowed to answer this, and there is no other chat to ask in. Whoever runs me "
    "can decide it with `hermes approvals` or `hermes parked`."
)
ABOUT = 240
"""Characters of a question quoted below the decision where it cannot be edited."""


class QuestionTarget(NamedTuple):
    """A chat to which a question is sent."""

    chat: Chat
    may: bool = True
    """Somebody there may answer it."""
    group: bool = False
    elsewhere: bool = False
    """Not the chat of the session: the requester must be named."""
    note: str = ""
    """Added below the question."""


class ApprovalRouter:
    def __init__(self, domains: Domains, channels: ChannelDirectory, ids: PseudonymHasher) -> None:
        self._context = domains.context
        self._jobs = domains.jobs
        self._channels = channels
        self._ids = ids
        self._approvers = ApproverDirectory(domains.context, domains.outbound, ids)
        self._sent: set[str] = set()
        """Keys of the questions that were queued."""
        self.waiting: set[str] = set()
        """Sessions that wait for an answer."""

    async def ask_all(self) -> None:
        """Queues every open question that was not queued yet."""
        store = self._context.store
        questions, parked = await store.questions(), await store.parked()
        self.waiting = {one.session for one in questions} | {one.session for one in parked}
        open_ones: dict[str, Question | Parked] = {
            **{f"question/{question_hash(self._ids, one.id)}": one for one in questions},
            **{f"parked/{parked_hash(self._ids, one.effect)}/{one.since}": one for one in parked},
        }
        self._sent = {
            key for key, one in open_ones.items()
            if key in self._sent or await self._ask(key, one)
        }  # fmt: skip

    async def _ask(self, key: str, one: Question | Parked) -> bool:
        """False if nobody can be asked yet: somebody may be paired later."""
        try:
            session = await self._root(one.session)
        except NotFound:
            return True
        binding = await self._context.store.gateway.binding_of(session.id)
        targets = await self._targets(session, binding, one)
        asked = any(target.may and target.note != NOBODY for target in targets)
        made: list[NewDelivery] = []
        for target in targets:
            manifest = self._channels.manifest(target.chat.channel)
            buttons = manifest is not None and manifest.buttons
            shown = self._shown(one, buttons, target) if target.may else _waiting(one, asked)
            text = shown.text
            if target.elsewhere:
                text = f"{await self._approvers.describe_request(session, binding)}\n\n{text}"
            text = f"{text}\n\n{target.note}" if target.note else text
            outgoing = OutboundMessage(target.chat, text, buttons=shown.buttons, kind="question")
            made.append(NewDelivery(f"{key}/{self._ids(target.chat.target)}/0", outgoing))
        await self._context.store.gateway.enqueue(*made)
        for row in made:
            self._channels.wake(row.outgoing.chat.channel)
        return asked or (binding is None and session.source not in AT_HOME)

    def _shown(
        self, one: Question | Parked, buttons: bool, target: QuestionTarget
    ) -> RenderedQuestion:
        if isinstance(one, Question):
            return render_question(
                one, self._ids, buttons=buttons, group=target.group, elsewhere=target.elsewhere
            )
        return render_parked(one, self._ids, buttons=buttons)

    async def _root(self, id: str) -> Session:
        session = await self._context.store.session(id)
        while session.parent:
            session = await self._context.store.session(session.parent)
        return session

    async def _targets(
        self, session: Session, binding: ChatBinding | None, one: Question | Parked
    ) -> list[QuestionTarget]:
        def may(identity: Identity) -> bool:
            asked = isinstance(one, Question) and may_answer(identity, one, None)
            return asked or (isinstance(one, Parked) and is_owner(identity))

        if binding is None:
            return [
                QuestionTarget(chat, elsewhere=True) for chat in await self._asked(session, may)
            ]
        here = binding.group and await self._is_there(binding, one)
        if here or (not binding.group and await self._may(session, binding, one)):
            return [QuestionTarget(binding.chat, group=binding.group)]
        found = await self._approvers.chats(binding.chat.channel, may)
        others = [QuestionTarget(chat, elsewhere=True) for chat in found if chat != binding.chat]
        if not binding.group:
            return [QuestionTarget(binding.chat, may=False), *others]
        note = "" if binding.chat in found else ASKED if others else NOBODY
        return [QuestionTarget(binding.chat, group=True, note=note), *others]

    async def _asked(self, session: Session, may: May) -> list[Chat]:
        """Chats to ask for a session without one; for a job, where it delivers its results."""
        if session.source not in AT_HOME:
            return []
        own = await self._jobs.asked(session) if session.source == JOBS else []
        return await self._approvers.among(own, may) or await self._approvers.chats(may=may)

    async def _is_there(self, binding: ChatBinding, one: Question | Parked) -> bool:
        """Whether enough people who may answer it have written in a group."""
        people = await self._approvers.people(binding.chat.channel)
        there = [person for person in people if person.hash in binding.seen]
        if isinstance(one, Parked):
            return any(is_owner(person) for person in there)
        here = replace(binding, session=one.session)
        listed = {person.hash for person in there}
        unlisted = [
            Identity(binding.chat.channel, hash) for hash in binding.seen if hash not in listed
        ]
        able = {who(person) for person in (*there, *unlisted) if may_answer(person, one, here)}
        return len(able) >= max(one.consent.count, 1)

    async def _may(self, session: Session, binding: ChatBinding, one: Question | Parked) -> bool:
        """Whether the person of a private chat may answer it."""
        identity = await self._approvers.person(session, binding)
        if isinstance(one, Parked):
            return is_owner(identity)
        return may_answer(identity, one, replace(binding, session=one.session))

    # decisions

    async def closed(
        self, event: ev.QuestionAnswered | ev.ApprovalGiven | ev.ParkDecided
    ) -> list[NewDelivery]:
        """The messages that replace the question in the chats that were asked."""
        if isinstance(event, ev.ParkDecided):
            prefix = f"parked/{parked_hash(self._ids, event.effect)}/"
            said = f"{DECISIONS[event.decision]}: {await self._name(event.by)}"
        else:
            prefix = f"question/{question_hash(self._ids, event.id)}/"
            said = await self._said(event)
        queued = await self._context.store.gateway.deliveries(key=prefix, limit=1_000)
        asked = [
            one
            for one in queued
            if one.outgoing.chat.chat and one.key.rpartition("/")[2].isdecimal()
        ]
        last = {one.outgoing.chat: one for one in reversed(asked)}
        return [self._closing(one, said, event) for one in last.values()]

    async def _said(self, event: ev.QuestionAnswered | ev.ApprovalGiven) -> str:
        if isinstance(event, ev.ApprovalGiven):
            return f"Agreed so far: {await self._name(event.by)}"
        if event.answer is None:
            return "Nobody answered in time."
        names = [await self._name(one) for one in event.by.split(", ")]
        return f"{event.answer[:200]}: {', '.join(names)}"

    async def _name(self, by: str) -> str:
        """A name for people."""
        for one in await self._approvers.people():
            if who(one) == by:
                return f"{one.name.removeprefix(CLAIMED) or one.hash[:6]} ({one.channel})"
        return by

    def _closing(
        self,
        asked: OutboxEntry,
        said: str,
        event: ev.QuestionAnswered | ev.ApprovalGiven | ev.ParkDecided,
    ) -> NewDelivery:
        before = asked.outgoing
        manifest = self._channels.manifest(before.chat.channel)
        goes_on = isinstance(event, ev.ApprovalGiven)
        key = f"{asked.key}/{said if goes_on else 'closed'}"
        if asked.receipt and manifest is not None and manifest.edits:
            text = f"{split_for(manifest, before.text)[-1]}\n\n{said}"
            buttons = before.buttons if goes_on else ()
            return NewDelivery(
                key, replace(before, text=text, buttons=buttons, edit=asked.receipt, reply_to="")
            )
        about = " ".join(before.text.replace("`", "").split())
        return NewDelivery(
            key,
            OutboundMessage(before.chat, f"{said}\n\n> {about[:ABOUT]}", kind="question", edit=""),
        )


def _waiting(one: Question | Parked, asked: bool) -> RenderedQuestion:
    """For those who may not answer it."""
    what = "this needs someone else's approval"
    if isinstance(one, Parked):
        what = "this was started, but its outcome is unknown"
    if asked:
        return RenderedQuestion(f"I am waiting: {what}. I have asked.", ())
    command = "hermes parked" if isinstance(one, Parked) else "hermes approvals"
    return RenderedQuestion(
        f"I am waiting: {what}, and there is no chat to ask in. Whoever runs me can decide it "
        f"with `{command}`.", (),
    )  # fmt: skip
