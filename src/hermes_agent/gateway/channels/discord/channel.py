"""Discord, by discord.py: its gateway connection (heartbeats, resuming, compression) and HTTP
client, but not its state of servers and members. We read raw events, so that a malformed one does
no harm, and store each before the next."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import discord
import msgspec
from discord.errors import ConnectionClosed, HTTPException, LoginFailure
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from yarl import URL

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, CredentialsRejected, Settings
from hermes_agent.gateway.channels.discord import wire
from hermes_agent.gateway.channels.discord.api import (
    HINT,
    REFUSED,
    SILENT,
    TROUBLE,
    DiscordClient,
    parts_of,
    send_error,
)
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
    together,
    with_attachments,
)

log = logging.getLogger("hermes.gateway.discord")

EVENTS = ("READY", "RESUMED", "GUILD_CREATE", "MESSAGE_CREATE", "MESSAGE_UPDATE")
PRESSES = "INTERACTION_CREATE"
PAGE = 100
FAULTS = {
    4004: (REFUSED, HINT),
    4014: (
        "the bot is not allowed to read messages",
        "enable Message Content Intent on the bot's page at discord.com/developers",
    ),
}


def _ended(trouble: BaseException) -> HermesError:
    """The error for a connection that ended or a request that failed."""
    if isinstance(trouble, ConnectionClosed):
        if trouble.code in FAULTS:
            return CredentialsRejected(*FAULTS[trouble.code])
        return HermesError(f"Discord closed the connection with code {trouble.code}")
    unknown = isinstance(trouble, HTTPException) and trouble.status == 401
    if unknown or isinstance(trouble, LoginFailure):
        return CredentialsRejected(REFUSED, HINT)
    return HermesError(f"Discord is not responding: {trouble}")


class DiscordChannel:
    def __init__(self, settings: Settings, context: ChannelContext) -> None:
        self._context = context
        self._token = context.secret(str(settings.get("token", "")))
        self._address = str(settings.get("address") or "").rstrip("/")
        self._probe_chat = str(settings.get("probe_chat") or "")
        self._api: DiscordClient | None = None
        self._login = asyncio.Lock()
        self._me = ""
        self._ws: DiscordWebSocket | None = None
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._places: dict[str, wire.DiscordChannelInfo] = {}
        self._marks = ReadCursors()
        self._since = ReadCursors()
        self._latest = LatestReceived(context.sleep)
        self._ready = False
        self._progress = MultipartSend()

    async def _http(self) -> DiscordClient:
        async with self._login:
            if self._api is None:
                api = DiscordClient(asyncio.get_running_loop(), self._address)
                try:
                    self._me = str((await api.static_login(self._token))["id"])
                except BaseException:
                    await api.close()
                    raise
                self._api = api
            return self._api

    # receiving

    async def run(self) -> None:
        self._ready = False
        self._events = asyncio.Queue()
        self._marks = ReadCursors(await self._context.mark())
        try:
            await together(self._work(), self._listen())
        except TROUBLE as trouble:
            raise _ended(trouble) from None
        finally:
            self._ready = False

    async def _listen(self) -> None:
        api = await self._http()
        address = URL((await api.call("GET", "/gateway/bot"))["url"])
        intents = discord.Intents(
            guilds=True, guild_messages=True, dm_messages=True, message_content=True
        )
        client = discord.Client(intents=intents, max_messages=None)
        client.http = api
        client.loop = asyncio.get_running_loop()
        state = client._connection
        state.parsers = {name: partial(self._note, name) for name in (*EVENTS, PRESSES)}
        resumed: dict[str, Any] = {"initial": True, "gateway": address}
        while True:
            ws = await DiscordWebSocket.from_client(client, **resumed)
            self._ws = ws
            try:
                while True:
                    await ws.poll_event()
            except ReconnectWebSocket as again:
                resumed = {"gateway": address}
                if again.resume and ws.session_id:
                    resumed = {
                        "gateway": ws.gateway,
                        "session": ws.session_id,
                        "sequence": ws.sequence,
                        "resume": True,
                    }
            except (AttributeError, KeyError, TypeError, ValueError) as why:
                raise HermesError(f"unreadable data from Discord: {why!r}") from why
            finally:
                self._ws = None
                await ws.close()

    def _note(self, name: str, data: Any) -> None:
        self._events.put_nowait((name, data))

    async def _work(self) -> None:
        """Handles events one after the other."""
        while True:
            name, data = await self._events.get()
            try:
                await self._handle(name, data)
            except msgspec.ValidationError as why:
                id = data.get("id") if isinstance(data, dict) else None
                log.warning("skipping the malformed event %s %r: %s", name, id, why)

    async def _handle(self, name: str, data: Any) -> None:
        match name:
            case "READY":
                self._since = ReadCursors(str(self._marks))
                for chat in reversed(self._since.chats()):
                    await self._catch_up(chat)
                self._ready = True
            case "RESUMED":
                self._ready = True
            case "GUILD_CREATE":
                server = msgspec.convert(data, wire.Server)
                for place in (*server.channels, *server.threads):
                    self._places[place.id] = place
                    await self._catch_up_new(place)
            case "MESSAGE_CREATE":
                await self._message(msgspec.convert(data, wire.DiscordMessage))
            case "MESSAGE_UPDATE":
                await self._changed(data)
            case _:
                await self._press(msgspec.convert(data, wire.DiscordPress))

    async def _catch_up_new(self, place: wire.DiscordChannelInfo) -> None:
        """A chat that was created while we were away."""
        last, since = place.last_message_id, self._since.of(ReadCursors.ANY)
        if last and since and not self._since.of(place.id) and newer(last, since):
            await self._catch_up(place.id)

    async def _catch_up(self, chat: str) -> None:
        """Reads what was written while we were away."""
        api = await self._http()
        after = self._since.before(chat)
        while True:
            path = f"/channels/{chat}/messages?after={after}&limit={PAGE}"
            try:
                page = await api.call("GET", path)
            except HTTPException as gone:
                if gone.status not in {403, 404}:
                    raise
                return
            for raw in sorted(page, key=lambda one: int(one["id"])):
                after = raw["id"]
                try:
                    await self._message(msgspec.convert(raw, wire.DiscordMessage))
                except msgspec.ValidationError as why:
                    log.warning("skipping the malformed message %s: %s", after, why)
            if len(page) < PAGE:
                return

    async def _message(self, message: wire.DiscordMessage) -> None:
        chat = message.channel_id
        self._latest.add(chat, message.id)
        if not self._marks.of(chat):
            # Without a cursor for this chat we could not catch up if we were killed now.
            self._marks.seen(chat, str(int(message.id) - 1))
            await self._context.save_cursor(str(self._marks))
        self._marks.seen(chat, message.id)
        arrived = wire.arrived(message, await self._place(chat), self._me)
        if arrived is not None:
            found = self._attachments(message)
            arrived = await with_attachments(arrived, found, self._context.sleep)
            await self._context.receive(arrived, str(self._marks))

    async def _changed(self, data: Any) -> None:
        if not isinstance(data, dict) or not data.get("edited_timestamp"):
            return  # Discord itself changed it, such as by a link preview
        message = msgspec.convert(data, wire.DiscordMessage)
        arrived = wire.arrived(message, await self._place(message.channel_id), self._me)
        if arrived is not None:
            changed = msgspec.structs.replace(
                arrived,
                id=f"{arrived.id}/{clean(str(message.edited_timestamp))}",
                kind="edited",
                reply_to=arrived.id,
            )
            await self._context.receive(changed, str(self._marks))

    async def _press(self, press: wire.DiscordPress) -> None:
        if press.channel_id is None:
            return
        arrived = wire.pressed(press, await self._place(press.channel_id))
        if arrived is None:
            return
        await self._context.receive(arrived, str(self._marks))
        api = await self._http()
        path = f"/interactions/{press.id}/{press.token}/callback"
        await quietly("Discord", api.call("POST", path, json={"type": 6}), TROUBLE)

    async def _place(self, id: str) -> wire.DiscordChannelInfo:
        known = self._places.get(id)
        if known is None:
            api = await self._http()
            try:
                found = await api.call("GET", f"/channels/{id}")
                known = msgspec.convert(found, wire.DiscordChannelInfo)
            except HTTPException as why:
                if why.status not in {403, 404}:
                    raise
                known = wire.DiscordChannelInfo(id)
            self._places[id] = known
        return known

    def _attachments(self, message: wire.DiscordMessage) -> Iterator[Attachment]:
        for file in message.attachments:
            name = clean(file.filename) or "file"
            use: Literal["file", "voice"] = "voice" if message.flags & wire.VOICE else "file"
            yield use, name, partial(self._fetch, file, name)

    async def _fetch(self, file: wire.Attachment, name: str) -> Media:
        if file.size > MAX_BYTES:
            raise AttachmentUnavailable("too large")
        api = await self._http()
        try:
            data = await api.get_from_cdn(file.url)
        except (*TROUBLE, ValueError) as why:
            passing = not isinstance(why, HTTPException) or why.status >= 500
            raise AttachmentUnavailable(str(why), passing=passing) from None
        return Media(clean(file.content_type or "application/octet-stream"), data, name)

    # sending

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        try:
            parts = parts_of(await self._http(), outgoing, key)
            return (await self._progress.send(key, parts))[0]
        except TROUBLE as trouble:
            raise send_error(trouble) from None

    async def typing(self, chat: Chat) -> None:
        with suppress(*TROUBLE):
            api = await self._http()
            await api.call("POST", f"/channels/{chat.thread or chat.chat}/typing")

    # probing

    async def probe(self) -> None:
        try:
            api = await self._http()
            if not self._ready:
                raise HermesError("not receiving from Discord yet")
            if self._probe_chat:
                await self._round_trip(api)
            else:
                await api.call("GET", "/users/@me")
                await self._latest.compare("Discord", partial(self._last_message, api))
        except TROUBLE as trouble:
            raise _ended(trouble) from None

    async def _round_trip(self, api: DiscordClient) -> None:
        """Our own messages come back to us."""
        sent = await api.say(self._probe_chat, {"content": "·", "flags": SILENT})
        path = f"/channels/{self._probe_chat}/messages/{sent['id']}"
        came = await self._latest.reaches(self._probe_chat, str(sent["id"]))
        await quietly("Discord", api.call("DELETE", path), TROUBLE)
        if not came:
            raise HermesError("a test message did not come back from Discord")

    async def _last_message(self, api: DiscordClient, chat: str) -> str:
        found = await api.call("GET", f"/channels/{chat}")
        return msgspec.convert(found, wire.DiscordChannelInfo).last_message_id or ""

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()
            self._api = None


make = DiscordChannel
