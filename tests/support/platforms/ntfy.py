"""An ntfy server, as https://docs.ntfy.sh/publish/ and https://docs.ntfy.sh/subscribe/api/ describe
it: messages are published as JSON or as the body of a request, and come as lines of JSON, those
since an id among them; files are kept and fetched from `/file/`."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiohttp import web

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from tests.support.platforms import Shown, Switch, Where
from tests.support.platforms.loopback import Loopback

TOKEN = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"
TOPIC = "ops-8f3b1c"
MAX_LENGTH = 4096


class NtfyPlatform(Loopback):
    name = "ntfy"
    person = TOPIC
    switches: frozenset[Switch] = frozenset(
        ("deaf", "cut", "limited", "broken", "twice", "malformed", "expired", "loses-files")
    )

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, Any]] = []
        """Topics and what was published there, in order."""
        self.files: dict[str, Media] = {}

    def settings(self) -> Mapping[str, Any]:
        secrets = {"token": "ntfy-token", "press_token": "ntfy-token", "proof_seconds": 1}
        return {"topic": TOPIC, "address": self.address, **secrets}

    def secrets(self) -> Mapping[str, str]:
        return {"ntfy-token": TOKEN}

    def chat(self, _where: Where = "private") -> Chat:
        return Chat("ntfy", TOPIC)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/", self._publish),
            web.get("/file/{id}", self._file),
            web.get("/{topics}/json", self._subscribe),
            web.post("/{topic}", self._put),
            web.put("/{topic}", self._put),
        ]

    # people

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
        event = self._event(TOPIC, text)
        for file in (*files, *([voice] if voice else [])):
            event |= self._attached(file, text)
        await self._bring(TOPIC, event)
        return str(event["id"])

    async def change(self, id: str, text: str) -> None:
        raise AssertionError(f"nobody can change {id} into {text!r}")

    async def press(self, shown: Shown, button: str) -> None:
        """As the app does it: the request that the action describes."""
        (sent,) = [one for _, one in self.lines if isinstance(one, dict) and one["id"] == shown.id]
        (action,) = [one for one in sent["actions"] if one["label"] == button]
        assert action["headers"]["Authorization"] == f"Bearer {TOKEN}"
        tags = action["headers"]["Tags"].split(",")
        await self._bring(TOPIC, self._event(TOPIC, action["body"], tags=tags))

    def acknowledged(self, _id: str) -> None:
        return None

    def sound(self) -> Any:
        file = {"name": "a.png", "type": "image/png", "size": 3, "url": f"{self.address}/file/x"}
        return self._event(TOPIC, "a b c", title="t", tags=["x"], attachment=file)

    async def again(self) -> None:
        await self._bring(*self.lines[-1])

    async def bring(self, rubbish: Any) -> None:
        await self._bring(TOPIC, rubbish)

    def seen_typing(self) -> Sequence[Chat]:
        return ()

    # the server

    def _event(self, topic: str, text: str, **more: Any) -> dict[str, Any]:
        id = f"m{next(self.numbers):09}"
        facts = {"id": id, "time": int(time.time()), "event": "message", "topic": topic}
        return {**facts, "expires": int(time.time()) + 43_200, "message": text, **more}

    def _attached(self, file: Media, text: str) -> dict[str, Any]:
        id = f"f{next(self.numbers):09}"
        self.files[id] = file
        url = f"{self.address}/file/{id}"
        found = {"name": file.name, "type": file.type, "size": len(file.data), "url": url}
        return {"attachment": found, "message": text or f"You received a file: {file.name}"}

    async def _bring(self, topic: str, event: Any) -> None:
        self.lines.append((topic, event))
        await self._wake()

    def _refusal(self, request: web.Request) -> web.Response | None:
        trouble = self.trouble
        known = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        if trouble.expired or not known:
            return _said(401, 40101, "unauthorized")
        if trouble.limited:
            trouble.limited -= 1
            headers = {"Retry-After": f"{trouble.after:g}"}
            return _said(429, 42901, "limit reached: too many requests", headers)
        if trouble.broken:
            trouble.broken -= 1
            return _said(500, 50001, "internal server error")
        return None

    async def _publish(self, request: web.Request) -> web.Response:
        if (refused := self._refusal(request)) is not None:
            return refused
        body = json.loads(await request.text())
        if len(body["message"].encode()) > MAX_LENGTH:
            return _said(400, 40041, "message too long for this double")
        assert len(body.get("actions", ())) <= 3
        kept = {name: body[name] for name in ("tags", "actions", "priority") if body.get(name)}
        return await self._published(self._event(body["topic"], body["message"], **kept))

    async def _put(self, request: web.Request) -> web.Response:
        if (refused := self._refusal(request)) is not None:
            return refused
        topic, data = request.match_info["topic"], await request.read()
        tags = request.headers.get("Tags", "").split(",")
        name = request.headers.get("Filename", "")
        if not name:
            return await self._published(self._event(topic, data.decode(), tags=tags))
        kind = "image/png" if data.startswith(b"\x89PNG") else "application/octet-stream"
        attached = self._attached(Media(kind, data, name), "")
        return await self._published(self._event(topic, "", tags=tags) | attached)

    async def _published(self, event: dict[str, Any]) -> web.Response:
        topic = event["topic"]
        if topic == TOPIC:
            found = event.get("attachment")
            file = self.files[found["url"].rpartition("/")[2]] if found else None
            labels = tuple(one["label"] for one in event.get("actions", ()))
            text = "" if file else event["message"]
            self.shown[event["id"]] = Shown(
                event["id"], self.chat(), text, text, (file,) if file else (),
                (labels,) if labels else (),
            )  # fmt: skip
        await self._bring(topic, event)
        return web.json_response(event)

    async def _file(self, request: web.Request) -> web.Response:
        if self.trouble.loses_files:
            return _said(404, 40401, "page not found")
        file = self.files.get(request.match_info["id"])
        if file is None:
            return _said(404, 40401, "page not found")
        return web.Response(body=file.data, content_type=file.type)

    async def _subscribe(self, request: web.Request) -> web.StreamResponse:
        if self.trouble.expired or request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _said(401, 40101, "unauthorized")
        topics = request.match_info["topics"].split(",")
        stream = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await stream.prepare(request)
        await stream.write(_line({"id": "open", "time": 1, "event": "open", "topic": topics[0]}))
        at = self._since(request.query.get("since", ""))
        with suppress(ConnectionError, asyncio.CancelledError):
            while True:
                while at < len(self.lines) and not self.trouble.deaf:
                    topic, event = self.lines[at]
                    at += 1
                    if topic in topics:
                        await stream.write(_line(event))
                async with self.news:
                    await self.news.wait()
        return stream

    def _since(self, mark: str) -> int:
        """An id, or a time: nothing here is older than the test."""
        ids = [one.get("id") if isinstance(one, dict) else "" for _, one in self.lines]
        if mark in ids:
            return len(ids) - ids[::-1].index(mark)
        return 0 if mark else len(self.lines)


def _line(event: Any) -> bytes:
    text = event if isinstance(event, str) else json.dumps(event)
    return text.replace("\n", " ").encode("utf-8", "surrogatepass") + b"\n"


def _said(
    status: int, code: int, error: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    body = {"code": code, "http": status, "error": error}
    return web.json_response(body, status=status, headers=headers)
