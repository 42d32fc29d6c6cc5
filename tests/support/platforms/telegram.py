"""Telegram's Bot API, as https://core.telegram.org/bots/api describes it: updates that stay until a
higher offset confirms them, long polls, HTML that is checked, multipart uploads, callback queries,
topics, and `ok: false` with `error_code`, `description` and `parameters`."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any, get_args

from aiohttp import web

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from tests.support.platforms import Shown, Switch, Where
from tests.support.platforms.loopback import Loopback

TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
ME = {"id": 110201543, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
PERSON = {"id": 4711, "is_bot": False, "first_name": "Ada", "last_name": "Lovelace"}
TOPIC = 77
CHATS: dict[Where, dict[str, Any]] = {
    "private": {"id": 4711, "type": "private", "first_name": "Ada"},
    "group": {"id": -100200, "type": "supergroup", "title": "Operators"},
    "thread": {"id": -100300, "type": "supergroup", "title": "Topics", "is_forum": True},
}
TAGS = {"b", "i", "u", "s", "a", "code", "pre", "blockquote", "tg-spoiler"}
MAX_LENGTH = 4096


class _Markup(HTMLParser):
    """What people read of HTML; Telegram refuses what it does not know."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS or (tag == "blockquote" and tag in self.open):
            raise ValueError(f"can't parse entities: unsupported start tag {tag!r}")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError("can't parse entities: unmatched end tag")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @classmethod
    def read(cls, text: str) -> str:
        markup = cls()
        markup.feed(text)
        markup.close()
        if markup.open:
            raise ValueError("can't parse entities: can't find end tag")
        return "".join(markup.words)


class Refusal(Exception):
    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.answer = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.answer["parameters"] = parameters
        self.code = code


