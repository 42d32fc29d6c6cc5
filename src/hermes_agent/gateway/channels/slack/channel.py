"""Slack, by slack_sdk's Web API client. We read the socket ourselves: its Socket Mode client
handles messages concurrently, retries for ever and hides errors; here each message is stored and
confirmed before the next."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.core.text.addresses import host_of
from hermes_agent.gateway.channel import ChannelContext, Settings
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    Attachment,
    AttachmentUnavailable,
    LatestReceived,
    MultipartSend,
    ReadCursors,
    clean,
    newer,
    quietly,
    with_attachments,
)
from hermes_agent.gateway.channels.slack import wire
from hermes_agent.gateway.channels.slack.api import TROUBLE, ended, parts_of, send_error

log = logging.getLogger("hermes.gateway.slack")

ADDRESS = "https://slack.com"
HEARTBEAT = 20.0
PAGE = 200
KINDS = "im,mpim,public_channel,private_channel"
GONE = ("channel_not_found", "not_in_channel", "thread_not_found", "is_archived")


class SlackChannel:
    def __init__(self, settings: Settings, context: ChannelContext) -> None:
        self._context = context
        self._token = context.secret(str(settings.get("token", "")))
        self._app_token = context.secret(str(settings.get("app_token", "")))
        self._address = str(settings.get("address") or ADDRESS).rstrip("/")
        self._probe_chat = str(settings.get("probe_chat") or "")
        self._session: aiohttp.ClientSession | None = None
        self._me = ""
        self._marks = ReadCursors()
        self._latest = LatestReceived(context.sleep)
        self._ready = False
        self._progress = MultipartSend()

    def _web(self) -> AsyncWebClient:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        # No retries here: the outbox knows what may be retried.
        return AsyncWebClient(
            self._token,
            base_url=f"{self._address}/api/",
            session=self._session,
            retry_handlers=[],
        )

    # receiving

    async def run(self) -> None:
        self._ready = False
        try:
            web = self._web()
            self._me = str((await web.auth_test())["user_id"])
            while True:
                self._marks = ReadCursors(await self._context.mark())
                opened = await web.apps_connections_open(app_token=self._app_token)
                await self._listen(web, str(opened["url"]))
        except TROUBLE as trouble:
            raise ended(trouble) from None
        finally:
            self._ready = False

    async def _listen(self, web: AsyncWebClient, address: str) -> None:
        """Runs until Slack asks for a new connection."""
        assert self._session is not None
        async with self._session.ws_connect(address, heartbeat=HEARTBEAT) as socket:
            async for frame in socket:
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    continue
                try:
                    envelope = msgspec.json.decode(frame.data, type=wire.Envelope)
                except msgspec.DecodeError as why:
                    log.warning("skipping a malformed envelope: %s", why)
                    continue
                if envelope.type == "hello":
                    await self._catch_up(web)
                    self._ready = True
                elif envelope.type == "disconnect":
                    return
                else:
                    await self._take(envelope)
                    if envelope.envelope_id:
                        await socket.send_json({"envelope_id": envelope.envelope_id})
        raise HermesError("Slack closed the connection")

    async def _take(self, envelope: wire.Envelope) -> None:
        try:
            if envelope.type == "events_api":
                event = msgspec.convert(envelope.payload, wire.Event).event
                await self._event(event)
            elif envelope.type == "interactive":
                for press in wire.pressed(msgspec.convert(envelope.payload, wire.SlackPress)):
                    await self._context.receive(press, str(self._marks))
        except msgspec.ValidationError as why:
            id = envelope.envelope_id
            log.warning("skipping the malformed %s %r: %s", envelope.type, id, why)

    async def _event(self, event: dict[str, Any]) -> None:
        found = wire.message_of(event)
        if found is None:
            return
        message, changed = found
        if not changed:
            chat = message.channel
            self._latest.add(chat, message.ts)
            if not self._marks.of(ReadCursors.ANY):
                # Without a cursor we could not catch up if we were killed now.
                self._marks.seen(chat, wire.just_before(message.ts))
                await self._context.save_cursor(str(self._marks))
            self._marks.seen(chat, message.ts)
            if message.thread_ts not in {None, message.ts}:
                self._marks.seen(f"{chat}/{message.thread_ts}", message.ts)
        arrived = wire.arrived(message, self._me, changed=changed)
        if arrived is not None:
            attachments = self._attachments(message)
            arrived = await with_attachments(arrived, attachments, self._context.sleep)
            await self._context.receive(arrived, str(self._marks))

    async def _catch_up(self, web: AsyncWebClient) -> None:
        """Reads what was written while we were away: in all chats, and in known threads."""
        since = ReadCursors(str(self._marks))
        if not since.of(ReadCursors.ANY):
            return
        for chat in await self._chats(web):
            oldest = since.before(chat)
            await self._history(partial(web.conversations_history, channel=chat), chat, oldest)
        for name in since.chats():
            chat, _, thread = name.partition("/")
            if thread:
                ask = partial(web.conversations_replies, channel=chat, ts=thread)
                await self._history(ask, chat, since.of(name))

    async def _chats(self, web: AsyncWebClient) -> list[str]:
        chats: list[str] = []
        cursor = ""
        while True:
            found: Any = await web.users_conversations(types=KINDS, limit=PAGE, cursor=cursor)
            chats += [str(one["id"]) for one in found["channels"]]
            cursor = (found.get("response_metadata") or {}).get("next_cursor", "")
            if not cursor:
                return chats

    async def _history(self, ask: Any, chat: str, oldest: str) -> None:
        messages: list[dict[str, Any]] = []
        cursor = ""
        while True:
            try:
                found: Any = await ask(oldest=oldest, limit=PAGE, cursor=cursor)
            except SlackApiError as why:
                if why.response.get("error") not in GONE:
                    raise
                return
            messages += found["messages"]
            cursor = (found.get("response_metadata") or {}).get("next_cursor", "")
            if not cursor:
                break
        for raw in sorted(messages, key=lambda one: str(one.get("ts", ""))):
            if not newer(str(raw.get("ts", "")), oldest):
                continue  # a thread's first message comes with its replies
            try:
                await self._event({**raw, "channel": chat})
            except msgspec.ValidationError as why:
                log.warning("skipping the malformed message %r: %s", raw.get("ts"), why)

    def _attachments(self, message: wire.SlackMessage) -> Iterator[Attachment]:
        for file in message.files:
            name = clean(file.name or "file")
            use: Literal["file", "voice"] = "voice" if file.subtype == "slack_audio" else "file"
            yield use, name, partial(self._fetch, file, name)

    async def _fetch(self, file: wire.SlackFile, name: str) -> Media:
        if file.size > MAX_BYTES:
            raise AttachmentUnavailable("too large")
        if not self._is_slack(file.url_private_download) or self._session is None:
            raise AttachmentUnavailable("it is not stored by Slack")
        bearer = {"Authorization": f"Bearer {self._token}"}
        try:
            async with self._session.get(file.url_private_download, headers=bearer) as answer:
                if answer.status != 200:
                    raise AttachmentUnavailable(
                        f"Slack answered {answer.status}", passing=answer.status >= 500
                    )
                data = await answer.read()
        except TROUBLE as why:
            raise AttachmentUnavailable(str(why), passing=True) from None
        return Media(clean(file.mimetype) or "application/octet-stream", data, name)

    def _is_slack(self, address: str) -> bool:
        """Whether the token may be sent there: files may be stored elsewhere."""
        host = host_of(address)
        own = bool(host) and host == host_of(self._address)
        return own or (host.endswith(".slack.com") and address.startswith("https://"))

    # sending

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        try:
            return (await self._progress.send(key, parts_of(self._web(), outgoing)))[0]
        except TROUBLE as trouble:
            raise send_error(trouble) from None

    async def typing(self, chat: Chat) -> None:
        """Slack has none for bots."""

    # probing

    async def probe(self) -> None:
        try:
            web = self._web()
            await web.auth_test()
            if not self._ready:
                raise HermesError("not receiving from Slack yet")
            if self._probe_chat:
                await self._round_trip(web)
            else:
                await self._latest.compare("Slack", partial(self._last_message, web))
        except TROUBLE as trouble:
            raise ended(trouble) from None

    async def _round_trip(self, web: AsyncWebClient) -> None:
        """Our own messages come back to us."""
        sent = await web.chat_postMessage(channel=self._probe_chat, text="·")
        stamp = str(sent["ts"])
        came = await self._latest.reaches(self._probe_chat, stamp)
        await quietly("Slack", web.chat_delete(channel=self._probe_chat, ts=stamp), TROUBLE)
        if not came:
            raise HermesError("a test message did not come back from Slack")

    async def _last_message(self, web: AsyncWebClient, chat: str) -> str:
        found: Any = await web.conversations_history(channel=chat, limit=1)
        return next((str(one.get("ts", "")) for one in found["messages"]), "")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


make = SlackChannel
