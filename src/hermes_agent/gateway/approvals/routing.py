"""Open questions and parked effects are put where they can be answered: in the chat of the session
that asks, and, where nobody there may, in the home chats or those of owners. What was decided is
shown in its place, wherever it was asked."""

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
)
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.pseudonyms import PseudonymHasher
from hermes_agent.core.records import Parked, Question, Session
from hermes_agent.gateway.access.identities import CLAIMED, who
from hermes_agent.gateway.approvals.approvers import ApproverDirectory, May, is_owner
from hermes_agent.gateway.approvals.questions import (
    DECISIONS,
    RenderedQuestion,
    may_answer,
    parked_hash,
    put,
    question_hash,
    render_parked,
)
from hermes_agent.gateway.channel import ChannelDirectory
from hermes_agent.gateway.delivery.splitting import split_for
from hermes_agent.runtime.services import Domains

AT_HOME = (INCIDENTS, JOBS, "commander")
"""Sources of sessions that have no chat of their own and whose questions go to the home chats."""

ASKED = "Nobody whom I know here may answer this: I have asked elsewhere, too."
NOBODY = (
    "Nobody whom I know here may answer this, and I know of nobody else whom I could ask in a "
    "chat. Whoever runs me decides it by `hermes approvals` or `hermes parked`."
)
ABOUT = 120
"""Characters of a question that stand below what was decided, where it cannot be edited."""


class QuestionTarget(NamedTuple):
    """Where something is put."""

    chat: Chat
    may: bool = True
    """It can be decided there."""
    group: bool = False
    elsewhere: bool = False
    """Not where it was asked for: whose wish it is must be said."""
    note: str = ""
    """Said below it."""


class ApprovalRouter:
    def __init__(self, domains: Domains, live: ChannelDirectory, ids: PseudonymHasher) -> None:
        self._context = domains.context
        self._jobs = domains.jobs
        self._live = live
        self._ids = ids
        self._approvers = ApproverDirectory(domains.context, domains.outbound, ids)
        self._put: set[str] = set()
        """What is in the ledger already."""
        self.waiting: set[str] = set()
        """Sessions that wait for an answer."""

    async def ask_all(self) -> None:
        """Every open question that is not in the ledger yet."""
        store = self._context.store
        questions, parked = await store.questions(), await store.parked()
        self.waiting = {one.session for one in questions} | {one.session for one in parked}
        open_ones: dict[str, Question | Parked] = {
            **{f"question/{question_hash(self._ids, one.id)}": one for one in questions},
            **{f"parked/{parked_hash(self._ids, one.effect)}/{one.since}": one for one in parked},
        }
        self._put = {
            key for key, one in open_ones.items()
            if key in self._put or await self._put_one(key, one)
        }  # fmt: skip

    async def _put_one(self, key: str, one: Question | Parked) -> bool:
        """False where nobody is known who could be asked: somebody may come."""
        try:
            session = await self._root(one.session)
        except NotFound:
            return True
        binding = await self._context.store.gateway.binding_of(session.id)
        places = await self._places(session, binding, one)
        asked = any(place.may and place.note != NOBODY for place in places)
        made: list[NewDelivery] = []
        for place in places:
            manifest = self._live.manifest(place.chat.channel)
            buttons = manifest is not None and manifest.buttons
            shown = self._shown(one, buttons, place) if place.may else _waiting(one, asked)
            text = shown.text
            if place.elsewhere:
                text = f"{await self._approvers.describe_request(session, binding)}\n\n{text}"
            text = f"{text}\n\n{place.note}" if place.note else text
            outgoing = OutboundMessage(place.chat, text, buttons=shown.buttons, kind="question")
            made.append(NewDelivery(f"{key}/{self._ids(place.chat.target)}/0", outgoing))
        await self._context.store.gateway.enqueue(*made)
        for row in made:
            self._live.wake(row.outgoing.chat.channel)
        return asked or (binding is None and session.source not in AT_HOME)

    def _shown(
        self, one: Question | Parked, buttons: bool, place: QuestionTarget
    ) -> RenderedQuestion:
        if isinstance(one, Question):
            return put(
                one, self._ids, buttons=buttons, group=place.group, elsewhere=place.elsewhere
            )
        return render_parked(one, self._ids, buttons=buttons)

    async def _root(self, id: str) -> Session:
        session = await self._context.store.session(id)
        while session.parent:
            session = await self._context.store.session(session.parent)
        return session

    async def _places(
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
        """Where somebody is asked for a session that has no chat: of a job, where it delivers."""
        if session.source not in AT_HOME:
            return []
        own = await self._jobs.asked(session) if session.source == JOBS else []
        return await self._approvers.among(own, may) or await self._approvers.chats(may=may)

    async def _is_there(self, binding: ChatBinding, one: Question | Parked) -> bool:
        """Whether as many have written in a group as it takes to answer it."""
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
        """Whether the person of a private chat may answer it there."""
        identity = await self._approvers.person(session, binding)
        if isinstance(one, Parked):
            return is_owner(identity)
        return may_answer(identity, one, replace(binding, session=one.session))

    # what was decided

    async def closed(
        self, event: ev.QuestionAnswered | ev.ApprovalGiven | ev.ParkDecided
    ) -> list[NewDelivery]:
        """What the chats that were asked are to see now."""
        if isinstance(event, ev.ParkDecided):
            prefix = f"parked/{parked_hash(self._ids, event.effect)}/"
            said = f"{DECISIONS[event.decision]}: {await self._name(event.by)}"
        else:
            prefix = f"question/{question_hash(self._ids, event.id)}/"
            said = await self._said(event)
        told = await self._context.store.gateway.deliveries(key=prefix, limit=1_000)
        asked = [
            one for one in told if one.outgoing.chat.chat and one.key.rpartition("/")[2].isdecimal()
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
        """As people know them."""
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
        manifest = self._live.manifest(before.chat.channel)
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
    what = "this was begun, and nobody knows how it ended" if isinstance(one, Parked) else (
        "this needs the consent of somebody else"
    )  # fmt: skip
    if asked:
        return RenderedQuestion(f"I wait: {what}. I have asked.", ())
    command = "hermes parked" if isinstance(one, Parked) else "hermes approvals"
    nobody = "I know of nobody whom I could ask in a chat"
    return RenderedQuestion(
        f"I wait: {what}, and {nobody}. Whoever runs me decides it by `{command}`.", ()
    )
