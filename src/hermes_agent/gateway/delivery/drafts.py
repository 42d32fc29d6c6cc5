"""Streams answers into chats: a draft message is edited as the text grows. Drafts are not stored;
the finished text is, and replaces the draft."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import ChatBinding, OutboundMessage
from hermes_agent.gateway.channel import Channel, ChannelDirectory, Manifest, SendError
from hermes_agent.gateway.delivery.splitting import split_for
from hermes_agent.host.context import RuntimeContext

if TYPE_CHECKING:
    from hermes_agent.policy.redaction.stream import RedactingStream

log = logging.getLogger("hermes.gateway")

PACE = 1.5
"""Seconds between two edits; twice as long in a group."""
PATIENCE = 15.0
"""How long the finished text waits for a draft that is being sent."""
MORE = " …"


@dataclass
class Draft:
    binding: ChatBinding
    manifest: Manifest
    key: str
    stream: "RedactingStream"
    text: str = ""
    shown: str = ""
    id: str = ""
    """The platform's id of the message, once it is known."""
    broken: bool = False
    sent: int = 0
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class Drafts:
    """The drafts of all chats, by session."""

    def __init__(
        self,
        context: RuntimeContext,
        channels: ChannelDirectory,
        pace: float = PACE,
        patience: float = PATIENCE,
    ) -> None:
        self._context = context
        self._channels = channels
        self._pace = pace
        self._patience = patience
        self._drafts: dict[str, Draft] = {}
        self._ended: dict[str, dict[int, Draft]] = {}
        """Drafts whose text is complete, by session and number of the reply."""

    def feed(self, binding: ChatBinding, piece: str) -> None:
        draft = self._drafts.get(binding.session)
        if draft is None:
            manifest = self._channels.manifest(binding.chat.channel)
            if not self._context.settings.gateway.stream or manifest is None or not manifest.edits:
                return
            key = f"{binding.session}/draft/{self._context.clock():.3f}"
            draft = Draft(binding, manifest, key, self._context.redact.stream())
            self._drafts[binding.session] = draft
            draft.task = asyncio.create_task(self._show(draft))
        draft.text += draft.stream.feed(piece)

    def void(self, session: str) -> None:
        """Discards the text so far: it was taken back, or was not yet the answer."""
        if (draft := self._drafts.get(session)) is not None:
            draft.text = ""
            draft.stream = self._context.redact.stream()

    def end(self, session: str, number: int) -> None:
        """The reply with this number is complete; what follows is another."""
        if (draft := self._drafts.pop(session, None)) is not None:
            draft.finished.set()
            self._ended.setdefault(session, {})[number] = draft

    async def finish(self, session: str, number: int) -> str:
        """The id of the draft message that the reply with this number replaces, if any."""
        draft = self._ended.get(session, {}).pop(number, None)
        return "" if draft is None else await self._finished(draft)

    async def leave(self, session: str) -> None:
        """The turn ends or asks something: no reply will replace the draft, so all of it is
        shown."""
        self._ended.pop(session, None)
        draft = self._drafts.pop(session, None)
        if draft is None:
            return
        text = draft.text + draft.stream.end()
        id = await self._finished(draft)
        channel = self._channels.channel(draft.binding.chat.channel)
        if id and text.strip() and channel is not None:
            await self._send(draft, channel, _fit(draft, text, ""))

    async def _finished(self, draft: Draft) -> str:
        draft.finished.set()
        if draft.task is not None:
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
        while not draft.broken and not await _is_finished(draft, pace):
            text = draft.text
            if not text.strip() or text == draft.shown:
                continue
            channel = self._channels.channel(draft.binding.chat.channel)
            if channel is None or (not draft.id and await self._others_wait(draft)):
                continue
            await self._send(draft, channel, _fit(draft, text, MORE))
            draft.shown = text

    async def _send(self, draft: Draft, channel: Channel, text: str) -> None:
        outgoing = OutboundMessage(draft.binding.chat, text, edit=draft.id, kind="reply")
        try:
            draft.sent += 1
            async with asyncio.timeout(self._patience):
                id = await channel.send(outgoing, f"{draft.key}/{draft.sent}")
            draft.id = draft.id or id
        except TimeoutError:
            log.info("sending a draft on %s timed out", draft.binding.chat.channel)
            draft.broken = True
        except SendError as error:
            if error.after is not None and error.after <= self._patience:
                await _is_finished(draft, error.after)
            else:
                draft.broken = True
        except HermesError as error:
            log.warning("a draft on %s failed: %s", draft.binding.chat.channel, error.message)
            draft.broken = True

    async def _others_wait(self, draft: Draft) -> bool:
        """Whether other messages to this chat are still queued."""
        chat = draft.binding.chat
        waiting = await self._context.store.gateway.deliveries(
            channel=chat.channel, state="waiting", limit=200
        )
        return any(one.outgoing.chat == chat for one in waiting)


def _fit(draft: Draft, text: str, end: str) -> str:
    """As much of the text as one message holds."""
    room = replace(draft.manifest, longest=draft.manifest.longest - len(end.encode()) - 20)
    first = split_for(room, text)[0]
    return (first.rpartition("\n\n(1/")[0] or first) + end


async def _is_finished(draft: Draft, seconds: float) -> bool:
    """Waits so long, or until the text is complete."""
    try:
        async with asyncio.timeout(seconds):
            await draft.finished.wait()
    except TimeoutError:
        return False
    return True
