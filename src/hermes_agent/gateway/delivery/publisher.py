"""What sessions of chats say: taken from their journals into the ledger, each thing once. Beside
that, what is not kept: drafts, and signs that somebody is writing."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, HermesError, NotFound
from hermes_agent.core.gateway import Chat, ChatBinding, NewDelivery
from hermes_agent.core.pseudonyms import PseudonymHasher
from hermes_agent.gateway.approvals.routing import ApprovalRouter
from hermes_agent.gateway.channel import Channel
from hermes_agent.gateway.delivery.drafts import PACE, PATIENCE, Drafts
from hermes_agent.gateway.delivery.messages import rows
from hermes_agent.gateway.supervision.directory import ChannelDirectory
from hermes_agent.runtime.services import Domains

if TYPE_CHECKING:
    from collections.abc import Mapping


log = logging.getLogger("hermes.gateway")

SWEEP_SECONDS = 30.0
"""How often it is looked for what went unnoticed."""
RETRY_SECONDS = 2.0
TYPING_SECONDS = 4.0
SIGN_SECONDS = 5.0
REMEMBER_SECONDS = 2.0
MAX_REMEMBERED = 5_000

STOPPED = "(stopped)"
SILENT = "It is done; there was nothing to say."

_SAID = (ev.Replied, ev.TurnFinished)
_DECIDED = (ev.QuestionAnswered, ev.ApprovalGiven, ev.ParkDecided)
_NEWS = (*_SAID, *_DECIDED, ev.QuestionAsked, ev.CallParked)


class ReplyPublisher:
    def __init__(
        self,
        domains: Domains,
        live: ChannelDirectory,
        ids: PseudonymHasher,
        recent: "Mapping[str, str] | None" = None,
        pace: float = PACE,
        patience: float = PATIENCE,
    ) -> None:
        """`recent` are the platform's ids of messages by their keys; `pace` and `patience` are
        those of drafts."""
        self._context = domains.context
        self._sessions = domains.sessions
        self._live = live
        self._recent = recent if recent is not None else {}
        self._drafts = Drafts(domains.context, live, pace, patience)
        self._asking = ApprovalRouter(domains, live, ids)
        self._news: asyncio.Queue[ev.Recorded | None] = asyncio.Queue()
        self._queues: dict[str, deque[ev.Recorded | None]] = {}
        """What is to be told of each session: one that waits for its platform holds up no other."""
        self._tellers: set[asyncio.Task[None]] = set()
        self._putting = asyncio.Lock()
        self._bindings: dict[str, tuple[float, ChatBinding | None]] = {}
        self._signs: set[asyncio.Task[None]] = set()
        self._taken: dict[str, str] = {}
        """The last message that a session has taken, by its key."""

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._work())
                group.create_task(self._type())
                group.create_task(self._sweep())
        finally:
            for task in (*self._signs, *self._tellers):
                task.cancel()
            await asyncio.gather(*self._tellers, return_exceptions=True)
            self._queues.clear()
            await self._drafts.close()

    async def _listen(self) -> None:
        while True:
            with self._context.bus.listen() as listener:
                self._news.put_nowait(None)
                while (recorded := await listener.next()) is not None:
                    await self._heard(recorded)
            await asyncio.sleep(RETRY_SECONDS)  # it was behind, or the runtime ends

    async def _heard(self, recorded: ev.Recorded) -> None:
        match recorded.event:
            case ev.TextArrived(text=text):
                if (binding := await self._binding(recorded.session)) is not None:
                    self._drafts.feed(binding, text)
            case ev.TextVoided():
                self._drafts.void(recorded.session)
            case ev.Replied(calls=calls) if calls:
                self._drafts.void(recorded.session)
            case ev.TurnStarted():
                if (binding := await self._binding(recorded.session)) is not None:
                    self._show_typing([binding])
            case ev.Replied():
                self._drafts.end(recorded.session, recorded.number)
                self._news.put_nowait(recorded)
            case event if isinstance(event, _NEWS):
                self._news.put_nowait(recorded)

    async def _binding(self, session: str) -> ChatBinding | None:
        """The chat of a session; not asked for again at every piece of a text."""
        now = asyncio.get_running_loop().time()
        known = self._bindings.get(session)
        if known is None or known[0] < now:
            if len(self._bindings) > MAX_REMEMBERED:
                self._bindings.clear()
            binding = await self._context.store.gateway.binding_of(session)
            known = self._bindings[session] = (now + REMEMBER_SECONDS, binding)
        return known[1]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._news.put_nowait(None)

    async def _work(self) -> None:
        while True:
            recorded = await self._news.get()
            if recorded is not None:
                self._hand(recorded.session, recorded)
                continue
            async with self._surviving():
                for behind in await self._context.store.gateway.bindings(behind=True):
                    if behind.session not in self._queues:
                        self._hand(behind.session, None)
                await self._put_all()

    def _hand(self, session: str, recorded: ev.Recorded | None) -> None:
        queue = self._queues.get(session)
        if queue is not None:
            queue.append(recorded)
            return
        self._queues[session] = queue = deque([recorded])
        teller = asyncio.create_task(self._tell_session(session, queue))
        self._tellers.add(teller)
        teller.add_done_callback(self._tellers.discard)

    async def _tell_session(self, session: str, queue: deque[ev.Recorded | None]) -> None:
        """In the order in which it happened."""
        try:
            while queue:
                async with self._surviving():
                    await self._tell_news(session, queue.popleft())
        finally:
            del self._queues[session]

    @asynccontextmanager
    async def _surviving(self) -> AsyncIterator[None]:
        """Whatever one session has, the others are told."""
        try:
            yield
        except Degraded as trouble:
            log.warning("what chats are to hear waits: %s", trouble.message)
            await asyncio.sleep(RETRY_SECONDS)
            self._news.put_nowait(None)
        except Exception:
            log.exception("some of what chats are to hear is not told")

    async def _tell_news(self, session: str, recorded: ev.Recorded | None) -> None:
        event = None if recorded is None else recorded.event
        if event is None or isinstance(event, _SAID):
            if (binding := await self._context.store.gateway.binding_of(session)) is not None:
                await self._tell_on_its_own(binding)
            return
        if isinstance(event, ev.QuestionAsked | ev.CallParked):
            await self._drafts.leave(session)
        elif isinstance(event, _DECIDED):
            await self._enqueue(await self._asking.closed(event))
        await self._put_all()

    async def _put_all(self) -> None:
        async with self._putting:
            await self._asking.ask_all()

    async def _tell_on_its_own(self, binding: ChatBinding) -> None:
        """What is wrong with one session does not keep the others from being told."""
        try:
            await self._tell(binding)
        except Degraded:
            raise
        except NotFound as gone:  # it was deleted meanwhile
            log.info("not told: %s", gone.message)
        except HermesError as trouble:
            log.error("what session %s says is not told: %s", binding.session, trouble.message)

    async def _tell(self, binding: ChatBinding) -> None:
        """Bring the ledger up to what the journal says."""
        recorded = await self._context.store.events(binding.session, binding.told)
        if not recorded:
            return
        made: list[NewDelivery] = []
        for one in recorded:
            made += await self._said(binding, one)
        await self._context.store.gateway.tell(binding, recorded[-1].number, *made)
        if made:
            self._live.wake(binding.chat.channel)

    async def _said(self, binding: ChatBinding, recorded: ev.Recorded) -> Sequence[NewDelivery]:
        """What one event of the journal is to the people of its chat."""
        match recorded.event:
            case ev.MessageTaken(key=key):
                if len(self._taken) > MAX_REMEMBERED:
                    self._taken.clear()
                self._taken[binding.session] = key
                return ()
            case ev.Replied(calls=(), text=text, stop=stop) if text.strip():
                text = f"{text}\n\n{STOPPED}" if stop == "interrupted" else text
                draft = await self._drafts.finish(binding.session, recorded.number)
                return self._rows(binding, recorded.number, text, draft)
            case ev.TurnFinished() as end:
                await self._drafts.leave(binding.session)
                said = _end_said(end, binding.group)
                return self._rows(binding, recorded.number, said) if said else ()
            case ev.QuestionAnswered() | ev.ApprovalGiven() | ev.ParkDecided() as decided:
                return await self._asking.closed(decided)
            case _:
                return ()

    def _rows(
        self, binding: ChatBinding, number: int, text: str, draft: str = ""
    ) -> Sequence[NewDelivery]:
        reply_to = (
            self._recent.get(self._taken.get(binding.session, ""), "") if binding.group else ""
        )
        return rows(
            f"{binding.session}/{number}", binding.chat, text,
            self._live.manifest(binding.chat.channel),
            edit=draft, reply_to="" if draft else reply_to,
        )  # fmt: skip

    async def _enqueue(self, made: Sequence[NewDelivery]) -> None:
        await self._context.store.gateway.enqueue(*made)
        for row in made:
            self._live.wake(row.outgoing.chat.channel)

    # signs of life

    async def _type(self) -> None:
        while True:
            await asyncio.sleep(TYPING_SECONDS)
            working = self._sessions.working - self._asking.waiting
            bindings = [await self._binding(session) for session in working]
            self._show_typing([binding for binding in bindings if binding is not None])

    def _show_typing(self, bindings: Sequence[ChatBinding]) -> None:
        """Nobody waits for it: a platform that hangs must not hold up the others."""
        for binding in bindings:
            manifest = self._live.manifest(binding.chat.channel)
            channel = self._live.channel(binding.chat.channel)
            if manifest is not None and manifest.typing and channel is not None:
                sign = asyncio.create_task(_signed(channel, binding.chat))
                self._signs.add(sign)
                sign.add_done_callback(self._signs.discard)


async def _signed(channel: Channel, chat: Chat) -> None:
    try:
        async with asyncio.timeout(SIGN_SECONDS):
            await channel.typing(chat)
    except TimeoutError:
        log.info("typing is not shown on %s: it takes too long", chat.channel)
    except Exception:
        log.exception("typing is not shown on %s", chat.channel)


def _end_said(end: ev.TurnFinished, group: bool) -> str:
    """The end of a turn that did not end with an answer."""
    hint = f"\n\nhint: {end.hint}" if end.hint and not group else ""
    match end.reason:
        case "done" if not end.text.strip():
            return SILENT
        case "failed":
            return f"That did not work: {end.error}{hint}"
        case "budget":
            return f"I stop here: {end.error}{hint}"
        case _:
            return ""
