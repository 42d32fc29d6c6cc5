"""Helpers that several channels use."""

import asyncio
import logging
import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx
import msgspec
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import InboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import SendError

log = logging.getLogger("hermes.gateway")

FETCH_TRIES = 3
MAX_CHATS = 500
"""Chats whose cursors are kept; the longest silent ones are dropped."""
MAX_KEYS = 1_000
MAX_WAIT = 3_600.0
MAX_BYTES = 25_000_000
"""Size limit of one inbound file."""
CHECKED = 3
"""Chats that a probe compares with what the platform reports."""
WAITS = (0.0, 0.2, 0.5, 1.0, 2.0, 2.0)

Sleep = Callable[[float], Awaitable[None]]
Part = Callable[[], Awaitable[str]]
Attachment = tuple[Literal["file", "voice"], str, Callable[[], Awaitable[Media]]]
"""How it is used, its name, and a function that fetches it."""


class AttachmentUnavailable(HermesError):
    """An attachment cannot be fetched; `passing` if a retry may help."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def said(error: BaseException) -> str:
    """The text of an error, or its type if it has none."""
    return str(error) or type(error).__name__


def clean(text: str) -> str:
    """Replaces lone surrogates, which the store does not take."""
    return text.encode("utf-8", "replace").decode()


def retry_after(headers: Mapping[str, str], otherwise: float | None = None) -> float | None:
    """Seconds that a platform asks to wait, at most an hour: a number, or a time by its clock."""
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


async def request(
    client: httpx.AsyncClient, who: str, method: str, url: str, **options: Any
) -> httpx.Response:
    """Sends an HTTP request; raises `SendError` if there is no response."""
    try:
        return await client.request(method, url, **options)
    except (httpx.ConnectError, httpx.InvalidURL) as error:
        raise SendError(f"cannot reach {who}: {said(error)}", channel=True) from None
    except httpx.HTTPError as error:
        raise SendError(f"{who} did not answer: {said(error)}", doubtful=True) from None


def check_status(
    who: str, answer: httpx.Response, hint: str, wait: float | None = None
) -> httpx.Response:
    """Raises `SendError` unless the message was accepted."""
    status = answer.status_code
    if status < 300:
        return answer
    message = f"{who} answered {status}: {answer.text[:200]}".removesuffix(": ")
    if status in (429, 503):
        after = retry_after(answer.headers, wait if status == 429 else None)
        raise SendError(message, after=after, doubtful=status == 503)
    if status in (401, 403):
        raise SendError(message, hint, channel=True)
    raise SendError(message, again=status >= 500, doubtful=status >= 500)


async def fetched(
    name: str, get: Callable[[], Awaitable[Media]], sleep: Sleep
) -> tuple[Media | None, str]:
    """The attachment, or a note that says why it is missing: the message arrives either way."""
    for attempt in range(1, FETCH_TRIES + 1):
        try:
            return await get(), ""
        except AttachmentUnavailable as trouble:
            why = trouble.message
            if not trouble.passing or attempt == FETCH_TRIES:
                break
        await sleep(attempt)
    log.warning("an attachment could not be fetched: %s", why)
    return None, f"(a file {name!r} came with this but could not be fetched: {why})"


async def with_attachments(
    arrived: InboundMessage, attachments: Iterable[Attachment], sleep: Sleep
) -> InboundMessage:
    """The message with its attachments, and notes on those that could not be fetched."""
    found: dict[str, list[Media]] = {"file": [], "voice": []}
    notes = []
    for use, name, get in attachments:
        media, note = await fetched(name, get, sleep)
        if media is None:
            notes.append(note)
        else:
            found[use].append(media)
    text = with_notes(arrived.text, notes)
    return replace(arrived, text=text, files=tuple(found["file"]), voice=tuple(found["voice"]))


def with_notes(text: str, notes: Iterable[str]) -> str:
    return "\n\n".join([*([text] if text else []), *notes])


def without_voice(media: Iterable[Media]) -> tuple[tuple[Media, ...], tuple[Media, ...]]:
    """Files, and voice memos by their type."""
    media = tuple(media)
    voice = tuple(one for one in media if one.type.startswith("audio/"))
    return tuple(one for one in media if one not in voice), voice


async def together(*works: Coroutine[Any, Any, object]) -> None:
    """Runs these at once until one ends; raises what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def quietly(who: str, call: Awaitable[Any], trouble: tuple[type[BaseException], ...]) -> None:
    """Makes a request whose failure does not matter."""
    try:
        await call
    except trouble as error:
        log.info("%s rejected a request: %s", who, error)


class MultipartSend:
    """Remembers which parts of a message were sent, so that a retry continues with the rest. Not
    stored: it is lost on a restart."""

    def __init__(self) -> None:
        self._sent: dict[str, list[str]] = {}

    async def send(self, key: str, parts: Sequence[Part]) -> list[str]:
        """The ids of all parts."""
        if not parts:
            raise SendError("there is nothing to send", again=False)
        sent = self._sent.setdefault(key, [])
        while len(self._sent) > MAX_KEYS:
            del self._sent[next(iter(self._sent))]
        for part in parts[len(sent) :]:
            sent.append(await part())
        return self._sent.pop(key)


class ReadCursors:
    """How far each chat was read, as one cursor, for platforms whose ids rise in each chat or
    everywhere. `ANY` is the furthest of all."""

    ANY = "*"

    def __init__(self, mark: str = "") -> None:
        try:
            self.by_chat = msgspec.json.decode(mark or "{}", type=dict[str, str])
        except msgspec.DecodeError:
            log.warning("the cursor %r is malformed; reading from the start", mark[:200])
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
        """Where unread messages of a chat may start."""
        return self.of(chat) or self.of(self.ANY)

    def chats(self) -> list[str]:
        """The latest first."""
        return [name for name in reversed(self.by_chat) if name != self.ANY]

    def __str__(self) -> str:
        return msgspec.json.encode(self.by_chat).decode()


def newer(id: str, other: str) -> bool:
    """Whether an id that counts upwards is after another."""
    return (len(id), id) > (len(other), other)


class LatestReceived:
    """The latest message that came in from each chat, our own too: for probes."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._ids: dict[str, str] = {}

    def add(self, chat: str, id: str) -> None:
        if newer(id, self._ids.get(chat, "")):
            self._ids[chat] = id

    async def reaches(self, chat: str, id: str) -> bool:
        """Whether a message comes in soon."""
        for wait in WAITS:
            await self._sleep(wait)
            if not newer(id, self._ids.get(chat, "")):
                return True
        return False

    async def compare(self, who: str, latest: Callable[[str], Awaitable[str]]) -> None:
        """Raises if the platform has later messages than those that came in."""
        for chat in list(self._ids)[-CHECKED:]:
            if not await self.reaches(chat, await latest(chat)):
                raise HermesError(f"{who} has messages that did not arrive here")


class ProbeWords:
    """Words that probes have sent and that must come back."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Event] = {}

    def came(self, word: str) -> None:
        if (waiting := self._waiting.get(word)) is not None:
            waiting.set()

    @asynccontextmanager
    async def expect(self, word: str, seconds: float | None, failure: str) -> AsyncIterator[None]:
        """The body sends the word; raises `failure` if it does not come back in time."""
        came = self._waiting[word] = asyncio.Event()
        try:
            yield
            async with asyncio.timeout(seconds):
                await came.wait()
        except TimeoutError:
            raise HermesError(failure) from None
        finally:
            del self._waiting[word]
