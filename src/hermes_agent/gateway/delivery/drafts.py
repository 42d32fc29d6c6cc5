"""Answers while they are written: a draft in the chat that is edited as the text grows. It is no
part of the ledger; the finished text is, and takes the draft's place."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import ChatBinding, OutboundMessage
from hermes_agent.gateway.channel import Channel, Manifest, SendError
from hermes_agent.gateway.delivery.messages import MAX_LENGTH
from hermes_agent.gateway.delivery.splitting import split, utf16
from hermes_agent.gateway.supervision.directory import ChannelDirectory
from hermes_agent.host.context import RuntimeContext

if TYPE_CHECKING:
    from hermes_agent.policy.redaction.stream import RedactingStream

log = logging.getLogger("hermes.gateway")

PACE = 1.5
"""Seconds between two edits; a group bears half as many."""
PATIENCE = 15.0
"""How long the finished text waits for a draft that is on its way."""
MORE = " …"


@dataclass
class Draft:
    binding: ChatBinding
    key: str
    stream: "RedactingStream"
    text: str = ""
    shown: str = ""
    id: str = ""
    """The platform's id of the message, once it is known."""
    broken: bool = False
    sent: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class Drafts:
    """Those of all chats, by session."""

    def __init__(
        self,
        context: RuntimeContext,
        live: ChannelDirectory,
        pace: float = PACE,
        patience: float = PATIENCE,
    ) -> None:
        self._context = context
        self._patience = patience
        self._live = live
        self._pace = pace
        self._drafts: dict[str, Draft] = {}
        self._ended: dict[str, dict[int, Draft]] = {}
        """Those whose text is finished, by session and by the number of the reply."""

    def feed(self, binding: ChatBinding, piece: str) -> None:
        draft = self._drafts.get(binding.session)
        if draft is None:
            manifest = self._live.manifest(binding.chat.channel)
            if not self._context.settings.gateway.stream or manifest is None or not manifest.edits:
                return
            key = f"{binding.session}/draft/{self._context.clock():.3f}"
            draft = Draft(binding, key, self._context.redact.stream())
            self._drafts[binding.session] = draft
            draft.task = asyncio.create_task(self._show(draft))
        draft.text += draft.stream.feed(piece)

    def void(self, session: str) -> None:
        """What was written so far does not count, or was only on the way to an answer: what
        follows takes its place."""
        if (draft := self._drafts.get(session)) is not None:
            draft.text = ""
            draft.stream = self._context.redact.stream()

    def end(self, session: str, number: int) -> None:
        """The reply of this number is whole: what follows is another."""
        if (draft := self._drafts.pop(session, None)) is not None:
            draft.over.set()
            self._ended.setdefault(session, {})[number] = draft

    async def finish(self, session: str, number: int) -> str:
        """The id of the message that the reply of this number takes the place of, if there is
        one."""
        draft = self._ended.get(session, {}).pop(number, None)
        return "" if draft is None else await self._finished(draft)

    async def leave(self, session: str) -> str:
        """The turn ends, or asks: nothing takes the place of what was written so far, so it is
        shown to its end."""
        self._ended.pop(session, None)
        draft = self._drafts.pop(session, None)
        if draft is None:
            return ""
        text = draft.text + draft.stream.end()
        id = await self._finished(draft)
        channel = self._live.channel(draft.binding.chat.channel)
        if id and text.strip() and channel is not None:
            await self._send(draft, channel, self._fit(draft, text, ""))
        return id

    async def _finished(self, draft: Draft) -> str:
        draft.over.set()
        if draft.task is not None:  # a message that is on its way is waited for
            done, _ = await asyncio.wait({draft.task}, timeout=self._patience)
            if not done:
                draft.task.cancel()
        return draft.id

    async def close(self) -> None:
        ended = [draft for drafts in self._ended.values() for draft in drafts.values()]
        for draft in (*self._drafts.values(), *ended):
            if draft.task is not None:
                draft.task.cancel()
        self._drafts.clear()
        self._ended.clear()

    async def _show(self, draft: Draft) -> None:
        pace = self._pace * (2 if draft.binding.group else 1)
        while not draft.broken and not await _is_over(draft, pace):
            text = draft.text
            if not text.strip() or text == draft.shown:
                continue
            channel = self._live.channel(draft.binding.chat.channel)
            if channel is None or (not draft.id and await self._others_wait(draft)):
                continue
            await self._send(draft, channel, self._fit(draft, text, MORE))
            draft.shown = text

    def _fit(self, draft: Draft, text: str, end: str) -> str:
        """As much of it as one message holds."""
        manifest: Manifest | None = self._live.manifest(draft.binding.chat.channel)
        longest = manifest.longest if manifest else MAX_LENGTH
        first = split(text.rstrip(), longest - len(end) - 20, utf16)[0]
        return (first.rpartition("\n\n(1/")[0] or first) + end

    async def _send(self, draft: Draft, channel: Channel, text: str) -> None:
        outgoing = OutboundMessage(draft.binding.chat, text, edit=draft.id, kind="reply")
        try:
            draft.sent += 1
            async with asyncio.timeout(self._patience):
                id = await channel.send(outgoing, f"{draft.key}/{draft.sent}")
            draft.id = draft.id or id
        except TimeoutError:
            log.info("a draft on %s takes too long", draft.binding.chat.channel)
            draft.broken = True
        except SendError as error:
            if error.after is not None and error.after <= self._patience:
                await _is_over(draft, error.after)
            else:
                draft.broken = True
        except HermesError as error:
            log.warning("a draft on %s: %s", draft.binding.chat.channel, error.message)
            draft.broken = True

    async def _others_wait(self, draft: Draft) -> bool:
        """Whether something waits to be sent there before it."""
        chat = draft.binding.chat
        waiting = await self._context.store.gateway.deliveries(
            channel=chat.channel, state="waiting", limit=200
        )
        return any(one.outgoing.chat == chat for one in waiting)


async def _is_over(draft: Draft, seconds: float) -> bool:
    """Wait so long, or until there is no more to come."""
    try:
        async with asyncio.timeout(seconds):
            await draft.over.wait()
    except TimeoutError:
        return False
    return True
