"""Slack's Web API and Socket Mode, as https://docs.slack.dev describes them: `hello`, envelopes
that are to be acknowledged, events and block actions, mrkdwn with its three
escapes, threads by `thread_ts`, uploads in three steps, history and replies by `oldest`, and
`ok: false` with an error's name."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any, get_args

from aiohttp import WSMsgType, web

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from tests.support.platforms import Shown, Switch, Where
from tests.support.platforms.loopback import Loopback

TOKEN, APP_TOKEN = "xoxb-a-secret-of-slack", "xapp-another-secret-of-slack"
ME, PERSON = "U0HERMES", "U0ADA"
CHATS: dict[Where, str] = {"private": "D0ADA", "group": "C0GROUP", "thread": "C0THREAD"}
PROBES = "C0PROBES"
THREAD = "1700000000.000001"
MAX_LENGTH = 40_000
KINDS = ("events_api", "interactive")


class Refusal(Exception):
    def __init__(self, error: str, status: int = 200, **headers: str) -> None:
        super().__init__(error)
        self.answer = web.json_response({"ok": False, "error": error}, status=status)
        for name, value in headers.items():
            self.answer.headers[name.replace("_", "-")] = value


class SlackPlatform(Loopback):
    name = "slack"
    person = PERSON
    switches: frozenset[Switch] = frozenset(get_args(Switch)) - {"refuses-markup"}

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, list[dict[str, Any]]] = {chat: [] for chat in CHATS.values()}
        self.messages[PROBES] = []
        self.files: dict[str, Media] = {}
        self.blocks: dict[str, list[Any]] = {}
        self.sockets: list[web.WebSocketResponse] = []
        self.waiting: dict[str, Any] = {}
        self.envelopes: dict[str, str] = {}
        self.last: dict[str, Any] = {}
        self.probe_chat = PROBES

    def settings(self) -> Mapping[str, Any]:
        tokens = {"token": "slack-token", "app_token": "slack-app-token"}
        return {**tokens, "address": self.address, "probe_chat": self.probe_chat}

    def secrets(self) -> Mapping[str, str]:
        return {"slack-token": TOKEN, "slack-app-token": APP_TOKEN}

    def chat(self, where: Where = "private") -> Chat:
        return Chat("slack", CHATS[where], THREAD if where == "thread" else "")

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/socket", self._socket),
            web.get("/files/{key}", self._file),
            web.post("/upload/{key}", self._upload),
            web.route("*", "/api/{method}", self._call),
        ]

    # people

    def _stamp(self) -> str:
        return f"17000{next(self.numbers):05d}.000100"

    async def say(
        self,
        text: str,
        *,
        where: Where = "private",
        addressed: bool = False,
        reply_to: str = "",
        files: Sequence[Media] = (),
        voice: Media | None = None,
    ) -> str:
        escaped = _escape(text)
        message = self._message(f"<@{ME}> {escaped}" if addressed else escaped)
        if where == "thread":
            message |= {"thread_ts": THREAD, "parent_user_id": PERSON}
        if reply_to:
            parent = reply_to.partition("/")[2]
            ours = reply_to in self.shown
            message |= {"thread_ts": parent, "parent_user_id": ME if ours else PERSON}
        if files or voice:
            message["subtype"] = "file_share"
            message["files"] = [self._attached(file) for file in files]
        if voice is not None:
            message["files"] = [{**self._attached(voice), "subtype": "slack_audio"}]
        chat = CHATS[where]
        self.messages[chat].append(message)
        id = f"{chat}/{message['ts']}"
        await self._event({**message, "channel": chat, "channel_type": _kind(chat)}, id)
        return id

    def _message(self, text: str, user: str = PERSON) -> dict[str, Any]:
        return {"type": "message", "user": user, "text": text, "ts": self._stamp(), "team": "T0"}

    def _attached(self, file: Media) -> dict[str, Any]:
        key = f"F{next(self.numbers)}"
        self.files[key] = file
        url = f"{self.address}/files/{key}"
        facts = {"name": file.name, "mimetype": file.type, "size": len(file.data)}
        return {"id": key, "url_private": url, "url_private_download": url, **facts}

    async def change(self, id: str, text: str) -> None:
        chat, _, stamp = id.partition("/")
        old = next(one for one in self.messages[chat] if one["ts"] == stamp)
        now = {**old, "text": _escape(text), "edited": {"user": PERSON, "ts": self._stamp()}}
        facts = {"type": "message", "subtype": "message_changed", "hidden": True}
        about = {"channel": chat, "channel_type": _kind(chat), "ts": self._stamp()}
        await self._event({**facts, **about, "message": now, "previous_message": old})

    async def press(self, shown: Shown, button: str) -> None:
        chat, _, stamp = shown.id.partition("/")
        parts = [one for row in self.blocks[shown.id] for one in row.get("elements", [])]
        pressed = next(one for one in parts if one["text"]["text"] == button)
        container = {"type": "message", "message_ts": stamp, "channel_id": chat}
        action = {**pressed, "action_ts": self._stamp(), "block_id": "b"}
        about = {"user": {"id": PERSON, "name": "ada"}, "channel": {"id": chat, "name": "x"}}
        payload = {"type": "block_actions", "container": container, "actions": [action], **about}
        await self._envelope("interactive", payload)

    async def again(self) -> None:
        await self._deliver({**self.last, "envelope_id": f"E{next(self.numbers)}"})

    async def bring(self, rubbish: Any) -> None:
        if isinstance(rubbish, dict) and rubbish.get("kind") in KINDS:
            await self._envelope(rubbish["kind"], rubbish.get("payload"))
            return
        event = {"type": "message", **rubbish} if isinstance(rubbish, dict) else rubbish
        await self._envelope("events_api", {"type": "event_callback", "event": event})

    def sound(self) -> Any:
        files = [self._attached(Media("text/plain", b"x", "x"))]
        place = {"channel": CHATS["group"], "thread_ts": THREAD, "parent_user_id": ME}
        message = {**self._message(f"<@{ME}> <http://x|y> &lt;"), **place, "files": files}
        changed = {**message, "edited": {"user": PERSON, "ts": self._stamp()}}
        event = {"type": "message", "subtype": "message_changed", "channel": CHATS["group"]}
        action = {"action_ts": self._stamp(), "value": "x"}
        container = {"message_ts": self._stamp(), "thread_ts": THREAD}
        about = {"user": {"id": PERSON, "name": "ada"}, "channel": {"id": "C0", "name": "x"}}
        press = {"type": "block_actions", "container": container, "actions": [action], **about}
        return (
            {"kind": "events_api", "payload": {"event": message}},
            {"kind": "events_api", "payload": {"event": {**event, "message": changed}}},
            {"kind": "interactive", "payload": press},
        )[next(self.numbers) % 3]

    def acknowledged(self, id: str) -> bool:
        return self.envelopes[id] not in self.waiting

    def seen_typing(self) -> Sequence[Chat]:
        return ()

    # the socket

    async def _event(self, event: dict[str, Any], id: str = "") -> None:
        facts = {"type": "event_callback", "team_id": "T0", "event_id": f"Ev{next(self.numbers)}"}
        await self._envelope("events_api", {**facts, "event": event}, id)

    async def _envelope(self, kind: str, payload: Any, id: str = "") -> None:
        key = f"E{next(self.numbers)}"
        envelope = {"type": kind, "envelope_id": key, "payload": payload}
        self.waiting[key] = self.last = envelope
        if id:
            self.envelopes[id] = key
        await self._deliver({**envelope, "accepts_response_payload": False})

    async def _deliver(self, envelope: dict[str, Any]) -> None:
        if not self.trouble.deaf:
            for socket in self.sockets[-1:]:
                if not socket.closed:
                    await socket.send_json(envelope)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        hello = {"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0"}}
        await socket.send_json(hello)
        self.sockets.append(socket)
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    self.waiting.pop(json.loads(frame.data)["envelope_id"], None)
        finally:
            self.sockets.remove(socket)
        return socket

    async def refresh(self) -> None:
        """Slack ends each connection after some hours, and says so."""
        for socket in list(self.sockets):
            await socket.send_json({"type": "disconnect", "reason": "refresh_requested"})

    # the Web API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        token = APP_TOKEN if method == "apps.connections.open" else TOKEN
        try:
            if request.headers.get("Authorization") != f"Bearer {token}" or self.trouble.expired:
                raise Refusal("token_revoked" if self.trouble.expired else "invalid_auth")
            handle = getattr(self, "on_" + re.sub(r"\W", "_", method).lower(), None)
            if handle is None:
                raise Refusal("unknown_method")
            return web.json_response({"ok": True, **await handle(await _asked(request))})
        except Refusal as refusal:
            return refusal.answer

    async def on_auth_test(self, _: Any) -> Any:
        return {"user_id": ME, "bot_id": "B0HERMES", "team_id": "T0"}

    async def on_apps_connections_open(self, _: Any) -> Any:
        return {"url": f"ws://127.0.0.1:{self.port}/socket"}

    async def on_users_conversations(self, _: Any) -> Any:
        channels = [{"id": chat} for chat in self.messages]
        return {"channels": channels, "response_metadata": {"next_cursor": ""}}

    async def on_conversations_history(self, asked: Any) -> Any:
        """Without what was answered in threads, latest first."""
        found = [
            one
            for one in self.messages[asked["channel"]]
            if one.get("thread_ts") in {None, one["ts"]} and one["ts"] > asked.get("oldest", "")
        ]
        return self._page(found[::-1], asked)

    async def on_conversations_replies(self, asked: Any) -> Any:
        every = self.messages[asked["channel"]]
        first = [one for one in every if one["ts"] == asked["ts"]]
        later = [one for one in every if one.get("thread_ts") == asked["ts"]]
        found = [one for one in later if one["ts"] > asked.get("oldest", "")]
        return self._page([*first, *found], asked)

    def _page(self, found: list[Any], asked: Any) -> Any:
        begin = int(asked.get("cursor") or 0)
        end = begin + int(asked.get("limit", 100))
        more = str(end) if end < len(found) else ""
        metadata = {"next_cursor": more}
        return {"messages": found[begin:end], "response_metadata": metadata}

    def _refuse(self, chat: str) -> None:
        if chat == PROBES:
            return
        if self.trouble.limited:
            self.trouble.limited -= 1
            raise Refusal("ratelimited", 429, Retry_After=str(int(self.trouble.after)))
        if self.trouble.broken:
            self.trouble.broken -= 1
            raise Refusal("internal_error", 503)
        if self.trouble.forgets_chat or chat not in self.messages:
            raise Refusal("channel_not_found")

    async def on_chat_postmessage(self, asked: Any) -> Any:
        chat, text = asked["channel"], asked.get("text", "")
        self._refuse(chat)
        if len(text) > MAX_LENGTH:
            raise Refusal("msg_too_long")
        message = self._message(text, ME)
        thread = asked.get("thread_ts", "")
        if thread:
            message["thread_ts"] = thread
        self.messages[chat].append(message)
        self._see(chat, message["ts"], thread, text, _parsed(asked.get("blocks")))
        await self._event({**message, "channel": chat, "channel_type": _kind(chat)})
        return {"channel": chat, "ts": message["ts"], "message": message}

    def _see(self, chat: str, stamp: str, thread: str, text: str, blocks: list[Any]) -> None:
        if chat == PROBES:
            return
        id = f"{chat}/{stamp}"
        self.blocks[id] = blocks
        self.shown[id] = Shown(
            id, Chat("slack", chat, thread), _read(text), text, (), _words(blocks)
        )

    async def on_chat_update(self, asked: Any) -> Any:
        id = f"{asked['channel']}/{asked['ts']}"
        self._refuse(asked["channel"])
        if id not in self.shown:
            raise Refusal("message_not_found")
        self.blocks[id] = _parsed(asked.get("blocks"))
        self.shown[id] = replace(
            self.shown[id], text=_read(asked["text"]), raw=asked["text"], edited=True,
            buttons=_words(self.blocks[id]),
        )  # fmt: skip
        return {"ts": asked["ts"], "channel": asked["channel"]}

    async def on_chat_delete(self, asked: Any) -> Any:
        kept = [one for one in self.messages[asked["channel"]] if one["ts"] != asked["ts"]]
        self.messages[asked["channel"]] = kept
        return {}

    async def on_files_getuploadurlexternal(self, asked: Any) -> Any:
        key = f"F{next(self.numbers)}"
        self.files[key] = Media("application/octet-stream", b"", asked["filename"])
        return {"upload_url": f"{self.address}/upload/{key}", "file_id": key}

    async def on_files_completeuploadexternal(self, asked: Any) -> Any:
        chat = asked["channel_id"]
        self._refuse(chat)
        files = _parsed(asked["files"])
        media = tuple(self.files[one["id"]] for one in files)
        stamp = self._stamp()
        self._see(chat, stamp, asked.get("thread_ts", ""), asked.get("initial_comment", ""), [])
        id = f"{chat}/{stamp}"
        self.shown[id] = replace(self.shown[id], files=media)
        return {"files": [{"id": one["id"], "title": one.get("title")} for one in files]}

    async def _upload(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        body = await request.read()
        if request.content_type.startswith("multipart/"):
            raise web.HTTPBadRequest
        old = self.files[key]
        self.files[key] = Media(old.type, body, old.name)
        return web.Response(text=f"OK - {len(body)}")

    async def _file(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPForbidden
        if self.trouble.loses_files:
            raise web.HTTPBadGateway
        return web.Response(body=self.files[request.match_info["key"]].data)


async def _asked(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        found: dict[str, Any] = await request.json()
        return found
    return {**request.query, **await request.post()}


def _parsed(value: Any) -> list[Any]:
    found: list[Any] = json.loads(value) if isinstance(value, str) else value or []
    return found


def _kind(chat: str) -> str:
    return "im" if chat.startswith("D") else "channel"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _read(text: str) -> str:
    """As people see it, near enough: links by their words, the three escapes undone."""
    return unescape(re.sub(r"<([^|<>]*)\|([^<>]*)>", r"\2", text))


def _words(blocks: list[Any]) -> tuple[tuple[str, ...], ...]:
    rows = [one["elements"] for one in blocks if one["type"] == "actions"]
    return tuple(tuple(one["text"]["text"] for one in row) for row in rows)
