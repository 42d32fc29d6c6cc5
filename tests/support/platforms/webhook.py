"""A program that posts to our door and takes what is posted to it. The door is a real server, as
the runtime's is."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermes_agent.core.gateway import Button, Chat
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import WebhookReceiver
from tests.support.platforms import Shown, Switch, Where
from tests.support.platforms.loopback import Loopback

TOKEN = "a-token-of-the-webhook"
ALERT_TOKEN = "a-token-for-alerts-alone"


class WebhookPlatform(Loopback):
    name = "webhook"
    person = "deploy-bot"
    switches: frozenset[Switch] = frozenset(("deaf", "limited", "broken", "twice", "malformed"))

    def __init__(self) -> None:
        super().__init__()
        self.channel: WebhookReceiver | None = None
        self.posted: list[bytes] = []
        self.buttons: dict[str, str] = {}
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._posting: asyncio.Task[None] | None = None
        self.listen = ""

    async def start(self, _folder: Path) -> None:
        await super().start(_folder)
        route = Route("/channels/webhook/{rest:path}", self._called, methods=["POST"])
        config = uvicorn.Config(
            Starlette(routes=[route]), port=0, log_config=None, lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.005)
        (server,) = self._server.servers
        self.listen = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._posting = asyncio.create_task(self._posts())

    async def stop(self) -> None:
        if self._posting is not None:
            self._posting.cancel()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            await self._serving
        await super().stop()

    async def _called(self, request: Request) -> Response:
        if self.trouble.deaf or self.channel is None:
            return Response(status_code=502)
        return await self.channel.called(request, request.path_params["rest"])

    def settings(self) -> Mapping[str, Any]:
        secrets = {"token": "webhook-token", "alert_token": "alert-token"}
        return {**secrets, "url": f"{self.address}/out", "text": "data.body"}

    def secrets(self) -> Mapping[str, str]:
        return {"webhook-token": TOKEN, "alert-token": ALERT_TOKEN}

    def chat(self, where: Where = "private") -> Chat:
        return Chat("webhook", "release-7", "rollback" if where == "thread" else "")

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/out", self._out)]

    # the other program

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
        id = f"w{next(self.numbers)}"
        given = [*files, *([voice] if voice else [])]
        await self._post(self._message(id, text, where, reply_to, given))
        return f"{self.person}/{id}"

    def _message(
        self, id: str, text: str, where: Where, reply_to: str = "", files: Sequence[Media] = ()
    ) -> dict[str, Any]:
        place = self.chat(where)
        return {
            "id": id, "sender": self.person, "name": "Deploy Bot", "chat": place.chat,
            "thread": place.thread, "data": {"body": text}, "reply_to": reply_to,
            "files": [
                {"name": one.name, "type": one.type, "data": base64.b64encode(one.data).decode()}
                for one in files
            ],
        }  # fmt: skip

    async def _post(self, body: Any) -> None:
        """One after the other, each until somebody has it; whoever says something need not wait
        for that."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.posted.append(data)
        self._waiting.put_nowait(data)

    async def _posts(self) -> None:
        url = f"http://{self.listen}/channels/webhook/in"
        async with httpx.AsyncClient(timeout=None) as client:
            while True:
                data = await self._waiting.get()
                signature = hmac.new(TOKEN.encode(), data, hashlib.sha256).hexdigest()
                headers = {"X-Hub-Signature-256": f"sha256={signature}"}
                while (await client.post(url, content=data, headers=headers)).status_code >= 500:
                    await asyncio.sleep(0.05)

    async def change(self, id: str, text: str) -> None:
        raise AssertionError(f"nobody can change {id} into {text!r}")

    async def press(self, shown: Shown, button: str) -> None:
        id = f"w{next(self.numbers)}"
        message = self._message(id, "", "private", shown.id)
        await self._post({**message, "press": self.buttons[button]})

    def acknowledged(self, _id: str) -> None:
        return None

    async def again(self) -> None:
        await self._post(self.posted[-1])

    async def bring(self, rubbish: Any) -> None:
        await self._post(rubbish)

    def sound(self) -> Any:
        return self._message("w0", "a b c", "thread", "w1", [Media("image/png", b"x", "a.png")])

    def seen_typing(self) -> Sequence[Chat]:
        return ()

    # what is posted to it

    async def _out(self, request: web.Request) -> web.Response:
        trouble, data = self.trouble, await request.read()
        signature = hmac.new(TOKEN.encode(), data, hashlib.sha256).hexdigest()
        assert request.headers["X-Hub-Signature-256"] == f"sha256={signature}"
        if trouble.expired:
            return web.Response(status=401)
        if trouble.limited:
            trouble.limited -= 1
            return web.Response(status=429, headers={"Retry-After": f"{trouble.after:g}"})
        if trouble.broken:
            trouble.broken -= 1
            return web.Response(status=500)
        posted = json.loads(data)
        key = request.headers["Idempotency-Key"]
        assert posted["key"] == key
        known = {shown.raw: shown for shown in self.shown.values()}
        if key in known:
            return web.json_response({"id": known[key].id})
        id = f"a{next(self.numbers)}"
        rows = [[Button(**one) for one in row] for row in posted["buttons"]]
        self.buttons |= {one.text: one.data for row in rows for one in row}
        self.shown[id] = Shown(
            id, Chat("webhook", posted["chat"], posted["thread"]), posted["text"], key,
            tuple(
                Media(one["type"], base64.b64decode(one["data"]), one["name"])
                for one in posted["files"]
            ),
            tuple(tuple(one.text for one in row) for row in rows), posted["reply_to"],
        )  # fmt: skip
        return web.json_response({"id": id})
