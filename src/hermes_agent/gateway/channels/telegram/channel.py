"""Telegram, by python-telegram-bot's `Bot`. We poll ourselves: an update may only be confirmed once
it is stored, and a malformed one must not affect the others."""

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any

import httpx
import msgspec
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, InputFile, ReplyParameters
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.request import HTTPXRequest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, CredentialsRejected, SendError, Settings
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    Attachment,
    AttachmentUnavailable,
    MultipartSend,
    Part,
    clean,
    quietly,
    with_attachments,
)
from hermes_agent.gateway.channels.telegram import wire
from hermes_agent.gateway.delivery.rendering import TELEGRAM, render

log = logging.getLogger("hermes.gateway.telegram")

ADDRESS = "https://api.telegram.org"
POLL_SECONDS = 25
SLACK_SECONDS = 15.0
"""How much longer than its own timeout a poll may take."""
PATIENCE = (0.5, 1.0, 2.0, 2.0)
"""How long a probe waits for pending updates to come in."""
CAPTION = 500
"""Characters; Telegram accepts twice as many UTF-16 units."""
PHOTO_BYTES = 10_000_000
VOICE = "audio/ogg"
PHOTOS = ("image/jpeg", "image/png", "image/webp")

REFUSED = "Telegram rejected the bot's token"
HINT = "get a new one from @BotFather with /token, then run `hermes gateway setup telegram`"


@cache
def _trusted() -> ssl.SSLContext:
    """Cached: loading the certificates is slow."""
    return httpx.create_ssl_context()


class _Bot(Bot):
    async def poll(self, offset: int, seconds: int) -> list[Any]:
        """Raw updates: we handle malformed ones."""
        asked = {"offset": offset, "timeout": seconds, "allowed_updates": wire.KINDS}
        found = await self._post("getUpdates", asked, read_timeout=seconds + SLACK_SECONDS)
        return found if isinstance(found, list) else []


