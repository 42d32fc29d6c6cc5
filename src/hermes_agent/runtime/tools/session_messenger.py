"""Sends messages for a session's tool: `here` is the chat that the session belongs to."""

from collections.abc import Sequence

from hermes_agent.core.errors import ToolError
from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from hermes_agent.core.records import Session
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import OutboundMessages

HERE = "here"


class SessionMessenger:
    def __init__(
        self, context: RuntimeContext, outbound: OutboundMessages, session: Session
    ) -> None:
        self._context = context
        self._outbound = outbound
        self._session = session

    async def send(self, key: str, target: str, text: str, files: Sequence[Media]) -> Sequence[str]:
        """Queue the message once per key; returns its targets."""
        chats = [await self._here()] if target == HERE else self._outbound.chats([target])
        if not chats:
            raise ToolError(f"unknown target: {target!r}", "name a channel or a chat", "changed")
        await self._outbound.send(f"effect/{key}", chats, text, files=files)
        return [chat.channel if target != HERE else HERE for chat in chats]

    async def _here(self) -> Chat:
        session = self._session
        while session.parent:
            session = await self._context.store.session(session.parent)
        binding = await self._context.store.gateway.binding_of(session.id)
        if binding is None:
            raise ToolError(
                "this session has no chat",
                "say it in your answer, or name a target",
                "changed",
            )
        return binding.chat
