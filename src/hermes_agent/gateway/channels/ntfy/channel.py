"""ntfy: one stream brings what is written to the topic, and what proves that the stream is alive. A
button makes the phone write to the topic itself."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, CredentialsRejected, SendError, Settings
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    AttachmentUnavailable,
    MultipartSend,
    clean,
    fetched,
    log,
    retry_after,
    said,
    with_notes,
)

OURS = "hermes"
"""The tag of what we wrote ourselves: it comes back to us, and is no message."""
PRESS = "hermes-press"
SILENCE_SECONDS = 120.0
"""A stream that brings nothing for longer, not even a sign of life, is dead."""
SECONDS = 30.0
PROOF_SECONDS = 10.0
"""How long something that was written may take to come to us."""
MAX_BUTTONS = 3
MAX_PIECE_BYTES = 4_000
"""Bytes of one message; the server makes a file of a longer one."""

Part = Callable[[], Awaitable[str]]


class _Attachment(Struct):
    url: str
    name: str = ""
    type: str = ""
    size: int = 0


class _Event(Struct):
    """A line of the stream."""

    id: str
    event: str
    topic: str = ""
    time: float = 0.0
    message: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    attachment: _Attachment | None = None


def make(settings: Settings, surroundings: ChannelContext) -> "Ntfy":
    topic = str(settings.get("topic", ""))
    if not topic:
        raise UsageError("channels.ntfy.topic is missing", "`hermes gateway setup ntfy`")
    address = str(settings.get("address") or "https://ntfy.sh").rstrip("/")

    def token(name: str) -> str:
        return surroundings.secret(str(settings[name])) if settings.get(name) else ""

    proof = float(settings.get("proof_seconds") or PROOF_SECONDS)
    return Ntfy(address, topic, token("token"), token("press_token"), proof, surroundings)


class Ntfy:
    def __init__(
        self,
        address: str,
        topic: str,
        token: str,
        press_token: str,
        proof_seconds: float,
        around: ChannelContext,
    ) -> None:
        self._proof_seconds = proof_seconds
        self._address = address
        self._topic = topic
        self._press_token = press_token
        self._protected = bool(token)
        self._around = around
        # Nobody subscribes to it, and the phone stays quiet.
        self._proofs = f"{OURS}-{hashlib.sha256(topic.encode()).hexdigest()[:24]}"
        self._waiting: dict[str, asyncio.Event] = {}
        self._progress = MultipartSend()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.AsyncClient(base_url=address, headers=headers, timeout=SECONDS)

    # in

    async def run(self) -> None:
        since = await self._around.mark()
        if not since:  # what comes before the first message, while we are away, is for us, too
            since = str(int(self._around.clock()))
            await self._around.save_cursor(since)
        patience = httpx.Timeout(SECONDS, read=SILENCE_SECONDS)
        path, query = f"/{self._topic},{self._proofs}/json", {"since": since}
        try:
            async with self._client.stream("GET", path, params=query, timeout=patience) as stream:
                if stream.status_code in (401, 403):
                    raise CredentialsRejected(
                        f"ntfy does not let us read {self._topic}",
                        "set channels.ntfy.token to the name of a secret with a valid token",
                    )
                stream.raise_for_status()
                async for line in stream.aiter_lines():
                    await self._take(line)
        except httpx.HTTPError as error:
            raise HermesError(f"the connection to ntfy ended: {said(error)}") from None

    async def _take(self, line: str) -> None:
        try:
            event = msgspec.json.decode(line, type=_Event)
        except msgspec.MsgspecError as error:
            log.warning("ntfy brought something malformed: %s", error)
            return
        if event.event != "message" or not event.id:
            return
        if event.topic == self._proofs:
            if waiting := self._waiting.get(event.message):
                waiting.set()
        elif event.topic == self._topic and OURS not in event.tags:
            await self._around.receive(await self._arrived(event), event.id)

    async def _arrived(self, event: _Event) -> InboundMessage:
        text, notes = clean(event.message), []
        files: list[Media] = []
        if (found := event.attachment) is not None:
            media, note = await fetched(found.name, lambda: self._fetch(found), self._around.sleep)
            files += [media] if media else []
            notes += [note] if note else []
            if text.startswith("You received a file:"):  # what the server says for want of a text
                text = ""
        voice = tuple(one for one in files if one.type.startswith("audio/"))
        return InboundMessage(
            event.id,
            Chat("ntfy", event.topic),
            Person(event.topic, event.topic),
            with_notes(text, notes),
            "press" if PRESS in event.tags else "message",
            files=tuple(one for one in files if one not in voice),
            voice=voice,
            time=event.time,
        )

    async def _fetch(self, found: _Attachment) -> Media:
        if not found.url.startswith(f"{self._address}/file/"):
            raise AttachmentUnavailable("it lies elsewhere")
        if found.size > MAX_BYTES:
            raise AttachmentUnavailable("it is too large")
        try:
            answer = await self._client.get(found.url)
        except httpx.HTTPError as error:
            raise AttachmentUnavailable(said(error), passing=True) from None
        if answer.status_code != 200:
            raise AttachmentUnavailable(
                f"status {answer.status_code}", passing=answer.status_code >= 500
            )
        kind = found.type or answer.headers.get("content-type", "application/octet-stream")
        return Media(kind, answer.content, found.name)

    # out

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        if outgoing.edit:
            raise SendError("ntfy cannot change what was sent", again=False)
        topic = outgoing.chat.chat
        pieces = _pieces(outgoing.text)
        parts = [self._text(piece, outgoing, last=piece is pieces[-1]) for piece in pieces]
        parts += [self._attach(file, topic) for file in outgoing.files]
        if not parts:
            raise SendError("there is nothing to send", again=False)
        return (await self._progress.send(key, parts))[0]

    def _text(self, piece: str, outgoing: OutboundMessage, *, last: bool) -> Part:
        topic = outgoing.chat.chat
        body: dict[str, Any] = {
            "topic": topic, "message": piece, "tags": [OURS], "markdown": True,
            "priority": 4 if outgoing.kind in ("question", "notice") else 3,
            "actions": self._actions(outgoing, topic) if last else [],
        }  # fmt: skip
        return lambda: self._post("POST", "/", content=msgspec.json.encode(body))

    def _attach(self, file: Media, topic: str) -> Part:
        headers = {"Filename": _header(file.name or "file"), "Tags": OURS}
        return lambda: self._post("PUT", f"/{topic}", content=file.data, headers=headers)

    def _actions(self, outgoing: OutboundMessage, topic: str) -> list[dict[str, Any]]:
        buttons = [one for row in outgoing.buttons for one in row]
        if not buttons or (self._protected and not self._press_token):
            return []
        headers = {"Tags": PRESS}
        if self._press_token:
            headers["Authorization"] = f"Bearer {self._press_token}"
        return [
            {"action": "http", "label": one.text, "url": f"{self._address}/{topic}",
             "method": "POST", "body": one.data, "headers": headers, "clear": True}
            for one in buttons[:MAX_BUTTONS]
        ]  # fmt: skip

    async def _post(self, method: str, path: str, **options: Any) -> str:
        try:
            answer = await self._client.request(method, path, **options)
        except httpx.ConnectError as error:
            raise SendError(f"ntfy is not reached: {said(error)}", channel=True) from None
        except httpx.HTTPError as error:
            raise SendError(f"ntfy did not answer: {said(error)}", doubtful=True) from None
        status = answer.status_code
        if status == 429:
            raise SendError("ntfy asks to send less often", after=retry_after(answer.headers, 60.0))
        if status in (401, 403):
            hint = "set channels.ntfy.token to the name of a secret with a valid token"
            raise SendError("ntfy does not let us write", hint, channel=True)
        if status >= 500:
            raise SendError(f"ntfy answered {status}", doubtful=True)
        if status >= 400:
            raise SendError(f"ntfy refuses it: {answer.text[:200]}", again=False)
        try:
            return str(msgspec.json.decode(answer.content)["id"])
        except (msgspec.MsgspecError, KeyError, TypeError):
            raise SendError("ntfy's answer cannot be read", doubtful=True) from None

    async def typing(self, _chat: Chat) -> None:
        """There is no such thing."""

    async def probe(self) -> None:
        """Something is written that only we read, and must come by the stream."""
        word = secrets.token_hex(8)
        came = self._waiting[word] = asyncio.Event()
        try:
            body = {"topic": self._proofs, "message": word, "tags": [OURS], "priority": 1}
            headers = {"Cache": "no", "Firebase": "no"}
            await self._post("POST", "/", content=msgspec.json.encode(body), headers=headers)
            async with asyncio.timeout(self._proof_seconds):
                await came.wait()
        except TimeoutError:
            raise HermesError("what is written to ntfy does not come to us") from None
        finally:
            del self._waiting[word]

    async def close(self) -> None:
        await self._client.aclose()


def _pieces(text: str) -> list[str]:
    """A text in pieces that each are one message; a character is never split."""
    pieces: list[str] = []
    while text:
        piece = text.encode()[:MAX_PIECE_BYTES].decode(errors="ignore")
        pieces.append(piece)
        text = text[len(piece) :]
    return pieces


def _header(text: str) -> str:
    """A name that a header can carry."""
    return "".join(one if " " <= one <= "~" else "_" for one in text)
