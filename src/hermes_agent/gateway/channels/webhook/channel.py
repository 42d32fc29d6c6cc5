"""Webhooks: programs post messages, signed or with a token; answers are posted to them with an
idempotency key."""

import asyncio
import base64
import hashlib
import hmac
import secrets
from typing import Any

import httpx
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import HermesError, TooMuch
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, SendError, Settings
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    ProbeWords,
    check_status,
    clean,
    log,
    request,
    without_voice,
)
from hermes_agent.host.http_listener import SHORTEST_TOKEN, TookTooLong, body_within, knows

ALERTS = ("alertmanager", "grafana", "pagerduty")
SECONDS = 30.0
MAX_ID = 200
SAME_SECONDS = 600
MAX_UNKNOWN = 2_000_000
"""Size limit for callers without a token, who are only known by the signature of the whole body."""


def make(settings: Settings, context: ChannelContext) -> "Webhook":
    def secret(name: str) -> str:
        found = context.secret(str(settings[name]))
        if len(found) < SHORTEST_TOKEN:
            hint = f"at least {SHORTEST_TOKEN} characters"
            raise HermesError(f"the secret of channels.webhook.{name} is too short", hint)
        return found

    if not settings.get("token"):
        raise HermesError("channels.webhook.token is missing", "`hermes gateway setup webhook`")
    alerts = secret("alert_token") if settings.get("alert_token") else ""
    return Webhook(settings, secret("token"), alerts, context)


class Webhook:
    def __init__(
        self, settings: Settings, token: str, alert_token: str, context: ChannelContext
    ) -> None:
        self._settings = settings
        self._token = token
        self._alert_token = alert_token
        self._url = str(settings.get("url") or "")
        self._context = context
        self._probes = ProbeWords()
        self._client = httpx.AsyncClient(timeout=SECONDS)

    async def run(self) -> None:
        """Everything arrives by `called`."""
        await asyncio.Event().wait()

    # in

    async def called(self, request: Request, rest: str) -> Response:
        # The token for alerts is not valid for messages, nor the other way round.
        token = self._alert_token if rest in ALERTS else self._token
        bearer = bool(token) and knows(request.headers.get("authorization", ""), token)
        signed = _signatures(request)
        if not token or (not bearer and not signed):
            return Response(status_code=401)
        try:
            body = await body_within(request, MAX_BYTES if bearer else MAX_UNKNOWN)
        except TooMuch:
            return Response(status_code=413)
        except TookTooLong:
            return Response(status_code=408)
        if not bearer and not _is_signed(signed, body, token):
            return Response(status_code=401)
        if rest == "probe":
            self._probes.came(body.decode(errors="replace"))
            return Response(status_code=204)
        if rest in ALERTS:
            arrived = _alert(rest, body, self._context.clock())
        elif rest == "in":
            try:
                arrived = self._arrived(request, body)
            except (ValueError, msgspec.MsgspecError) as error:
                log.warning("a malformed message was posted to the webhook: %s", error)
                return Response(f"bad request: {error}", 400)
        else:
            return Response(status_code=404)
        await self._context.receive(arrived, "")
        return Response(status_code=202)

    def _arrived(self, request: Request, body: bytes) -> InboundMessage:
        posted = msgspec.json.decode(body, type=dict[str, Any])

        def found(name: str, default: str = "") -> str:
            value = _at(posted, str(self._settings.get(name) or name))
            return clean(str(value)) if isinstance(value, str | int | float) else default

        sender = found("sender")
        if not sender:
            raise ValueError("no sender")
        id = (found("id") or request.headers.get("idempotency-key", ""))[:MAX_ID]
        press = posted.get("press")
        files, voice = without_voice(_file(one) for one in posted.get("files") or ())
        thread = posted.get("thread", "")
        return InboundMessage(
            f"{sender}/{id or _content_id(body, self._context.clock())}",
            Chat("webhook", found("chat") or sender, str(thread) if thread else ""),
            Person(sender, found("name"), vouched=False),
            clean(str(press)) if press else found("text"),
            "press" if press else "message",
            files=files,
            voice=voice,
            reply_to=str(posted.get("reply_to") or ""),
            time=self._context.clock(),
        )

    # out

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        if outgoing.edit:
            raise SendError("a webhook cannot edit messages", again=False)
        if not self._url:
            hint = "`hermes config set channels.webhook.url ADDRESS`"
            raise SendError("channels.webhook.url is not set", hint, again=False)
        body = msgspec.json.encode({
            "key": key, "kind": outgoing.kind, "text": outgoing.text,
            "chat": outgoing.chat.chat, "thread": outgoing.chat.thread,
            "reply_to": outgoing.reply_to, "buttons": outgoing.buttons,
            "files": [
                {"name": one.name, "type": one.type, "data": base64.b64encode(one.data).decode()}
                for one in outgoing.files
            ],
        })  # fmt: skip
        answer = await self._post(self._url, body, key)
        check_status("the webhook", answer, "check who may post there")
        return _receipt(answer.content) or key

    async def _post(self, url: str, body: bytes, key: str) -> httpx.Response:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": key,
            "X-Hub-Signature-256": f"sha256={_signature(body, self._token)}",
        }
        return await request(
            self._client, "the webhook", "POST", url, content=body, headers=headers
        )

    async def typing(self, _chat: Chat) -> None:
        """Webhooks have none."""

    async def probe(self) -> None:
        """Posts to our own listener, as others do."""
        if not self._context.listen:
            raise HermesError(
                "nobody can reach the webhook: gateway.listen is not set",
                "`hermes config set gateway.listen 127.0.0.1:9912`",
            )
        word = secrets.token_hex(8)
        address = f"http://{self._context.listen}/channels/webhook/probe"
        failure = "requests to Hermes' own listener do not reach the webhook"
        async with self._probes.expect(word, 0.0, failure):
            await self._post(address, word.encode(), word)

    async def close(self) -> None:
        await self._client.aclose()


