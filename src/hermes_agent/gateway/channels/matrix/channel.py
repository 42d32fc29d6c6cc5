"""Matrix: the sync stream brings events, and its token is our cursor. Probes go through a private
room that only we are in."""

import hashlib
import logging
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, SendError, Settings
from hermes_agent.gateway.channels.matrix.rooms import Rooms
from hermes_agent.gateway.channels.matrix.wire import (
    HomeserverUnreachable,
    MatrixClient,
    MatrixError,
    refusal,
    send_error,
)
from hermes_agent.gateway.channels.shared import (
    ProbeWords,
    clean,
    fetched,
    with_notes,
    without_voice,
)
from hermes_agent.gateway.delivery.rendering import TELEGRAM, render

log = logging.getLogger("hermes.gateway.matrix")

POLL_SECONDS = 25
PROBE_SECONDS = 20.0
TYPING_MS = 8_000
PAGE = 100
MAX_PAGES = 100
"""Limit for fetching what was missed."""
PROBE = "org.hermes-agent.proof"
FILTER = msgspec.json.encode({
    "presence": {"types": []},
    "account_data": {"types": []},
    "room": {
        "timeline": {"limit": PAGE, "types": ["m.room.message", "m.room.member", PROBE]},
        "ephemeral": {"types": []},
        "account_data": {"types": []},
        "state": {"lazy_load_members": True, "types": ["m.room.member"]},
    },
}).decode()  # fmt: skip
KINDS = {"image": "m.image", "audio": "m.audio", "video": "m.video"}