class TelegramChannel:
    def __init__(self, settings: Settings, context: ChannelContext) -> None:
        address = str(settings.get("address") or ADDRESS).rstrip("/")
        trust = {"verify": _trusted()}
        self._requests = (
            HTTPXRequest(2, httpx_kwargs=trust),
            HTTPXRequest(16, pool_timeout=10, read_timeout=30, httpx_kwargs=trust),
        )
        try:
            self._bot = _Bot(
                context.secret(str(settings.get("token", ""))),
                base_url=f"{address}/bot",
                base_file_url=f"{address}/file/bot",
                get_updates_request=self._requests[0],
                request=self._requests[1],
            )
        except InvalidToken:
            raise CredentialsRejected("the Telegram token is empty", HINT) from None
        self._context = context
        self._progress = MultipartSend()
        self._me = wire.Me(0, "")
        self._groups = wire.Groups()
        self._returned: float | None = None
        """When a poll last returned."""
        self._received = 0
        """The number of updates received."""

    async def run(self) -> None:
        self._returned = None
        try:
            me = await self._bot.get_me()
            self._me = wire.Me(me.id, me.username or "", bool(me.can_read_all_group_messages))
            await self._bot.delete_webhook()
            offset = _number(await self._context.mark())
            self._returned = self._context.clock()
            while True:
                updates = await self._bot.poll(offset, POLL_SECONDS)
                self._returned = self._context.clock()
                self._received += len(updates)
                before = offset
                for update in updates:
                    offset = await self._take(update, offset)
                if updates and offset == before:
                    await self._context.sleep(1)
        except InvalidToken:
            raise CredentialsRejected(REFUSED, HINT) from None
        except Conflict:
            raise HermesError(
                "another program is receiving this bot's messages",
                "stop it, or create a separate bot for Hermes",
            ) from None
        except TelegramError as trouble:
            raise HermesError(f"the connection to Telegram was lost: {trouble.message}") from None

    async def _take(self, raw: Any, offset: int) -> int:
        """Hands in an update; returns the next offset."""
        number = raw.get("update_id") if isinstance(raw, Mapping) else None
        try:
            update = msgspec.convert(raw, wire.Update)
        except msgspec.ValidationError as why:
            log.warning("skipping the malformed update %r: %s", number, why)
            if type(number) is not int or abs(number) > 2**53:
                return offset
            await self._context.save_cursor(str(number + 1))
            return max(offset, number + 1)
        after = max(offset, update.update_id + 1)
        arrived = wire.arrived(update, self._groups.me_in(update, self._me))
        if arrived is None or not arrived.person.id:
            await self._context.save_cursor(str(after))
            return after
        message = wire.message_of(update)
        if message is not None:
            found = wire.attachments(message)
            arrived = await with_attachments(
                arrived, (self._attachment(*one) for one in found), self._context.sleep
            )
        await self._context.receive(arrived, str(after))
        if update.callback_query is not None:
            answered = self._bot.answer_callback_query(update.callback_query.id)
            await quietly("Telegram", answered, (TelegramError,))
        return after

    def _attachment(
        self, use: wire.Use, file: wire.TelegramFile, name: str, kind: str
    ) -> Attachment:
        name = clean(file.file_name) or name
        return use, name, partial(self._fetch, file, name, clean(file.mime_type) or kind)

    async def _fetch(self, wanted: wire.TelegramFile, name: str, kind: str) -> Media:
        """Checks the size: a self-hosted server has no limit."""
        try:
            if wanted.file_size > MAX_BYTES:
                raise AttachmentUnavailable("too large")
            file = await self._bot.get_file(wanted.file_id)
            if (file.file_size or 0) > MAX_BYTES:
                raise AttachmentUnavailable("too large")
            return Media(kind, bytes(await file.download_as_bytearray()), name)
        except InvalidToken:
            raise AttachmentUnavailable("Telegram no longer has it") from None
        except (BadRequest, Forbidden) as why:
            raise AttachmentUnavailable(why.message) from None
        except (TelegramError, OSError) as why:
            raise AttachmentUnavailable(str(why), passing=True) from None

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        try:
            try:
                ids = await self._progress.send(key, self._parts(outgoing, outgoing.chat.chat))
            except ChatMigrated as moved:
                parts = self._parts(outgoing, str(moved.new_chat_id))
                ids = await self._progress.send(key, parts)
        except TelegramError as trouble:
            raise _send_error(trouble) from None
        return ids[0]

    def _parts(self, outgoing: OutboundMessage, chat: str) -> list[Part]:
        """Text and files are separate messages on Telegram, unless the text is a caption."""
        place = _place(outgoing, chat)
        if outgoing.edit:
            return [partial(self._edit, outgoing, place)]
        caption = outgoing.text if len(outgoing.files) == 1 and len(outgoing.text) < CAPTION else ""
        parts: list[Part] = []
        if outgoing.text and not caption:
            parts.append(partial(self._say, outgoing, place))
        return parts + [
            partial(self._put, file, caption, outgoing, place) for file in outgoing.files
        ]

    async def _say(self, outgoing: OutboundMessage, place: dict[str, Any]) -> str:
        async def say(text: str, mode: str | None) -> str:
            sent = await self._bot.send_message(
                text=text, parse_mode=mode, reply_markup=_keyboard(outgoing), **place
            )
            return wire.message_id(str(sent.chat_id), sent.message_id)

        return await _marked_up(say, outgoing.text)

    async def _edit(self, outgoing: OutboundMessage, place: dict[str, Any]) -> str:
        number = wire.number_in(outgoing.edit)
        if number is None:
            raise SendError(f"not a Telegram message ID: {outgoing.edit!r}", again=False)

        async def edit(text: str, mode: str | None) -> str:
            try:
                await self._bot.edit_message_text(
                    text,
                    chat_id=place["chat_id"],
                    message_id=number,
                    parse_mode=mode,
                    reply_markup=_keyboard(outgoing),
                )
            except BadRequest as why:
                if "not modified" not in why.message.lower():
                    raise
            return outgoing.edit

        return await _marked_up(edit, outgoing.text)

    async def _put(
        self, file: Media, caption: str, outgoing: OutboundMessage, place: dict[str, Any]
    ) -> str:
        picture = file.type in PHOTOS and len(file.data) <= PHOTO_BYTES
        as_what = "photo" if picture else "voice" if file.type == VOICE else "document"
        put: Any = getattr(self._bot, f"send_{as_what}")
        named = InputFile(file.data, filename=file.name or "file")
        keyboard = _keyboard(outgoing) if caption or not outgoing.text else None

        async def send(text: str, mode: str | None) -> str:
            sent = await put(
                chat_id=place["chat_id"],
                **{as_what: named},
                caption=text or None,
                parse_mode=mode,
                reply_markup=keyboard,
                reply_parameters=place["reply_parameters"],
                message_thread_id=place["message_thread_id"],
            )
            return wire.message_id(str(sent.chat_id), sent.message_id)

        return await _marked_up(send, caption)

    async def typing(self, chat: Chat) -> None:
        thread = int(chat.thread) if chat.thread.isdecimal() else None
        action = self._bot.send_chat_action(chat.chat, "typing", message_thread_id=thread)
        await quietly("Telegram", action, (TelegramError,))

    async def probe(self) -> None:
        """Telegram does not send us our own messages, but it reports pending updates: they must
        come in by our poll, and the poll must not hang."""
        try:
            await self._bot.get_me()
            before = self._received
            for wait in (0.0, *PATIENCE):
                if wait:
                    await self._context.sleep(wait)
                about = await self._bot.get_webhook_info()
                if about.url:
                    raise HermesError(
                        "messages to this bot go to a webhook, not to Hermes",
                        "restart the channel: it removes the webhook",
                    )
                if self._received != before or not about.pending_update_count:
                    break
            else:
                raise HermesError(
                    f"Telegram has undelivered messages: {about.pending_update_count}"
                )
        except InvalidToken:
            raise CredentialsRejected(REFUSED, HINT) from None
        except TelegramError as trouble:
            raise HermesError(f"Telegram is not responding: {trouble.message}") from None
        if self._returned is None:
            raise HermesError("not receiving from Telegram yet")
        silent = self._context.clock() - self._returned
        if silent > POLL_SECONDS + SLACK_SECONDS:
            raise HermesError(f"no poll of Telegram has returned for {silent:.0f} s")

    async def close(self) -> None:
        for request in self._requests:
            await request.shutdown()


