"""Mem0, or any service with version 3 of its API. It extracts memories from conversations in the
background and finds them by meaning."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.providers.http import QUERY_CHARS, HttpProvider, Said, on_one_line

PUBLIC = "https://api.mem0.ai"
KEY = "MEM0_API_KEY"
NAME_CHARS = 255


class _Memory(Struct):
    memory: str = ""


class _Found(Struct):
    results: list[_Memory]


class _Listed(Struct):
    count: int


class _Added(Struct):
    """Its content is not needed: memories are made later."""


def open_mem0(
    settings: MemorySettings, secret: Callable[[str], str], clock: Callable[[], float]
) -> "Mem0":
    try:
        key = secret(KEY)
    except NotFound as error:
        raise HermesError(f"mem0 needs a key: {error.message}", error.hint) from None
    user = settings.workspace
    # An asterisk means everybody, at Mem0.
    if not user.strip() or "*" in user or len(user) > NAME_CHARS:
        raise UsageError(
            f"not a valid mem0 user: {user!r}",
            f"memory.workspace must have 1 to {NAME_CHARS} characters and no asterisk",
        )
    address = settings.address or PUBLIC
    headers = {"authorization": f"Token {key}", "accept": "application/json"}
    service = HttpProvider("mem0", address, headers, key, settings.timeout_seconds, clock)
    return Mem0(service, user)


class Mem0:
    name = "mem0"

    def __init__(self, service: HttpProvider, user: str) -> None:
        self._service = service
        self._user = user

    async def recall(self, query: str, limit: int) -> Sequence[str]:
        query = query.strip()[:QUERY_CHARS]
        if not query:
            return ()
        body = {"query": query, "filters": {"user_id": self._user}, "top_k": limit}
        async with self._service.asking():
            found = await self._service.post("/v3/memories/search/", body, _Found)
        return on_one_line((each.memory for each in found.results), limit)

    async def remember(self, session: str, messages: Sequence[Said]) -> None:
        said = [{"role": who, "content": text} for who, text in messages if text.strip()]
        if not said:
            return
        # A label and no `run_id`: memories are for every session.
        body = {"messages": said, "user_id": self._user, "metadata": {"session": session}}
        async with self._service.asking():
            await self._service.post("/v3/memories/add/", body, _Added)

    async def check(self) -> str:
        path = "/v3/memories/?page=1&page_size=1"
        async with self._service.asking(anyway=True):
            listed = await self._service.post(path, {"filters": {"user_id": self._user}}, _Listed)
        return f"{self._service.url} answers; {listed.count} memories of {self._user!r}"

    async def close(self) -> None:
        await self._service.close()