class Matrix:
    def __init__(self, settings: Settings, context: ChannelContext) -> None:
        address = str(settings.get("address", "")).rstrip("/")
        if not address:
            raise UsageError("channels.matrix.address is missing", "`hermes gateway setup matrix`")
        self._wire = MatrixClient(address, context.secret(str(settings.get("token", ""))))
        self._settings = settings
        self._context = context
        self._rooms = Rooms(self._wire)
        self._me = ""
        self._probes = ProbeWords()
        self._uploads: dict[str, list[str]] = {}

    # in

    async def run(self) -> None:
        try:
            await self._know_me()
            mark = await self._context.mark()
            if not mark:  # ignore what was written before we joined
                first = await self._sync("", 0)
                await self._invited(first)
                mark = str(first["next_batch"])
                await self._context.save_cursor(mark)
            while True:
                news = await self._sync(mark, POLL_SECONDS)
                await self._invited(news)
                for room, events in await self._events(news, mark):
                    for event in events:
                        await self._take(room, event)
                mark = str(news["next_batch"])
                await self._context.save_cursor(mark)
        except (MatrixError, HomeserverUnreachable) as error:
            raise refusal(error) from None
        except KeyError as error:
            raise HermesError(f"the homeserver's answer has no {error}") from None

    async def _know_me(self) -> str:
        if not self._me:
            self._me = str((await self._wire.call("GET", "/account/whoami"))["user_id"])
        return self._me

    async def _sync(self, since: str, seconds: int) -> dict[str, Any]:
        query = {"timeout": str(seconds * 1000), "filter": FILTER}
        if since:
            query["since"] = since
        return await self._wire.call("GET", "/sync", params=query, timeout=seconds + 20.0)

    async def _events(self, news: Mapping[str, Any], since: str) -> list[tuple[str, list[Any]]]:
        """The events of each room, with those that did not fit into the response."""
        found = []
        for room, what in _dict(_dict(news.get("rooms")).get("join")).items():
            timeline = _dict(_dict(what).get("timeline"))
            events = timeline.get("events")
            events = list(events) if isinstance(events, list) else []
            if timeline.get("limited") and timeline.get("prev_batch"):
                events = [*await self._missed(room, str(timeline["prev_batch"]), since), *events]
            found.append((room, events))
        return found

    async def _missed(self, room: str, until: str, since: str) -> list[Any]:
        missed: list[Any] = []
        for _ in range(MAX_PAGES):
            query = {"dir": "b", "from": until, "to": since, "limit": str(PAGE)}
            page = await self._wire.call("GET", "/rooms/{}/messages", room, params=query)
            missed += page.get("chunk") or []
            if not page.get("end") or not page.get("chunk"):
                break
            until = str(page["end"])
        else:
            log.warning("too many messages were missed in %s; some will not be read", room)
        return missed[::-1]

    async def _invited(self, news: Mapping[str, Any]) -> None:
        allowed = [
            str(one) for name in ("allow", "owners") for one in self._settings.get(name) or ()
        ]
        anyone = self._settings.get("invites") == "anyone"
        for room, what in _dict(_dict(news.get("rooms")).get("invite")).items():
            events = _dict(_dict(what).get("invite_state")).get("events") or []
            inviters = [
                one.get("sender") for one in events
                if isinstance(one, dict) and one.get("state_key") == self._me
            ]  # fmt: skip
            if anyone or any(one in allowed for one in inviters):
                await self._wire.call("POST", "/rooms/{}/join", room, json={})

    async def _take(self, room: str, event: Any) -> None:
        try:
            arrived = await self._arrived(room, event)
        except (AttributeError, TypeError, ValueError, KeyError) as error:
            log.warning("skipping a malformed event: %s", error)
            return
        if arrived is not None:
            await self._context.receive(arrived, "")

    async def _arrived(self, room: str, event: Any) -> InboundMessage | None:
        sender, kind = str(event["sender"]), str(event["type"])
        content = _dict(event.get("content"))
        if kind == "m.room.member":
            self._rooms.changed(room)
        if kind == PROBE and sender == self._me:
            self._probes.came(str(content.get("word")))
        if kind != "m.room.message" or sender == self._me or not content:
            return None
        if content.get("msgtype") == "m.notice":  # bots must not talk to each other
            return None
        relates = _dict(content.get("m.relates_to"))
        edits = str(relates.get("event_id", "")) if relates.get("rel_type") == "m.replace" else ""
        said = _dict(content.get("m.new_content")) if edits else content
        thread = str(relates.get("event_id", "")) if relates.get("rel_type") == "m.thread" else ""
        reply = "" if thread and relates.get("is_falling_back") else _reply_of(relates)
        text, media, notes = await self._content(said)
        group = await self._rooms.is_group(room)
        named, text = self._named(said, text)
        addressed = not group or named or await self._rooms.is_ours(room, reply, self._me)
        files, voice = without_voice(media)
        return InboundMessage(
            str(event["event_id"]),
            Chat("matrix", room, thread),
            Person(sender, await self._rooms.name(room, sender)),
            with_notes(text, notes),
            "edited" if edits else "message",
            group,
            addressed,
            files,
            voice,
            edits or reply,
            float(event.get("origin_server_ts", 0)) / 1000,
        )

    async def _content(self, said: Mapping[str, Any]) -> tuple[str, list[Media], list[str]]:
        body = clean(str(said.get("body", "")))
        if "m.in_reply_to" in _dict(said.get("m.relates_to")):
            body = _without_quote(body)
        if str(said.get("msgtype")) in ("m.text", "m.emote") or "url" not in said:
            return body, [], []
        info = _dict(said.get("info"))
        name = clean(str(said.get("filename") or body or "file"))
        address, kind = str(said["url"]), str(info.get("mimetype", ""))
        media, note = await fetched(
            name, lambda: self._wire.download(address, name, kind), self._context.sleep
        )
        caption = body if said.get("filename") and said["filename"] != body else ""
        return caption, [media] if media else [], [note] if note else []

    def _named(self, said: Mapping[str, Any], text: str) -> tuple[bool, str]:
        """Whether the agent is mentioned, and the text without a leading mention."""
        mentioned = self._me in (_dict(said.get("m.mentions")).get("user_ids") or ())
        local = self._me[1:].partition(":")[0]
        for name in (self._me, f"@{local}", local):
            if text.lower().startswith(name.lower()):
                rest = text[len(name) :]
                if not rest[:1].isalnum():
                    return True, rest.lstrip(" :,")
        return mentioned or self._me in text, text

    # out

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        room, ids = outgoing.chat.chat, []
        try:
            if outgoing.text:
                content = self._text(outgoing)
                ids.append(await self._put(room, content, _transaction(key, 0)))
            for number, file in enumerate(outgoing.files, 1):
                content = await self._file(file, outgoing, key, number)
                ids.append(await self._put(room, content, _transaction(key, number)))
        except (MatrixError, HomeserverUnreachable) as error:
            raise send_error(error) from None
        self._uploads.pop(key, None)
        if not ids:
            raise SendError("there is nothing to send", again=False)
        return ids[0]

    async def _put(self, room: str, content: dict[str, Any], transaction: str) -> str:
        path = "/rooms/{}/send/m.room.message/{}"
        sent = await self._wire.call("PUT", path, room, transaction, json=content)
        return str(sent["event_id"])

    def _text(self, outgoing: OutboundMessage) -> dict[str, Any]:
        said = {
            "msgtype": "m.text",
            "body": outgoing.text,
            "format": "org.matrix.custom.html",
            "formatted_body": _html(outgoing.text),
        }
        if outgoing.edit:
            if not outgoing.edit.startswith("$"):
                raise SendError(f"not a Matrix message ID: {outgoing.edit!r}", again=False)
            relates = {"rel_type": "m.replace", "event_id": outgoing.edit}
            return {**said, "body": f"* {outgoing.text}", "m.new_content": said,
                    "m.relates_to": relates}  # fmt: skip
        return {**said, **_related(outgoing)}

    async def _file(
        self, file: Media, outgoing: OutboundMessage, key: str, number: int
    ) -> dict[str, Any]:
        done = self._uploads.setdefault(key, [])
        if len(done) < number:
            done.append(await self._wire.upload(file))
        kind = KINDS.get(file.type.partition("/")[0], "m.file")
        name = file.name or "file"
        info = {"mimetype": file.type, "size": len(file.data)}
        said = {"msgtype": kind, "body": name, "filename": name, "url": done[number - 1]}
        return {**said, "info": info, **_related(outgoing)}

    async def typing(self, chat: Chat) -> None:
        try:
            body = {"typing": True, "timeout": TYPING_MS}
            me = await self._know_me()
            await self._wire.call("PUT", "/rooms/{}/typing/{}", chat.chat, me, json=body)
        except (MatrixError, HomeserverUnreachable, KeyError) as error:
            log.info("the typing indicator failed: %s", error)

    async def probe(self) -> None:
        """An event in our private room must come back by the stream."""
        word = secrets.token_hex(8)
        seconds = float(self._settings.get("proof_seconds") or PROBE_SECONDS)
        try:
            failure = "Matrix messages are not arriving"
            async with self._probes.expect(word, seconds, failure):
                room = await self._rooms.own(await self._know_me())
                path = "/rooms/{}/send/{}/{}"
                await self._wire.call("PUT", path, room, PROBE, word, json={"word": word})
        except (MatrixError, HomeserverUnreachable) as error:
            raise refusal(error) from None

    async def close(self) -> None:
        await self._wire.close()


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _reply_of(relates: Mapping[str, Any]) -> str:
    return str(_dict(relates.get("m.in_reply_to")).get("event_id", ""))