def _content_id(body: bytes, now: float) -> str:
    """The id of a message without one: the same again within minutes is a retry."""
    return f"sha256:{int(now // SAME_SECONDS)}:{hashlib.sha256(body).hexdigest()}"


def _signature(body: bytes, token: str) -> str:
    return hmac.new(token.encode(), body, hashlib.sha256).hexdigest()


def _is_signed(signed: str, body: bytes, token: str) -> bool:
    made = _signature(body, token).encode()
    return any(
        hmac.compare_digest(one.strip().rpartition("=")[2].encode(), made)
        for one in signed.split(",")
    )


def _signatures(request: Request) -> str:
    """As GitHub signs (`sha256=…`), or PagerDuty (`v1=…,v1=…`)."""
    for name in ("x-hub-signature-256", "x-pagerduty-signature"):
        if given := request.headers.get(name):
            return given
    return ""


def _alert(kind: str, body: bytes, now: float) -> InboundMessage:
    """Each POST is one message; incidents themselves deduplicate alerts."""
    id = f"{kind}/{secrets.token_hex(16)}"
    text = body.decode(errors="replace")
    return InboundMessage(id, Chat("webhook", kind), Person(kind, kind), text, "alert", time=now)


def _at(posted: dict[str, Any], path: str) -> Any:
    value: Any = posted
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _file(given: Any) -> Media:
    if not isinstance(given, dict):
        raise ValueError("a file must be {name, type, data}, with base64 data")
    data = base64.b64decode(str(given.get("data", "")), validate=True)
    kind = str(given.get("type") or "application/octet-stream")
    return Media(kind, data, clean(str(given.get("name") or "")))


def _receipt(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body, type=dict[str, Any]).get("id") or "")
    except msgspec.MsgspecError:
        return ""
