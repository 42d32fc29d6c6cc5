"""Queues what sessions say to their chats, from the journals into the outbox, each thing once. Also
shows drafts and typing indicators, which are not stored."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from hermes_agent.core import events as ev
from hermes_agent.core.command_results import ended_text
from hermes_agent.core.errors import Degraded, HermesError, NotFound
from hermes_agent.core.gateway import (
    Chat,
    ChatBinding,
    NewDelivery,
    OutboundMessage,
    PseudonymHasher,
)
from hermes_agent.gateway.approvals.routing import ApprovalRouter
from hermes_agent.gateway.channel import Channel, ChannelDirectory
from hermes_agent.gateway.delivery.drafts import PACE, PATIENCE, Drafts
from hermes_agent.gateway.inbound.attachments import HEARD
from hermes_agent.runtime.services import Domains

log = logging.getLogger("hermes.gateway")

SWEEP_SECONDS = 30.0
"""How often to look for news that were missed."""
RETRY_SECONDS = 2.0
TYPING_SECONDS = 4.0
TYPING_TIMEOUT = 5.0
BINDING_SECONDS = 2.0
MAX_CACHED = 5_000
RECENT = 500
"""Events before an answer among which its question is."""

STOPPED = "(stopped)"
SILENT = "Done; nothing to report."

_SAID = (ev.Replied, ev.TurnFinished, ev.CommandEnded, ev.Rewound)
"""What brings a chat up to date, though not each sends something."""
_DECIDED = (ev.QuestionAnswered, ev.ApprovalGiven, ev.ParkDecided)
_NEWS = (*_SAID, *_DECIDED, ev.QuestionAsked, ev.CallParked)


class ReplyPublisher:
    def __init__(
        self,
        domains: Domains,
        channels: ChannelDirectory,
        ids: PseudonymHasher,
        recent: Mapping[str, str],
        pace: float = PACE,
        patience: float = PATIENCE,
    ) -> None:
        """`recent` maps keys of messages to the platform's ids; `pace` and `patience` are for
        drafts."""
        self._context = domains.context
        self._models = domains.models
        self._sessions = domains.sessions
        self._channels = channels
        self._recent = recent
        self._drafts = Drafts(domains.context, channels, pace, patience)
        self._approvals = ApprovalRouter(domains, channels, ids)
        self._news: asyncio.Queue[ev.Recorded | None] = asyncio.Queue()
        self._queues: dict[str, deque[ev.Recorded | None]] = {}
        """The news of each session: one that waits for its platform does not block the others."""
        self._workers: set[asyncio.Task[None]] = set()
        self._asking = asyncio.Lock()
        self._bindings: dict[str, tuple[float, ChatBinding | None]] = {}
        self._typing: set[asyncio.Task[None]] = set()
        self._taken: dict[str, str] = {}
        """The key of the last message that each session took."""

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._dispatch())
                group.create_task(self._show_typing_of_working())
                group.create_task(self._sweep())
        finally:
            for task in (*self._typing, *self._workers):
                task.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            self._queues.clear()
            await self._drafts.close()

    async def _listen(self) -> None:
        while True:
            with self._context.bus.listen() as listener:
                self._news.put_nowait(None)
                while (recorded := await listener.next()) is not None:
                    await self._handle(recorded)
            await asyncio.sleep(RETRY_SECONDS)  # the listener fell behind, or the runtime stops

    async def _handle(self, recorded: ev.Recorded) -> None:
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
        """The chat of a session, cached: it is needed for every chunk of a text."""
        now = asyncio.get_running_loop().time()
        known = self._bindings.get(session)
        if known is None or known[0] < now:
            if len(self._bindings) > MAX_CACHED:
                self._bindings.clear()
            binding = await self._context.store.gateway.binding_of(session)
            known = self._bindings[session] = (now + BINDING_SECONDS, binding)
        return known[1]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._news.put_nowait(None)

    async def _dispatch(self) -> None:
        while True:
            recorded = await self._news.get()
            if recorded is not None:
                self._enqueue_news(recorded.session, recorded)
                continue
            async with self._guarded():
                for behind in await self._context.store.gateway.bindings(behind=True):
                    if behind.session not in self._queues:
                        self._enqueue_news(behind.session, None)
                await self._ask_all()

    def _enqueue_news(self, session: str, recorded: ev.Recorded | None) -> None:
        queue = self._queues.get(session)
        if queue is not None:
            queue.append(recorded)
            return
        self._queues[session] = queue = deque([recorded])
        worker = asyncio.create_task(self._work(session, queue))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, session: str, queue: deque[ev.Recorded | None]) -> None:
        """Publishes the news of one session in order."""
        try:
            while queue:
                async with self._guarded():
                    await self._publish_news(session, queue.popleft())
        finally:
            del self._queues[session]

    @asynccontextmanager
    async def _guarded(self) -> AsyncIterator[None]:
        """Trouble with one session does not stop the others."""
        try:
            yield
        except Degraded as trouble:
            log.warning("publishing is delayed: %s", trouble.message)
            await asyncio.sleep(RETRY_SECONDS)
            self._news.put_nowait(None)
        except NotFound as gone:  # the session was deleted meanwhile
            log.info("not published: %s", gone.message)
        except HermesError as trouble:
            log.error("not published: %s", trouble.message)
        except Exception:
            log.exception("not published")

    async def _publish_news(self, session: str, recorded: ev.Recorded | None) -> None:
        event = None if recorded is None else recorded.event
        if event is None or isinstance(event, _SAID):
            if (binding := await self._context.store.gateway.binding_of(session)) is not None:
                await self._publish(binding)
            return
        if isinstance(event, ev.QuestionAsked | ev.CallParked):
            await self._drafts.leave(session)
        elif isinstance(event, _DECIDED):
            await self._enqueue(await self._approvals.closed(event))
        await self._ask_all()

    async def _ask_all(self) -> None:
        async with self._asking:
            await self._approvals.ask_all()

    async def _publish(self, binding: ChatBinding) -> None:
        """Brings the outbox up to date with the journal."""
        recorded = await self._context.store.events(binding.session, binding.told)
        if not recorded:
            return
        made: list[NewDelivery] = []
        for one in recorded:
            made += await self._deliveries_of(binding, one)
        await self._context.store.gateway.tell(binding, recorded[-1].number, *made)
        if made:
            self._channels.wake(binding.chat.channel)

    async def _deliveries_of(
        self, binding: ChatBinding, recorded: ev.Recorded
    ) -> Sequence[NewDelivery]:
        """What one event of the journal sends to its chat."""
        match recorded.event:
            case ev.MessageTaken(key=key):
                if len(self._taken) > MAX_CACHED:
                    self._taken.clear()
                self._taken[binding.session] = key
                return ()
            case ev.Replied(calls=(), text=text, stop=stop) if text.strip():
                text = f"{text}\n\n{STOPPED}" if stop == "interrupted" else text
                draft = await self._drafts.finish(binding.session, recorded.number)
                reply = self._reply(binding, recorded.number, text, draft)
                return [reply, *await self._spoken(binding, recorded.number, reply)]
            case ev.TurnFinished() as end:
                await self._drafts.leave(binding.session)
                said = _end_text(end, binding.group)
                return [self._reply(binding, recorded.number, said)] if said else ()
            case ev.CommandEnded() as ended if not ended.known:
                notice = OutboundMessage(binding.chat, ended_text(ended), kind="notice")
                return [NewDelivery(f"{binding.session}/{recorded.number}/0", notice)]
            case ev.QuestionAnswered() | ev.ApprovalGiven() | ev.ParkDecided() as decided:
                return await self._approvals.closed(decided)
            case _:
                return ()

    def _reply(self, binding: ChatBinding, number: int, text: str, draft: str = "") -> NewDelivery:
        answers = binding.group and not draft
        reply_to = self._recent.get(self._taken.get(binding.session, ""), "") if answers else ""
        outgoing = OutboundMessage(binding.chat, text, reply_to=reply_to, edit=draft, kind="reply")
        return NewDelivery(f"{binding.session}/{number}/0", outgoing)

    async def _spoken(
        self, binding: ChatBinding, number: int, reply: NewDelivery
    ) -> Sequence[NewDelivery]:
        """The answer by voice, if it was asked for by voice."""
        chosen = self._context.settings.gateway.speak
        manifest = self._channels.manifest(binding.chat.channel)
        if not chosen or manifest is None or not manifest.files:
            return ()
        recent = await self._context.store.events(binding.session, max(0, number - RECENT))
        taken = [
            one.event.text
            for one in recent
            if isinstance(one.event, ev.MessageTaken) and one.number < number
        ]
        if not taken or HEARD not in taken[-1]:
            return ()
        from hermes_agent.models.media.speaking import speak

        await self._enqueue([reply])  # the text does not wait for the voice
        try:
            memo = await speak(chosen, self._models, reply.outgoing.text)
        except HermesError as trouble:
            log.warning("an answer is not spoken: %s", trouble.message)
            return ()
        if memo is None:
            return ()
        outgoing = OutboundMessage(binding.chat, files=(memo,), kind="reply")
        return [NewDelivery(f"{binding.session}/{number}/1", outgoing)]

    async def _enqueue(self, made: Sequence[NewDelivery]) -> None:
        await self._context.store.gateway.enqueue(*made)
        for row in made:
            self._channels.wake(row.outgoing.chat.channel)

    # typing indicators

    async def _show_typing_of_working(self) -> None:
        while True:
            await asyncio.sleep(TYPING_SECONDS)
            working = self._sessions.working - self._approvals.waiting
            bindings = [await self._binding(session) for session in working]
            self._show_typing([binding for binding in bindings if binding is not None])

    def _show_typing(self, bindings: Sequence[ChatBinding]) -> None:
        """In the background: a platform that hangs must not block the others."""
        for binding in bindings:
            manifest = self._channels.manifest(binding.chat.channel)
            channel = self._channels.channel(binding.chat.channel)
            if manifest is not None and manifest.typing and channel is not None:
                task = asyncio.create_task(_show_typing(channel, binding.chat))
                self._typing.add(task)
                task.add_done_callback(self._typing.discard)


async def _show_typing(channel: Channel, chat: Chat) -> None:
    try:
        async with asyncio.timeout(TYPING_TIMEOUT):
            await channel.typing(chat)
    except TimeoutError:
        log.info("the typing indicator on %s timed out", chat.channel)
    except Exception:
        log.exception("the typing indicator on %s failed", chat.channel)


def _end_text(end: ev.TurnFinished, group: bool) -> str:
    """What to say at the end of a turn that did not end with an answer."""
    hint = f"\n\nhint: {end.hint}" if end.hint and not group else ""
    match end.reason:
        case "done" if not end.text.strip():
            return SILENT
        case "failed":
            return f"That did not work: {end.error}{hint}"
        case "budget":
            return f"I am stopping here: {end.error}{hint}"
        case _:
            return ""
