"""Honcho, hosted or self-hosted. It draws conclusions from conversations in the background; recall
searches those, which needs no model, unlike its chat."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.providers.http import QUERY_CHARS, HttpProvider, Said, on_one_line

PUBLIC = "https://api.honcho.dev"
KEY = "HONCHO_API_KEY"
USER, HERMES = "user", "hermes"
PEERS = {USER: {"observe_me": True}, HERMES: {"observe_me": False}}
"""Honcho reasons about the user only: reasoning about the agent would cost as much, for nothing."""
MESSAGE_CHARS = 25_000
BATCH = 100
MAX_FOUND = 100

_NAME = re.compile(r"[A-Za-z0-9_-]{1,512}")


class _Named(Struct):
    id: str


class _Conclusion(Struct):
    content: str


def open_honcho(
    settings: MemorySettings, secret: Callable[[str], str], clock: Callable[[], float]
) -> "Honcho":
    if not _NAME.fullmatch(settings.workspace):
        raise UsageError(
            f"not a valid honcho workspace: {settings.workspace!r}",
            "use only letters, digits, dashes and underscores in memory.workspace",
        )
    key = _key(settings, secret)
    address = settings.address or PUBLIC
    headers = {"authorization": f"Bearer {key}"} if key else {}
    service = HttpProvider("honcho", address, headers, key, settings.timeout_seconds, clock)
    return Honcho(service, settings.workspace)


def _key(settings: MemorySettings, secret: Callable[[str], str]) -> str:
    try:
        return secret(KEY)
    except NotFound as error:
        if settings.address:  # a self-hosted server may need none
            return ""
        raise HermesError(f"honcho needs a key: {error.message}", error.hint) from None


class Honcho:
    name = "honcho"

    def __init__(self, service: HttpProvider, workspace: str) -> None:
        self._service = service
        self._workspace = workspace
        self._root = f"/v3/workspaces/{workspace}"
        self._has_workspace = False
        self._sessions: set[str] = set()
        """Sessions known to exist there."""

    async def recall(self, query: str, limit: int) -> Sequence[str]:
        query = query.strip()[:QUERY_CHARS]
        if not query:
            return ()
        body = {
            "query": query,
            "top_k": min(limit, MAX_FOUND),
            "filters": {"observer_id": USER, "observed_id": USER},
        }
        async with self._asking():
            await self._have_workspace()
            path = f"{self._root}/conclusions/query"
            found = await self._service.post(path, body, list[_Conclusion])
        return on_one_line((each.content for each in found), limit)

    async def remember(self, session: str, messages: Sequence[Said]) -> None:
        said = [
            {"peer_id": USER if who == "user" else HERMES, "content": piece}
            for who, text in messages
            if text.strip()
            for piece in _pieces(text)
        ]
        if not said:
            return
        if not _NAME.fullmatch(session):
            raise UsageError(f"not a valid honcho session: {session!r}")
        async with self._asking():
            await self._have_workspace()
            await self._have_session(session)
            path = f"{self._root}/sessions/{session}/messages"
            for at in range(0, len(said), BATCH):
                some = {"messages": said[at : at + BATCH]}
                await self._service.post(path, some, list[_Named])

    async def check(self) -> str:
        self._has_workspace = False
        async with self._asking(anyway=True):
            await self._have_workspace()
        return f"{self._service.url} answers; workspace {self._workspace!r}"

    async def close(self) -> None:
        await self._service.close()

    @asynccontextmanager
    async def _asking(self, *, anyway: bool = False) -> AsyncIterator[None]:
        try:
            async with self._service.asking(anyway=anyway):
                yield
        except HermesError:
            # A server that was reinstalled has neither any more.
            self._has_workspace = False
            self._sessions.clear()
            raise

    async def _have_workspace(self) -> None:
        """Get or create: Honcho has one request for both."""
        if not self._has_workspace:
            await self._service.post("/v3/workspaces", {"id": self._workspace}, _Named)
            self._has_workspace = True

    async def _have_session(self, session: str) -> None:
        if session not in self._sessions:
            body: dict[str, Any] = {"id": session, "peers": PEERS}
            await self._service.post(f"{self._root}/sessions", body, _Named)
            self._sessions.add(session)


def _pieces(text: str) -> Sequence[str]:
    return [text[at : at + MESSAGE_CHARS] for at in range(0, len(text), MESSAGE_CHARS)]