class TelegramPlatform(Loopback):
    name = "telegram"
    person = str(PERSON["id"])
    switches: frozenset[Switch] = frozenset(get_args(Switch))

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[Any] = []
        self.confirmed = 0
        self.files: dict[str, bytes] = {}
        self.answered: list[str] = []
        self.typed: list[Chat] = []
        self.said: dict[str, Any] = {}
        self.updated: dict[str, int] = {}
        self.keyboards: dict[str, str] = {}

    def settings(self) -> Mapping[str, Any]:
        return {"token": "telegram-token", "address": self.address}

    def secrets(self) -> Mapping[str, str]:
        return {"telegram-token": TOKEN}

    def chat(self, where: Where = "private") -> Chat:
        thread = str(TOPIC) if where == "thread" else ""
        return Chat("telegram", str(CHATS[where]["id"]), thread)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/bot{token}/{method}", self._call),
            web.get("/file/bot{token}/{path:.+}", self._file),
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
        number = next(self.numbers)
        message: dict[str, Any] = {"message_id": number, "chat": CHATS[where], "from": PERSON}
        message["date"] = 1_700_000_000 + number
        if where == "thread":
            message |= {"message_thread_id": TOPIC, "is_topic_message": True}
            message["reply_to_message"] = {"message_id": TOPIC, "chat": CHATS[where], "date": 1}
        if reply_to:
            answered = {"message_id": int(reply_to.partition("/")[2]), "chat": CHATS[where]}
            ours = {"from": ME} if reply_to in self.shown else {}
            message["reply_to_message"] = {**answered, **ours, "date": 1}
        words = f"@{ME['username']} {text}" if addressed else text
        name = "caption" if files or voice else "text"
        if words:
            message[name] = words
        if addressed:
            entity = {"type": "mention", "offset": 0, "length": len(f"@{ME['username']}")}
            message["entities" if name == "text" else "caption_entities"] = [entity]
        message |= self._attached(files, voice)
        id = f"{CHATS[where]['id']}/{number}"
        self.said[id] = message
        await self._update(id, {"message": message})
        return id

    def _attached(self, files: Sequence[Media], voice: Media | None) -> dict[str, Any]:
        attached: dict[str, Any] = {}
        for file in files:
            key = self._keep(file.data)
            if file.is_image:
                small = {"file_id": self._keep(b"small"), "width": 90, "height": 90}
                attached["photo"] = [small, {"file_id": key, "width": 800, "height": 800}]
            else:
                facts = {"file_name": file.name, "mime_type": file.type}
                attached["document"] = {"file_id": key, "file_size": len(file.data), **facts}
        if voice is not None:
            key = self._keep(voice.data)
            attached["voice"] = {"file_id": key, "mime_type": voice.type, "duration": 3}
        return attached

    def _keep(self, data: bytes) -> str:
        key = f"F{next(self.numbers)}"
        self.files[key] = data
        return key

    async def change(self, id: str, text: str) -> None:
        message = {**self.said[id], "text": text, "edit_date": 1_700_009_999}
        await self._update("", {"edited_message": message})

    async def press(self, shown: Shown, button: str) -> None:
        keyboard = json.loads(self.keyboards[shown.id])["inline_keyboard"]
        data = next(
            one["callback_data"] for row in keyboard for one in row if one["text"] == button
        )
        chat = next(chat for chat in CHATS.values() if str(chat["id"]) == shown.chat.chat)
        number = int(shown.id.partition("/")[2])
        message = {"message_id": number, "chat": chat, "date": 1_700_000_000, "from": ME}
        query = {"id": f"Q{next(self.numbers)}", "from": PERSON, "data": data, "message": message}
        await self._update("", {"callback_query": {**query, "chat_instance": "1"}})

    async def again(self) -> None:
        self.updates.append({**self.updates[-1]})
        self.confirmed = min(self.confirmed, self.updates[-1]["update_id"] - 1)
        await self._wake()

    async def bring(self, rubbish: Any) -> None:
        number = next(self.numbers) + 1000
        update = {**rubbish} if isinstance(rubbish, dict) else {"message": rubbish}
        self.updates.append({**update, "update_id": number})
        await self._wake()

    def sound(self) -> Any:
        entity = {"type": "mention", "offset": 0, "length": 3}
        place = {"chat": CHATS["group"], "message_thread_id": 3, "is_topic_message": True}
        answered = {"message_id": 4, "chat": CHATS["group"], "date": 1, "from": ME}
        files = {"photo": [{"file_id": self._keep(b"x")}], "sticker": {"emoji": "x"}}
        said = {"text": "a b c", "entities": [entity], "caption": "x", "reply_to_message": answered}
        message = {"message_id": 999, "date": 1, "from": PERSON, **place, **said, **files}
        press = {"id": "Q", "from": PERSON, "data": "x", "message": message}
        return {"message": message, "callback_query": press, "edited_message": message}

    def acknowledged(self, id: str) -> bool:
        return self.updated[id] <= self.confirmed

    def seen_typing(self) -> Sequence[Chat]:
        return self.typed

    async def _update(self, id: str, update: dict[str, Any]) -> None:
        number = next(self.numbers) + 1000
        if id:
            self.updated[id] = number
        self.updates.append({"update_id": number, **update})
        await self._wake()

    # the API

    async def _call(self, request: web.Request) -> web.Response:
        try:
            if request.match_info["token"] != TOKEN or self.trouble.expired:
                raise Refusal(401, "Unauthorized")
            asked = await _asked(request)
            handler = getattr(self, f"on_{request.match_info['method'].lower()}", None)
            if handler is None:
                raise Refusal(404, "Not Found")
            return web.json_response({"ok": True, "result": await handler(asked)})
        except Refusal as refusal:
            return web.json_response(refusal.answer, status=refusal.code)

    async def _file(self, request: web.Request) -> web.Response:
        key = request.match_info["path"].rpartition("/")[2]
        if self.trouble.loses_files:
            raise web.HTTPBadGateway
        return web.Response(body=self.files[key])

    async def on_getme(self, _: Any) -> Any:
        return ME

    async def on_deletewebhook(self, _: Any) -> bool:
        return True

    async def on_getwebhookinfo(self, _: Any) -> Any:
        waiting = len(self._waiting())
        return {"url": "", "has_custom_certificate": False, "pending_update_count": waiting}

    def _waiting(self) -> list[Any]:
        return [update for update in self.updates if update["update_id"] > self.confirmed]

    async def on_getupdates(self, asked: dict[str, Any]) -> list[Any]:
        self.confirmed = max(self.confirmed, int(asked.get("offset", 0)) - 1)
        with suppress(TimeoutError):
            async with asyncio.timeout(float(asked.get("timeout", 0))), self.news:
                await self.news.wait_for(lambda: self._waiting() and not self.trouble.deaf)
        return [] if self.trouble.deaf else self._waiting()[:100]

    async def on_sendchataction(self, asked: dict[str, Any]) -> bool:
        self.typed.append(_chat(asked))
        return True

    async def on_answercallbackquery(self, asked: dict[str, Any]) -> bool:
        self.answered.append(asked["callback_query_id"])
        return True

    async def on_getfile(self, asked: dict[str, Any]) -> Any:
        key = asked["file_id"]
        return {"file_id": key, "file_unique_id": key, "file_path": f"documents/{key}"}

    async def on_sendmessage(self, asked: dict[str, Any]) -> Any:
        return self._show(asked, asked["text"], ())

    async def on_senddocument(self, asked: dict[str, Any]) -> Any:
        return self._show(asked, asked.get("caption", ""), (asked["document"],))

    async def on_sendvoice(self, asked: dict[str, Any]) -> Any:
        return self._show(asked, asked.get("caption", ""), (asked["voice"],))

    async def on_sendphoto(self, asked: dict[str, Any]) -> Any:
        return self._show(asked, asked.get("caption", ""), (asked["photo"],))

    def _show(self, asked: dict[str, Any], raw: str, files: tuple[Media, ...]) -> Any:
        self._refuse()
        text = self._read(asked, raw)
        if not text and not files:
            raise Refusal(400, "Bad Request: message text is empty")
        number = next(self.numbers)
        id = f"{asked['chat_id']}/{number}"
        self.keyboards[id] = asked.get("reply_markup", "{}")
        answered = json.loads(asked.get("reply_parameters", "{}")).get("message_id")
        self.shown[id] = Shown(
            id, _chat(asked), text, raw, files, _words(asked),
            f"{asked['chat_id']}/{answered}" if answered else "",
        )  # fmt: skip
        chat = {"id": int(asked["chat_id"]), "type": "private"}
        return {"message_id": number, "date": 1_700_000_000, "chat": chat, "text": text}

    def _refuse(self) -> None:
        if self.trouble.limited:
            self.trouble.limited -= 1
            after = int(self.trouble.after)
            raise Refusal(429, f"Too Many Requests: retry after {after}", retry_after=after)
        if self.trouble.broken:
            self.trouble.broken -= 1
            raise Refusal(502, "Bad Gateway")
        if self.trouble.forgets_chat:
            raise Refusal(403, "Forbidden: bot was blocked by the user")

    def _read(self, asked: dict[str, Any], raw: str) -> str:
        marked = asked.get("parse_mode") == "HTML"
        if marked and self.trouble.refuses_markup:
            raise Refusal(400, "Bad Request: can't parse entities: refused")
        try:
            text = _Markup.read(raw) if marked else raw
        except ValueError as why:
            raise Refusal(400, f"Bad Request: {why}") from None
        if len(text.encode("utf-16-le")) // 2 > MAX_LENGTH:
            raise Refusal(400, "Bad Request: message is too long")
        return text

    async def on_editmessagetext(self, asked: dict[str, Any]) -> Any:
        self._refuse()
        id = f"{asked['chat_id']}/{asked['message_id']}"
        text, old = self._read(asked, asked["text"]), self.shown.get(id)
        if old is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        buttons = _words(asked)
        if (old.text, old.buttons) == (text, buttons):
            raise Refusal(400, "Bad Request: message is not modified")
        self.shown[id] = Shown(
            id, old.chat, text, asked["text"], old.files, buttons, old.reply_to, True
        )
        return True


async def _asked(request: web.Request) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            kind = value.content_type or "application/octet-stream"
            asked[name] = Media(kind, value.file.read(), value.filename)
        else:
            asked[name] = value
    for name, value in list(asked.items()):
        if isinstance(value, str) and value.startswith("attach://"):
            asked[name] = asked[value.removeprefix("attach://")]
    return asked


def _chat(asked: dict[str, Any]) -> Chat:
    return Chat("telegram", asked["chat_id"], asked.get("message_thread_id", ""))


def _words(asked: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    keyboard = json.loads(asked.get("reply_markup", "{}")).get("inline_keyboard", [])
    return tuple(tuple(one["text"] for one in row) for row in keyboard)
