"""A real homeserver (Synapse), with a proxy before it that makes trouble: it holds back what the
server would bring, answers in its place, or puts rubbish among the events."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
import httpx
from aiohttp import web
from yarl import URL

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from tests.support.patience import PATIENCE
from tests.support.platforms import Shown, Switch, Where
from tests.support.platforms.loopback import Loopback
from tests.support.synapse import SERVER, synapse

CLIENT = "/_matrix/client/v3"
FORWARDED = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https"}
POLL_MS = "300"
"""How long the server holds a request for news: a test need not wait for what does not come."""


class MatrixPlatform(Loopback):
    name = "matrix"
    switches: frozenset[Switch] = frozenset(
        ("deaf", "cut", "limited", "broken", "twice", "malformed", "expired", "loses-files")
    )

    def __init__(self) -> None:
        super().__init__()
        self._word = secrets.token_hex(4)
        self.person = f"@ada{self._word}:{SERVER}"
        self.me = f"@hermes{self._word}:{SERVER}"
        self._tokens: dict[str, str] = {}
        self._places: dict[Where, Chat] = {}
        self._brought: list[Any] = []
        self._last: tuple[str, Any] = ("", None)
        self._typed: list[Chat] = []
        self._uploaded: dict[str, Media] = {}
        self._socket = ""
        self._proxy: aiohttp.ClientSession | None = None
        self._person: httpx.AsyncClient | None = None

    async def start(self, folder: Path) -> None:
        first = self._person is None
        if first:
            socket = str(await asyncio.to_thread(synapse))
            way = httpx.AsyncHTTPTransport(uds=socket)
            self._person = httpx.AsyncClient(
                transport=way, base_url="http://matrix", headers=FORWARDED, timeout=PATIENCE
            )
            self._socket = socket
        self._proxy = aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._socket))
        await super().start(folder)
        if first:
            for user in (self.me, self.person):
                await self._register(user)
            self._places["private"] = Chat("matrix", await self._room(self.me))
            await self._prepare()

    async def stop(self) -> None:
        await self._end()
        if self._person is not None:
            await self._person.aclose()

    async def cut(self) -> None:
        await self._end()
        await self.start(Path())

    async def _end(self) -> None:
        await super().stop()
        if self._proxy is not None:
            await self._proxy.close()
            self._proxy = None

    async def _register(self, user: str) -> None:
        body = {
            "username": user[1:].partition(":")[0], "password": "a-pass-word",
            "auth": {"type": "m.login.dummy"},
        }  # fmt: skip
        self._tokens[user] = (await self._ask(None, "POST", "/register", body))["access_token"]

    async def _room(self, *invited: str) -> str:
        body = {"preset": "trusted_private_chat", "invite": invited}
        made = (await self._ask(self.person, "POST", "/createRoom", body))["room_id"]
        for user in invited:
            await self._ask(user, "POST", f"/rooms/{made}/join", {})
        return str(made)

    async def _ask(
        self, user: str | None, method: str, path: str, body: Any = None, **options: Any
    ) -> dict[str, Any]:
        assert self._person is not None
        headers = {"Authorization": f"Bearer {self._tokens[user]}"} if user else {}
        if body is not None:
            options["json"] = body
        answer = await self._person.request(method, CLIENT + path, headers=headers, **options)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def settings(self) -> Mapping[str, Any]:
        facts = {"allow": [self.person], "proof_seconds": 3}
        return {"address": self.address, "token": "matrix-token", **facts}

    def secrets(self) -> Mapping[str, str]:
        return {"matrix-token": self._tokens[self.me]}

    def chat(self, where: Where = "private") -> Chat:
        return self._places[where]

    # people

    async def _prepare(self) -> None:
        other = f"@bob{self._word}:{SERVER}"
        await self._register(other)
        self._places["group"] = Chat("matrix", await self._room(self.me, other))
        room = self._places["private"].chat
        root = await self._put(room, {"msgtype": "m.notice", "body": "a topic"})
        self._places["thread"] = Chat("matrix", room, root)

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
        place = self._places[where]
        content: dict[str, Any] = {"msgtype": "m.text", "body": text}
        for file in (*files, *([voice] if voice else [])):
            content = await self._attached(file, text)
        if addressed:
            content["body"] = f"{self.me}: {content['body']}"
            content["m.mentions"] = {"user_ids": [self.me]}
        if place.thread:
            relates = {"rel_type": "m.thread", "event_id": place.thread, "is_falling_back": True}
            relates["m.in_reply_to"] = {"event_id": place.thread}
            content["m.relates_to"] = relates
        if reply_to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
        return await self._put(place.chat, content)

    async def _put(self, room: str, content: dict[str, Any]) -> str:
        path = f"/rooms/{room}/send/m.room.message/{secrets.token_hex(8)}"
        return str((await self._ask(self.person, "PUT", path, content))["event_id"])

    async def _attached(self, file: Media, text: str) -> dict[str, Any]:
        assert self._person is not None
        headers = {"Authorization": f"Bearer {self._tokens[self.person]}"}
        kept = await self._person.post(
            "/_matrix/media/v3/upload", content=file.data,
            headers={**headers, "Content-Type": file.type},
        )  # fmt: skip
        kinds = {"image": "m.image", "audio": "m.audio"}
        return {
            "msgtype": kinds.get(file.type.partition("/")[0], "m.file"), "body": text or file.name,
            "filename": file.name, "url": kept.json()["content_uri"],
            "info": {"mimetype": file.type, "size": len(file.data)},
        }  # fmt: skip

    async def change(self, id: str, text: str) -> None:
        new = {"msgtype": "m.text", "body": text}
        relates = {"rel_type": "m.replace", "event_id": id}
        content = {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": relates}
        await self._put(self._places["private"].chat, content)

    async def press(self, shown: Shown, button: str) -> None:
        raise AssertionError(f"there is no button {button!r} on {shown.id}")

    def acknowledged(self, _id: str) -> None:
        return None

    async def again(self) -> None:
        room, event = self._last
        assert event is not None
        self._brought.append((room, event))

    async def bring(self, rubbish: Any) -> None:
        self._brought.append((self._places["private"].chat, rubbish))

    def sound(self) -> Any:
        relates = {"rel_type": "m.thread", "event_id": "$x", "m.in_reply_to": {"event_id": "$y"}}
        content = {"msgtype": "m.text", "body": "a b c", "m.relates_to": relates, "info": {},
                   "m.mentions": {"user_ids": [self.me]}, "url": "mxc://a/b"}  # fmt: skip
        return {"type": "m.room.message", "event_id": "$z", "sender": self.person,
                "origin_server_ts": 1, "content": content}  # fmt: skip

    def seen_typing(self) -> Sequence[Chat]:
        return self._typed

    # the proxy

    def routes(self) -> list[web.RouteDef]:
        return [web.route("*", "/{path:.*}", self._pass)]

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        assert self._proxy is not None
        query = dict(request.query)
        if request.path.endswith("/sync"):
            query["timeout"] = POLL_MS
            while self.trouble.deaf:
                await asyncio.sleep(0.02)
        body = await request.read()
        headers = {**FORWARDED, "Authorization": request.headers.get("Authorization", "")}
        if kind := request.headers.get("Content-Type"):
            headers["Content-Type"] = kind
        # As it came: a room's name has signs that must not be read twice.
        url = f"http://matrix{request.raw_path.partition('?')[0]}"
        async with self._proxy.request(
            request.method, URL(url, encoded=True).update_query(query), data=body,
            headers=headers,
        ) as answer:  # fmt: skip
            data = await answer.read()
        if request.path.endswith("/sync") and answer.status == 200:
            data = self._with_rubbish(data)
        elif answer.status == 200:
            self._note(request, body, data)
        return web.Response(
            body=data, status=answer.status, content_type=answer.content_type or "application/json"
        )

    def _refusal(self, request: web.Request) -> web.Response | None:
        trouble, sends = self.trouble, "/send/m.room.message/" in request.path
        if trouble.expired:
            return _said(401, "M_UNKNOWN_TOKEN", soft_logout=False)
        if trouble.loses_files and "/media/download/" in request.path:
            return _said(404, "M_NOT_FOUND")
        if sends and trouble.limited:
            trouble.limited -= 1
            return _said(429, "M_LIMIT_EXCEEDED", retry_after_ms=int(trouble.after * 1000))
        if sends and trouble.broken:
            trouble.broken -= 1
            return _said(500, "M_UNKNOWN")
        return None

    def _with_rubbish(self, data: bytes) -> bytes:
        news = json.loads(data)
        joined = news.setdefault("rooms", {}).setdefault("join", {})
        for room, what in joined.items():
            for event in what["timeline"]["events"]:
                if event["type"] == "m.room.message" and event["sender"] == self.person:
                    self._last = (room, event)
        for room, event in self._brought:
            timeline = joined.setdefault(room, {}).setdefault("timeline", {"events": []})
            timeline["events"].append(event)
        self._brought.clear()
        return json.dumps(news).encode()

    def _note(self, request: web.Request, body: bytes, data: bytes) -> None:
        """What the agent has done."""
        parts = request.path.split("/")
        if request.path.endswith("/media/v3/upload"):
            kept = Media(request.content_type, body, request.query["filename"])
            self._uploaded[json.loads(data)["content_uri"]] = kept
        if "/typing/" in request.path:
            self._typed.append(Chat("matrix", parts[parts.index("rooms") + 1]))
        if "/send/m.room.message/" not in request.path:
            return
        room, id = parts[parts.index("rooms") + 1], json.loads(data)["event_id"]
        content = json.loads(body)
        relates = content.get("m.relates_to", {})
        edited = relates["event_id"] if relates.get("rel_type") == "m.replace" else ""
        said = content["m.new_content"] if edited else content
        if edited and edited not in self.shown:
            return
        thread = relates.get("event_id", "") if relates.get("rel_type") == "m.thread" else ""
        answers = relates.get("m.in_reply_to", {}).get("event_id", "")
        file = self._uploaded.get(content.get("url", ""))
        text = _read(said["formatted_body"]) if "formatted_body" in said else ""
        place = Chat("matrix", room, thread)
        self.shown[edited or id] = Shown(
            edited or id, place, text, said.get("body", ""), (file,) if file else (), (),
            "" if relates.get("is_falling_back") else answers, bool(edited),
        )  # fmt: skip


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _read(html: str) -> str:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return "".join(reader.words)


def _said(status: int, code: str, **more: Any) -> web.Response:
    return web.json_response({"errcode": code, "error": "as told", **more}, status=status)
