"""ntfy: one stream brings the messages of the topic and our probes. A button makes the phone write
to the topic."""

import hashlib
import secrets
from functools import partial
from typing import Any, Literal

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, CredentialsRejected, SendError, Settings
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    AttachmentUnavailable,
    MultipartSend,
    ProbeWords,
    check_status,
    clean,
    fetched,
    log,
    request,
    said,
    with_notes,
    without_voice,
)

OURS = "hermes"
"""The tag of our own messages, which come back to us."""
PRESS = "hermes-press"
SILENCE_SECONDS = 120.0
"""A stream that is silent for longer, without keep-alives, is dead."""
SECONDS = 30.0
PROBE_SECONDS = 10.0
MAX_BUTTONS = 3
TOKEN_HINT = "set channels.ntfy.token to the name of a secret with a valid token"  # noqa: S105


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


class Ntfy:
    def __init__(self, settings: Settings, context: ChannelContext) -> None:
        def token(name: str) -> str:
            return context.secret(str(settings[name])) if settings.get(name) else ""

        self._topic = topic = str(settings.get("topic", ""))
        if not topic:
            raise UsageError("channels.ntfy.topic is missing", "`hermes gateway setup ntfy`")
        self._probe_seconds = float(settings.get("proof_seconds") or PROBE_SECONDS)
        self._address = str(settings.get("address") or "https://ntfy.sh").rstrip("/")
        self._press_token = token("press_token")
        self._context = context
        # Nobody subscribes to this topic, so phones stay quiet.
        self._probe_topic = f"{OURS}-{hashlib.sha256(topic.encode()).hexdigest()[:24]}"
        self._probes = ProbeWords()
        self._progress = MultipartSend()
        self._protected = bool(access := token("token"))
        self._client = httpx.AsyncClient(
            base_url=self._address, timeout=SECONDS,
            headers={"Authorization": f"Bearer {access}"} if access else {},
        )  # fmt: skip

    # in

    async def run(self) -> None:
        since = await self._context.mark()
        if not since:  # so that nothing is missed before the first message
            since = str(int(self._context.clock()))
            await self._context.save_cursor(since)
        patience = httpx.Timeout(SECONDS, read=SILENCE_SECONDS)
        path, query = f"/{self._topic},{self._probe_topic}/json", {"since": since}
        try:
            async with self._client.stream("GET", path, params=query, timeout=patience) as stream:
                if stream.status_code in (401, 403):
                    raise CredentialsRejected(
                        f"ntfy denied read access to {self._topic}",
                        TOKEN_HINT,
                    )
                stream.raise_for_status()
                async for line in stream.aiter_lines():
                    await self._take(line)
        except httpx.HTTPError as error:
            raise HermesError(f"the connection to ntfy was lost: {said(error)}") from None

    async def _take(self, line: str) -> None:
        try:
            event = msgspec.json.decode(line, type=_Event)
        except msgspec.MsgspecError as error:
            log.warning("skipping a malformed line from ntfy: %s", error)
            return
        if event.event != "message" or not event.id:
            return
        if event.topic == self._probe_topic:
            self._probes.came(event.message)
        elif event.topic == self._topic and OURS not in event.tags:
            await self._context.receive(await self._arrived(event), event.id)

    async def _arrived(self, event: _Event) -> InboundMessage:
        text, found = clean(event.message), event.attachment
        if found is not None and text.startswith("You received a file:"):
            text = ""  # the server's default text
        kind: Literal["press", "message"] = "press" if PRESS in event.tags else "message"
        message = InboundMessage(
            event.id, Chat("ntfy", event.topic), Person(event.topic, event.topic), text, kind,
            time=event.time,
        )  # fmt: skip
        if found is None:
            return message
        media, note = await fetched(found.name, lambda: self._fetch(found), self._context.sleep)
        files, voice = without_voice([media] if media else [])
        return replace(
            message, text=with_notes(text, [note] if note else []), files=files, voice=voice
        )

    async def _fetch(self, found: _Attachment) -> Media:
        if not found.url.startswith(f"{self._address}/file/"):
            raise AttachmentUnavailable("it is stored elsewhere")
        if found.size > MAX_BYTES:
            raise AttachmentUnavailable("too large")
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
            raise SendError("ntfy cannot edit messages", again=False)
        parts = [partial(self._say, outgoing)] if outgoing.text else []
        parts += [partial(self._attach, file, outgoing.chat.chat) for file in outgoing.files]
        return (await self._progress.send(key, parts))[0]

    async def _say(self, outgoing: OutboundMessage) -> str:
        body: dict[str, Any] = {
            "topic": outgoing.chat.chat, "message": outgoing.text, "tags": [OURS],
            "markdown": True, "priority": 4 if outgoing.kind in ("question", "notice") else 3,
            "actions": self._actions(outgoing, outgoing.chat.chat),
        }  # fmt: skip
        return await self._post("POST", "/", content=msgspec.json.encode(body))

    async def _attach(self, file: Media, topic: str) -> str:
        headers = {"Filename": _header(file.name or "file"), "Tags": OURS}
        return await self._post("PUT", f"/{topic}", content=file.data, headers=headers)

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
        answer = await request(self._client, "ntfy", method, path, **options)
        check_status("ntfy", answer, TOKEN_HINT, wait=60.0)
        try:
            return str(msgspec.json.decode(answer.content)["id"])
        except (msgspec.MsgspecError, KeyError, TypeError):
            raise SendError("ntfy's answer is malformed", doubtful=True) from None

    async def typing(self, _chat: Chat) -> None:
        """ntfy has none."""

    async def probe(self) -> None:
        """A message to a topic that only we read must come back by the stream."""
        word = secrets.token_hex(8)
        body = {"topic": self._probe_topic, "message": word, "tags": [OURS], "priority": 1}
        headers = {"Cache": "no", "Firebase": "no"}
        failure = "ntfy messages are not arriving"
        async with self._probes.expect(word, self._probe_seconds, failure):
            await self._post("POST", "/", content=msgspec.json.encode(body), headers=headers)

    async def close(self) -> None:
        await self._client.aclose()


def _header(text: str) -> str:
    """The text in characters that a header may contain."""
    return "".join(one if " " <= one <= "~" else "_" for one in text)


make = Ntfy
