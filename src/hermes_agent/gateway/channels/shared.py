"""What channels have in common. A channel need not use it."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Media

log = logging.getLogger("hermes.gateway")

FETCH_TRIES = 3
MAX_CHATS = 500
"""Whose marks are kept; those silent for longest are forgotten."""
MAX_KEYS = 1_000
MAX_WAIT = 3_600.0
MAX_BYTES = 25_000_000
"""Of one file that comes in."""


class AttachmentUnavailable(HermesError):
    """A file that came with a message cannot be had; `passing` when trying again may help."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def said(error: Exception) -> str:
    """What an error says, or what it is called where it says nothing."""
    return str(error) or type(error).__name__


def clean(text: str) -> str:
    """Without halves of characters, which no store takes."""
    return text.encode("utf-8", "replace").decode()


def retry_after(headers: Mapping[str, str], otherwise: float | None = None) -> float | None:
    """Seconds that a platform asks to wait: a number, or a time by its own clock. Nobody is
    waited for longer than an hour."""
    given = headers.get("Retry-After", "").strip()
    try:
        wait = float(given)
    except ValueError:
        try:
            until = parsedate_to_datetime(given).timestamp()
            wait = until - parsedate_to_datetime(headers.get("Date", "")).timestamp()
        except ValueError:
            return otherwise
    return min(max(wait, 0.0), MAX_WAIT) if math.isfinite(wait) else otherwise


async def fetched(
    name: str, get: Callable[[], Awaitable[Media]], sleep: Callable[[float], Awaitable[None]]
) -> tuple[Media | None, str]:
    """A file, or a sentence that says why it is missing: a file that cannot be had keeps nobody's
    message back."""
    for attempt in range(1, FETCH_TRIES + 1):
        try:
            return await get(), ""
        except AttachmentUnavailable as trouble:
            why = trouble.message
            if not trouble.passing or attempt == FETCH_TRIES:
                break
        await sleep(attempt)
    log.warning("a file could not be fetched: %s", why)
    return None, f"(a file {name!r} came with this but could not be fetched: {why})"


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Do these at once until one ends, and end as it did."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def with_notes(text: str, notes: list[str]) -> str:
    return "\n\n".join([*([text] if text else []), *notes])


class MultipartSend:
    """Which parts of a message of several went out already, so that another attempt goes on with
    the rest. It does not outlive the process."""

    def __init__(self) -> None:
        self._sent: dict[str, list[str]] = {}

    async def send(self, key: str, parts: list[Callable[[], Awaitable[str]]]) -> list[str]:
        """The ids of all parts."""
        sent = self._sent.setdefault(key, [])
        while len(self._sent) > MAX_KEYS:
            del self._sent[next(iter(self._sent))]
        for part in parts[len(sent) :]:
            sent.append(await part())
        return self._sent.pop(key)


class ReadCursors:
    """How far each chat was read, as one mark, for platforms that count in each chat or whose ids
    rise everywhere. `ANY` is the furthest of all."""

    ANY = "*"

    def __init__(self, mark: str = "") -> None:
        try:
            self.by_chat = msgspec.json.decode(mark or "{}", type=dict[str, str])
        except msgspec.DecodeError:
            log.warning("what was read before is unknown: the mark %r cannot be read", mark[:200])
            self.by_chat = {}

    def seen(self, chat: str, id: str) -> None:
        for name in (chat, self.ANY):
            before = self.by_chat.pop(name, "")
            self.by_chat[name] = id if newer(id, before) else before
        while len(self.by_chat) > MAX_CHATS:
            del self.by_chat[next(iter(self.by_chat))]

    def of(self, chat: str) -> str:
        return self.by_chat.get(chat, "")

    def before(self, chat: str) -> str:
        """From where on something unread may be found in a chat."""
        return self.of(chat) or self.of(self.ANY)

    def chats(self) -> list[str]:
        """The latest first."""
        return [name for name in reversed(self.by_chat) if name != self.ANY]

    def __str__(self) -> str:
        return msgspec.json.encode(self.by_chat).decode()


def newer(id: str, other: str) -> bool:
    """Whether an id that counts upwards is after another."""
    return (len(id), id) > (len(other), other)
