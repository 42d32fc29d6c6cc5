"""The post as a session's tool reaches it: `here` is the chat that the session belongs to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_agent.core.errors import ToolError
from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from hermes_agent.core.records import Session

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime

HERE = "here"


class SessionMessenger:
    def __init__(self, runtime: "Runtime", session: Session) -> None:
        self._runtime = runtime
        self._session = session

    async def send(self, key: str, target: str, text: str, files: Sequence[Media]) -> Sequence[str]:
        """Hand it in, once for each key; where it goes."""
        post = self._runtime.post
        chats = [await self._here()] if target == HERE else post.chats([target])
        if not chats:
            raise ToolError(f"{target!r} leads nowhere", "name a channel or a chat", "changed")
        await post.send(f"effect/{key}", chats, text, files=files)
        return [chat.channel if target != HERE else HERE for chat in chats]

    async def _here(self) -> Chat:
        session = self._session
        while session.parent:
            session = await self._runtime.store.session(session.parent)
        bond = await self._runtime.store.gateway.binding_of(session.id)
        if bond is None:
            raise ToolError(
                "this session belongs to no chat",
                "say it in your answer, or name a target",
                "changed",
            )
        return bond.chat