def _number(mark: str) -> int:
    return int(mark) if mark.isdecimal() else 0


def _place(outgoing: OutboundMessage, chat: str) -> dict[str, Any]:
    thread, answered = outgoing.chat.thread, wire.number_in(outgoing.reply_to)
    return {
        "chat_id": chat,
        "message_thread_id": int(thread) if thread.isdecimal() else None,
        "reply_parameters": ReplyParameters(answered, allow_sending_without_reply=True)
        if answered is not None
        else None,
    }


def _keyboard(outgoing: OutboundMessage) -> InlineKeyboardMarkup | None:
    if not outgoing.buttons:
        return None
    return InlineKeyboardMarkup(
        [
            [InlineKeyboardButton(button.text, callback_data=button.data) for button in row]
            for row in outgoing.buttons
        ]
    )


async def _marked_up(send: Callable[[str, str | None], Awaitable[str]], text: str) -> str:
    """Sends text with markup, or as plain text if Telegram refuses the markup."""
    try:
        return await send(render(text, TELEGRAM), "HTML")
    except BadRequest as why:
        if "entit" not in why.message.lower():
            raise
        log.info("Telegram rejected the markup of a message; sending plain text")
        return await send(text, None)


def _send_error(trouble: TelegramError) -> SendError:
    match trouble:
        case RetryAfter():
            after = trouble._retry_after.total_seconds()
            return SendError("Telegram is rate limiting the bot", after=after)
        case InvalidToken():
            return SendError(REFUSED, HINT, channel=True)
        case Forbidden() | BadRequest():
            return SendError(f"Telegram rejected the message: {trouble.message}", again=False)
        case NetworkError():
            unsent = isinstance(
                trouble.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
            )
            slow = "the request timed out" if isinstance(trouble, TimedOut) else trouble.message
            return SendError(
                f"Telegram is not responding: {slow}", doubtful=not unsent, channel=unsent
            )
        case _:
            return SendError(f"Telegram did not send the message: {trouble.message}")


make = TelegramChannel
