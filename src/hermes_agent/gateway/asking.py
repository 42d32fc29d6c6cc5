"""Open questions and parked effects are put where they can be answered: in the chat of the session
that asks, or, where nobody there may, in the home chats. What was decided is shown in its place."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.gateway import (
    Bond,
    Chat,
    Delivery,
    Identity,
    NewDelivery,
    Outgoing,
    person_of,
)
from hermes_agent.core.incidents import INCIDENTS
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.private import Ids
from hermes_agent.core.records import Parked, Question, Session
from hermes_agent.gateway.live import Live
from hermes_agent.gateway.people import CLAIMED, who
from hermes_agent.gateway.questions import (
    DECISIONS,
    Put,
    may_answer,
    parked_hash,
    put,
    put_parked,
    question_hash,
)
from hermes_agent.gateway.saying import rows
from hermes_agent.runtime.post import ALL

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime

AT_HOME = (INCIDENTS, JOBS, "commander")
"""Sources of sessions that have no chat of their own and whose questions go to the home chats."""


class Asking:
    def __init__(self, runtime: "Runtime", live: Live, ids: Ids) -> None:
        self._runtime = runtime
        self._live = live
        self._ids = ids
        self._put: set[str] = set()
        """What is in the ledger already."""
        self.waiting: set[str] = set()
        """Sessions that wait for an answer."""

    async def put_all(self) -> None:
        """Every open question that is not in the ledger yet."""
        store = self._runtime.store
        questions, parked = await store.questions(), await store.parked()
        self.waiting = {one.session for one in questions} | {one.session for one in parked}
        open_ones: dict[str, Question | Parked] = {
            **{f"question/{question_hash(self._ids, one.id)}": one for one in questions},
            **{f"parked/{parked_hash(self._ids, one.effect)}/{one.since}": one for one in parked},
        }
        for key, one in open_ones.items():
            if key not in self._put:
                await self._put_one(key, one)
        self._put = set(open_ones)

    async def _put_one(self, key: str, one: Question | Parked) -> None:
        try:
            session = await self._root(one.session)
        except NotFound:
            return
        made: list[NewDelivery] = []
        for chat, group, may in await self._places(session, one):
            manifest = self._live.manifest(chat.channel)
            buttons = manifest is not None and manifest.buttons
            shown = self._shown(one, buttons, group) if may else self._waiting(one)
            at = f"{key}/{self._ids(chat.target)}"
            made += rows(at, chat, shown.text, manifest, kind="question", buttons=shown.buttons)
        await self._runtime.store.gateway.enqueue(*made)
        for row in made:
            self._live.wake(row.outgoing.chat.channel)

    def _shown(self, one: Question | Parked, buttons: bool, group: bool) -> Put:
        if isinstance(one, Question):
            return put(one, self._ids, buttons=buttons, group=group)
        return put_parked(one, self._ids, buttons=buttons)

    def _waiting(self, one: Question | Parked) -> Put:
        what = "this was begun, and nobody knows how it ended" if isinstance(one, Parked) else (
            "this needs the consent of somebody else"
        )  # fmt: skip
        return Put(f"I wait: {what}. I have asked.", ())

    async def _root(self, id: str) -> Session:
        session = await self._runtime.store.session(id)
        while session.parent:
            session = await self._runtime.store.session(session.parent)
        return session

    async def _places(
        self, session: Session, one: Question | Parked
    ) -> list[tuple[Chat, bool, bool]]:
        """Chats, whether they are groups, and whether it can be answered there."""
        bond = await self._runtime.store.gateway.bond_of(session.id)
        if bond is None:
            return [(home, True, True) for home in self._homes("")] if (
                session.source in AT_HOME
            ) else []  # fmt: skip
        if bond.group or await self._may(session, bond, one):
            return [(bond.chat, bond.group, True)]
        homes = [home for home in self._homes(bond.chat.channel) if home != bond.chat]
        return [(bond.chat, False, False), *((home, True, True) for home in homes)]

    async def _may(self, session: Session, bond: Bond, one: Question | Parked) -> bool:
        """Whether the person of a private chat may answer it there."""
        person = person_of(session.key)
        known = await self._runtime.store.gateway.identities(bond.chat.channel)
        identity = next((one for one in known if who(one) == person), None)
        owners = self._runtime.settings.channels.get(bond.chat.channel, {}).get("owners", ())
        if identity is None and person in {self._ids(bond.chat.channel, str(id)) for id in owners}:
            identity = Identity(bond.chat.channel, person or "", role="owner")
        if identity is None:
            identity = Identity(bond.chat.channel, person or "")
        if isinstance(one, Parked):
            return identity.role == "owner"
        return may_answer(identity, one, replace(bond, session=one.session))

    def _homes(self, channel: str) -> list[Chat]:
        """The home chat of a channel, else of every channel."""
        for target in (channel, ALL):
            try:
                if target and (found := self._runtime.post.chats([target])):
                    return found
            except HermesError:
                continue  # it has none
        return []

    # what was decided

    async def closed(self, event: ev.Answered | ev.Agreed | ev.ParkDecided) -> list[NewDelivery]:
        """What the chats that were asked are to see now."""
        if isinstance(event, ev.ParkDecided):
            prefix = f"parked/{parked_hash(self._ids, event.effect)}/"
            said = f"{DECISIONS[event.decision]}: {await self._name(event.by)}"
        else:
            prefix = f"question/{question_hash(self._ids, event.id)}/"
            said = await self._said(event)
        told = await self._runtime.store.gateway.deliveries(key=prefix, limit=1_000)
        asked = [one for one in told if not one.outgoing.edit and one.outgoing.kind == "question"]
        return [self._closing(one, said, event) for one in _last(asked)]

    async def _said(self, event: ev.Answered | ev.Agreed) -> str:
        if isinstance(event, ev.Agreed):
            return f"Agreed so far: {await self._name(event.by)}"
        if event.answer is None:
            return "Nobody answered in time."
        names = [await self._name(one) for one in event.by.split(", ")]
        return f"{event.answer[:200]}: {', '.join(names)}"

    async def _name(self, by: str) -> str:
        """As people know them."""
        for one in await self._runtime.store.gateway.identities():
            if who(one) == by and one.name:
                return f"{one.name.removeprefix(CLAIMED)} ({one.channel})"
        return by

    def _closing(
        self, asked: Delivery, said: str, event: ev.Answered | ev.Agreed | ev.ParkDecided
    ) -> NewDelivery:
        before = asked.outgoing
        manifest = self._live.manifest(before.chat.channel)
        goes_on = isinstance(event, ev.Agreed)
        key = f"{asked.key}/{said if goes_on else 'closed'}"
        if asked.receipt and manifest is not None and manifest.edits:
            text = f"{before.text}\n\n{said}"
            buttons = before.buttons if goes_on else ()
            return NewDelivery(
                key, replace(before, text=text, buttons=buttons, edit=asked.receipt, reply_to="")
            )
        return NewDelivery(key, Outgoing(before.chat, said, kind="question", edit=""))


def _last(asked: list[Delivery]) -> list[Delivery]:
    """Of a question that took several messages in a chat, the last."""
    found: dict[Chat, Delivery] = {}
    for one in asked:
        before = found.get(one.outgoing.chat)
        if before is None or before.id < one.id:
            found[one.outgoing.chat] = one
    return list(found.values())