def _related(outgoing: OutboundMessage) -> dict[str, Any]:
    """The thread of a message, and what it replies to."""
    answers = outgoing.reply_to if outgoing.reply_to.startswith("$") else ""
    relates: dict[str, Any] = {}
    if outgoing.chat.thread:
        relates = {"rel_type": "m.thread", "event_id": outgoing.chat.thread}
        relates["is_falling_back"] = not answers
        relates["m.in_reply_to"] = {"event_id": answers or outgoing.chat.thread}
    elif answers:
        relates = {"m.in_reply_to": {"event_id": answers}}
    return {"m.relates_to": relates} if relates else {}


def _without_quote(body: str) -> str:
    """Older clients quote the message they reply to."""
    lines = body.split("\n")
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    return "\n".join(lines).lstrip("\n") or body


def _html(text: str) -> str:
    """HTML with explicit line breaks, except in code."""
    parts = render(text, TELEGRAM).split("<pre>")
    html = [parts[0].replace("\n", "<br/>")]
    for part in parts[1:]:
        code, _, rest = part.partition("</pre>")
        html.append(f"<pre>{code}</pre>" + rest.replace("\n", "<br/>"))
    return "".join(html)


def _transaction(key: str, number: int) -> str:
    """The transaction id, the same for every attempt."""
    return hashlib.sha256(f"{key}/{number}".encode()).hexdigest()[:40]


make = Matrix
