"""Discord's HTTP API, by discord.py's client with its rate-limit buckets and retries."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import aiohttp
import msgspec
from discord.errors import (
    DiscordException,
    DiscordServerError,
    Forbidden,
    HTTPException,
    LoginFailure,
    NotFound,
    RateLimited,
)
from discord.http import HTTPClient, Route

from hermes_agent.core.gateway import OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import SendError
from hermes_agent.gateway.channels.shared import Part, retry_after
from hermes_agent.gateway.delivery.rendering import tables_fenced

MAX_FILES = 10
PATIENCE = 30.0
"""The longest rate limit that discord.py waits for itself; for longer ones the outbox does."""
TROUBLE = (DiscordException, aiohttp.ClientError, OSError, TimeoutError)
REFUSED = "Discord rejected the bot's token"
HINT = "reset it on discord.com/developers/applications, then `hermes gateway setup discord`"
SILENT = 1 << 12


class DiscordClient(HTTPClient):
    """A client whose address can be changed, for which discord.py has no setting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        super().__init__(loop, unsync_clock=True, max_ratelimit_timeout=PATIENCE)
        self._address = address

    async def request(self, route: Route, **options: Any) -> Any:
        if self._address:
            route.url = self._address + route.url.removeprefix(Route.BASE)
        return await super().request(route, **options)

    async def call(self, method: str, path: str, **options: Any) -> Any:
        return await self.request(Route(method, path), **options)

    async def say(self, place: str, body: dict[str, Any], files: Sequence[Media] = ()) -> Any:
        # The route has a parameter: discord.py keeps a rate limit per channel.
        route = Route("POST", "/channels/{channel_id}/messages", channel_id=place)
        if not files:
            return await self.request(route, json=body)
        return await self.request(route, form=_form(body, files))


def _form(body: dict[str, Any], files: Sequence[Media]) -> list[dict[str, Any]]:
    payload = {"name": "payload_json", "value": msgspec.json.encode(body).decode()}
    return [
        payload,
        *(
            {"name": f"files[{number}]", "value": file.data, "filename": file.name or "file",
             "content_type": file.type}
            for number, file in enumerate(files)
        ),
    ]  # fmt: skip


def nonce(key: str) -> str:
    """Discord accepts 25 characters, and drops a repeated nonce for some minutes."""
    return hashlib.sha256(key.encode()).hexdigest()[:25]


def body_of(outgoing: OutboundMessage) -> dict[str, Any]:
    body: dict[str, Any] = {
        "content": tables_fenced(outgoing.text),
        "allowed_mentions": {"parse": [], "replied_user": True},
        "components": _components(outgoing),
    }
    if outgoing.reply_to.isdecimal() and not outgoing.edit:
        answered = {"message_id": outgoing.reply_to, "fail_if_not_exists": False}
        body["message_reference"] = answered
    return body


def _components(outgoing: OutboundMessage) -> list[dict[str, Any]]:
    return [
        {
            "type": 1,
            "components": [
                {"type": 2, "style": 2, "label": button.text[:80], "custom_id": button.data}
                for button in row
            ],
        }
        for row in outgoing.buttons
    ]


def parts_of(api: DiscordClient, outgoing: OutboundMessage, key: str) -> list[Part]:
    """The requests for a message: each takes ten files."""
    place = outgoing.chat.thread or outgoing.chat.chat
    body = body_of(outgoing)
    if outgoing.edit:
        return [partial(_edit, api, place, outgoing.edit, body)]
    parts: list[Part] = []
    if not outgoing.text and not outgoing.files:
        return parts
    for first in range(0, len(outgoing.files) or 1, MAX_FILES):
        once = {"nonce": nonce(f"{key}/{first}"), "enforce_nonce": True}
        rest = {"content": ""} if first else body
        files = outgoing.files[first : first + MAX_FILES]
        parts.append(partial(_say, api, place, {**rest, **once}, files))
    return parts


async def _say(
    api: DiscordClient, place: str, body: dict[str, Any], files: tuple[Media, ...]
) -> str:
    return str((await api.say(place, body, files))["id"])


async def _edit(api: DiscordClient, place: str, id: str, body: dict[str, Any]) -> str:
    if not id.isdecimal():
        raise SendError(f"not a Discord message ID: {id!r}", again=False)
    await api.call("PATCH", f"/channels/{place}/messages/{id}", json=body)
    return id


def send_error(trouble: BaseException) -> SendError:
    match trouble:
        case RateLimited():
            return SendError("Discord is rate limiting the bot", after=trouble.retry_after)
        case HTTPException(status=429):
            after = retry_after(trouble.response.headers, 60.0)
            return SendError("Discord is rate limiting the bot", after=after)
        case HTTPException(status=401) | LoginFailure():
            return SendError(REFUSED, HINT, channel=True)
        case Forbidden() | NotFound() | HTTPException(status=400):
            return SendError(f"Discord rejected the message: {trouble.text}", again=False)
        case DiscordServerError():
            return SendError(f"unexpected answer from Discord: {trouble.status}", doubtful=True)
        case aiohttp.ClientConnectorError():
            return SendError("cannot reach Discord", channel=True)
        case _:
            return SendError(f"Discord is not responding: {trouble}", doubtful=True)
