"""Discord's HTTP API and gateway, as https://discord.com/developers/docs describes them: hello,
identify, heartbeats with acknowledgements, READY, resuming, servers as GUILD_CREATE, a stream
compressed by zlib, messages by JSON or as a form with files, nonces that are enforced, components
and interactions, threads as channels of their own, history by `after`, and 429 with
`retry_after`."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from aiohttp import WSMsgType, web

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from tests.support.platforms import Shown, Switch, Where
from tests.support.platforms.loopback import Loopback

TOKEN = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.a-secret-of-discord"
FIRST = 1_100_000_000_000_000_000
ME = {"id": "900000000000000001", "username": "hermes", "bot": True, "discriminator": "0"}
PERSON = {"id": "900000000000000002", "username": "ada", "global_name": "Ada"}
SERVER = "900000000000000010"
PLACES: dict[Where, dict[str, Any]] = {
    "private": {"id": "900000000000000011", "type": 1},
    "group": {"id": "900000000000000012", "type": 0, "guild_id": SERVER},
    "thread": {
        "id": "900000000000000013", "type": 11, "guild_id": SERVER,
        "parent_id": "900000000000000012",
    },
}  # fmt: skip
PROBES = {"id": "900000000000000014", "type": 0, "guild_id": SERVER}
MAX_LENGTH = 2000
KINDS = ("MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "GUILD_CREATE")


class DiscordPlatform(Loopback):
    name = "discord"
    person = PERSON["id"]
    switches: frozenset[Switch] = frozenset(get_args(Switch)) - {"refuses-markup"}

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.nonces: dict[str, str] = {}
        self.answered: list[str] = []
        self.typed: list[Chat] = []
        self.last: dict[str, str] = {}
        self.sockets: list[tuple[web.WebSocketResponse, Any]] = []
        self.sequence = 0
        self.sent_events: list[tuple[int, str, Any]] = []
        self.probe_chat = PROBES["id"]

    def settings(self) -> Mapping[str, Any]:
        address = f"{self.address}/api/v10"
        return {"token": "discord-token", "address": address, "probe_chat": self.probe_chat}

    def secrets(self) -> Mapping[str, str]:
        return {"discord-token": TOKEN}

    def chat(self, where: Where = "private") -> Chat:
        place = PLACES[where]
        if where == "thread":
            return Chat("discord", place["parent_id"], place["id"])
        return Chat("discord", place["id"])

    def routes(self) -> list[web.RouteDef]:
        api = "/api/v10"
        place = f"{api}/channels/{{place}}"
        return [
            web.get("/gateway/", self._gateway),
            web.get("/files/{key}", self._file),
            web.get(f"{api}/users/@me", self._guarded(self._me)),
            web.get(f"{api}/gateway/bot", self._guarded(self._where)),
            web.get(place, self._guarded(self._place)),
            web.get(f"{place}/messages", self._guarded(self._history)),
            web.post(f"{place}/messages", self._guarded(self._post)),
            web.patch(f"{place}/messages/{{id}}", self._guarded(self._patch)),
            web.delete(f"{place}/messages/{{id}}", self._guarded(self._delete)),
            web.post(f"{place}/typing", self._guarded(self._typing)),
            web.post(f"{api}/interactions/{{id}}/{{token}}/callback", self._callback),
        ]

    # people

    def _id(self) -> str:
        return str(FIRST + (next(self.numbers) << 22))

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
        message = self._message(PLACES[where], PERSON, text)
        if addressed:
            message["content"] = f"<@{ME['id']}> {text}"
            message["mentions"] = [ME]
        if reply_to:
            message["type"] = 19
            message["referenced_message"] = self.messages[reply_to]
        message["attachments"] = [self._attached(file) for file in files]
        if voice is not None:
            message["flags"] = 1 << 13
            message["attachments"] = [{**self._attached(voice), "duration_secs": 3.0}]
        await self._show(message)
        return str(message["id"])

    def _message(self, place: dict[str, Any], author: Any, text: str) -> dict[str, Any]:
        facts = {"mentions": [], "attachments": [], "type": 0, "flags": 0, "pinned": False}
        times = {"timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None}
        return {
            "id": self._id(), "channel_id": place["id"], "author": author, "content": text,
            **facts, **times,
        }  # fmt: skip

    def _attached(self, file: Media) -> dict[str, Any]:
        key = self._id()
        self.files[key] = file.data
        facts = {"filename": file.name, "content_type": file.type, "size": len(file.data)}
        return {"id": key, "url": f"{self.address}/files/{key}", **facts}

    async def _show(self, message: dict[str, Any]) -> None:
        self.messages[message["id"]] = message
        self.last[message["channel_id"]] = message["id"]
        await self._event("MESSAGE_CREATE", self._from_gateway(message))

    def _from_gateway(self, message: dict[str, Any]) -> dict[str, Any]:
        """Only the gateway says which server it is."""
        place = self._known(message["channel_id"])
        return {**message, **({"guild_id": SERVER} if "guild_id" in place else {})}

    def _known(self, id: str) -> dict[str, Any]:
        return next((one for one in (*PLACES.values(), PROBES) if one["id"] == id), {})

    async def change(self, id: str, text: str) -> None:
        changed = {**self.messages[id], "content": text, "edited_timestamp": "2026-01-01T00:01"}
        self.messages[id] = changed
        await self._event("MESSAGE_UPDATE", self._from_gateway(changed))

    async def press(self, shown: Shown, button: str) -> None:
        message = self.messages[shown.id]
        parts = [one for row in message["components"] for one in row["components"]]
        data = next(one["custom_id"] for one in parts if one["label"] == button)
        about = {"message": message, "channel_id": message["channel_id"], "user": PERSON}
        pressed = {"id": self._id(), "token": "t", "type": 3, "data": {"custom_id": data}}
        await self._event("INTERACTION_CREATE", {**pressed, **about})

    async def again(self) -> None:
        _, name, data = self.sent_events[-1]
        await self._event(name, data)

    async def bring(self, rubbish: Any) -> None:
        known = isinstance(rubbish, dict) and rubbish.get("t") in KINDS
        await self._event(
            *((rubbish["t"], rubbish.get("d")) if known else ("MESSAGE_CREATE", rubbish))
        )

    def sound(self) -> Any:
        message = self._message(PLACES["group"], PERSON, f"<@{ME['id']}> hello")
        message["attachments"] = [self._attached(Media("text/plain", b"x", "x"))]
        message["edited_timestamp"] = "2026-01-01T00:01"
        answered = self._message(PLACES["group"], ME, "hello")
        message |= {"mentions": [ME], "referenced_message": answered, "guild_id": SERVER}
        pressed = {"id": self._id(), "token": "t", "type": 3, "data": {"custom_id": "x"}}
        about = {
            "message": message,
            "channel_id": PLACES["group"]["id"],
            "member": {"user": PERSON},
        }
        server = {"id": SERVER, "channels": [PLACES["group"]], "threads": [PLACES["thread"]]}
        data = (message, message, {**pressed, **about}, server)
        which = next(self.numbers) % len(KINDS)
        return {"t": KINDS[which], "d": data[which]}

    def acknowledged(self, id: str) -> None:
        """Discord is never told; it is asked for what came after the last that was kept."""

    def seen_typing(self) -> Sequence[Chat]:
        return self.typed

    # the gateway

    async def _event(self, name: str, data: Any) -> None:
        self.sequence += 1
        self.sent_events.append((self.sequence, name, data))
        if not self.trouble.deaf:
            for socket, packed in list(self.sockets):
                await self._say(socket, packed, 0, data, name, self.sequence)

    async def _say(
        self,
        socket: web.WebSocketResponse,
        packed: Any,
        op: int,
        data: Any,
        name: str | None = None,
        sequence: int | None = None,
    ) -> None:
        text = json.dumps({"op": op, "d": data, "t": name, "s": sequence})
        if socket.closed:
            return
        if packed is None:
            await socket.send_str(text)
        else:
            raw = packed.compress(text.encode()) + packed.flush(zlib.Z_SYNC_FLUSH)
            await socket.send_bytes(raw)

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        zipped = request.query.get("compress") == "zlib-stream"
        packed = zlib.compressobj() if zipped else None
        await self._say(socket, packed, 10, {"heartbeat_interval": 30_000})
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    await self._told(socket, packed, json.loads(frame.data))
        finally:
            self.sockets = [one for one in self.sockets if one[0] is not socket]
        return socket

    async def _told(self, socket: web.WebSocketResponse, packed: Any, told: Any) -> None:
        if told["op"] == 1:
            await self._say(socket, packed, 11, None)
        elif told["op"] in {2, 6}:
            if told["d"]["token"] != TOKEN or self.trouble.expired:
                await socket.close(code=4004, message=b"Authentication failed.")
                return
            await (self._ready if told["op"] == 2 else self._resumed)(socket, packed, told["d"])

    async def _ready(self, socket: web.WebSocketResponse, packed: Any, _told: Any) -> None:
        resume = {"session_id": "s1", "resume_gateway_url": f"ws://127.0.0.1:{self.port}/gateway/"}
        servers = [{"id": SERVER, "unavailable": True}]
        ready = {"v": 10, "user": ME, "guilds": servers, **resume, "application": {"id": "1"}}
        self.sequence += 1
        await self._say(socket, packed, 0, ready, "READY", self.sequence)
        channels = [
            {**one, "last_message_id": self.last.get(one["id"])}
            for one in (*PLACES.values(), PROBES)
            if "guild_id" in one
        ]
        server = {"id": SERVER, "name": "Operators", "unavailable": False}
        server["channels"] = [one for one in channels if one["type"] == 0]
        server["threads"] = [one for one in channels if one["type"] == 11]
        self.sequence += 1
        await self._say(socket, packed, 0, server, "GUILD_CREATE", self.sequence)
        self.sockets.append((socket, packed))

    async def _resumed(self, socket: web.WebSocketResponse, packed: Any, told: Any) -> None:
        for sequence, name, data in list(self.sent_events):
            if sequence > told["seq"] and not self.trouble.deaf:
                await self._say(socket, packed, 0, data, name, sequence)
        self.sockets.append((socket, packed))
        self.sequence += 1
        await self._say(socket, packed, 0, {}, "RESUMED", self.sequence)

    # the HTTP API

    def _guarded(self, handle: Any) -> Any:
        async def guarded(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Authorization") != f"Bot {TOKEN}" or self.trouble.expired:
                return _json({"message": "401: Unauthorized", "code": 0}, 401)
            answer: web.StreamResponse = await handle(request)
            return answer

        return guarded

    async def _me(self, _request: web.Request) -> web.Response:
        return _json(ME)

    async def _where(self, _request: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
        url = f"ws://127.0.0.1:{self.port}/gateway/"
        return _json({"url": url, "shards": 1, "session_start_limit": limit})

    async def _file(self, request: web.Request) -> web.Response:
        if self.trouble.loses_files:
            raise web.HTTPBadGateway
        return web.Response(body=self.files[request.match_info["key"]])

    async def _place(self, request: web.Request) -> web.Response:
        id = request.match_info["place"]
        known = self._known(id)
        if not known:
            return _json({"message": "Unknown Channel", "code": 10003}, 404)
        return _json({**known, "last_message_id": self.last.get(id)})

    async def _history(self, request: web.Request) -> web.Response:
        id, after = request.match_info["place"], int(request.query.get("after", "0"))
        found = [one for one in self.messages.values() if one["channel_id"] == id]
        later = [one for one in found if int(one["id"]) > after]
        oldest = sorted(later, key=lambda one: int(one["id"]))[: int(request.query["limit"])]
        return _json(oldest[::-1])

    def _refusal(self) -> web.Response | None:
        if self.trouble.limited:
            self.trouble.limited -= 1
            after = self.trouble.after
            body = {"message": "You are being rate limited.", "retry_after": after, "global": False}
            return _json(body, 429, {"Retry-After": str(after), "Via": "1.1 google"})
        if self.trouble.broken:
            self.trouble.broken -= 1
            return _json({"message": "overloaded"}, 503)
        if self.trouble.forgets_chat:
            return _json({"message": "Cannot send messages to this user", "code": 50007}, 403)
        return None

    async def _post(self, request: web.Request) -> web.Response:
        body, files = await _asked(request)
        place = self._known(request.match_info["place"])
        if place is not PROBES and (refusal := self._refusal()) is not None:
            return refusal
        if len(body.get("content", "")) > MAX_LENGTH:
            return _json({"message": "Invalid Form Body", "code": 50035}, 400)
        if body.get("enforce_nonce") and body["nonce"] in self.nonces:
            return _json(self.messages[self.nonces[body["nonce"]]])
        message = self._message(place, ME, body.get("content", ""))
        message["components"] = body.get("components", [])
        message["attachments"] = [self._attached(file) for file in files]
        answered = body.get("message_reference", {}).get("message_id", "")
        if body.get("nonce"):
            self.nonces[body["nonce"]] = message["id"]
        where = next((one for one in get_args(Where) if PLACES[one] is place), None)
        if where is not None:
            self.shown[message["id"]] = Shown(
                message["id"], self.chat(where), _read(message["content"]), message["content"],
                tuple(files), _labels(message),
                answered if answered in self.messages else "",
            )  # fmt: skip
        await self._show(message)
        return _json(message)

    async def _patch(self, request: web.Request) -> web.Response:
        body, _ = await _asked(request)
        id = request.match_info["id"]
        if (refusal := self._refusal()) is not None:
            return refusal
        if id not in self.shown:
            return _json({"message": "Unknown Message", "code": 10008}, 404)
        self.messages[id] |= {"content": body["content"], "components": body["components"]}
        self.shown[id] = replace(
            self.shown[id], text=_read(body["content"]), raw=body["content"], edited=True,
            buttons=_labels(self.messages[id]),
        )  # fmt: skip
        return _json(self.messages[id])

    async def _delete(self, request: web.Request) -> web.Response:
        self.messages.pop(request.match_info["id"], None)
        return web.Response(status=204)

    async def _typing(self, request: web.Request) -> web.Response:
        id = request.match_info["place"]
        where = next(one for one in get_args(Where) if PLACES[one]["id"] == id)
        self.typed.append(self.chat(where))
        return web.Response(status=204)

    async def _callback(self, request: web.Request) -> web.Response:
        self.answered.append(request.match_info["id"])
        return web.Response(status=204)


def _json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Discord says no charset, and discord.py looks for exactly that."""
    raw = json.dumps(body).encode()
    kind = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=raw, status=status, headers=kind)


async def _asked(request: web.Request) -> tuple[dict[str, Any], list[Media]]:
    if request.content_type == "application/json":
        return await request.json(), []
    form = await request.post()
    files = [
        Media(one.content_type, one.file.read(), one.filename)
        for one in form.values()
        if isinstance(one, web.FileField)
    ]
    return json.loads(str(form["payload_json"])), files


def _read(content: str) -> str:
    """As people see it, near enough: Discord renders Markdown itself."""
    return content


def _labels(message: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = message.get("components", [])
    return tuple(tuple(one["label"] for one in row["components"]) for row in rows)
