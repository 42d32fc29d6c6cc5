"""Telegram through python-telegram-bot's `Bot`: requests, files and errors are the library's. We
poll by ourselves, because an update may only be confirmed when it is kept, and one that cannot be
read must not take the others with it."""

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
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import ChannelContext, CredentialsRejected, SendError, Settings
from hermes_agent.gateway.channels.shared import (
    MAX_BYTES,
    AttachmentUnavailable,
    MultipartSend,
    clean,
    fetched,
    with_notes,
)
from hermes_agent.gateway.channels.telegram import wire
from hermes_agent.gateway.delivery.rendering import TELEGRAM, render

log = logging.getLogger("hermes.gateway.telegram")

ADDRESS = "https://api.telegram.org"
POLL_SECONDS = 25
SLACK_SECONDS = 15.0
"""How much longer a poll may take than it waits."""
PATIENCE = (0.5, 1.0, 2.0, 2.0)
"""How long a probe waits for what Telegram says is there."""
MAX_LENGTH = 4_096
CAPTION = 500
"""Characters; Telegram takes twice as many units of UTF-16."""
PHOTO_BYTES = 10_000_000
PHOTOS = ("image/jpeg", "image/png", "image/webp")

HINT = "`hermes gateway setup telegram` takes a new token; @BotFather gives one by /token"


def make(settings: Settings, surroundings: ChannelContext) -> "TelegramChannel":
    return TelegramChannel(settings, surroundings)


@cache
def _trusted() -> ssl.SSLContext:
    """Reading whom to trust takes longer than all else here."""
    return httpx.create_ssl_context()


class _Bot(Bot):
    async def poll(self, offset: int, seconds: int) -> list[Any]:
        """Updates as they came: one that is malformed is ours to deal with."""
        asked = {"offset": offset, "timeout": seconds, "allowed_updates": wire.KINDS}
        found = await self._post("getUpdates", asked, read_timeout=seconds + SLACK_SECONDS)
        return found if isinstance(found, list) else []


class TelegramChannel:
    def __init__(self, settings: Settings, around: ChannelContext) -> None:
        address = str(settings.get("address") or ADDRESS).rstrip("/")
        trust = {"verify": _trusted()}
        self._requests = (
            HTTPXRequest(2, httpx_kwargs=trust),
            HTTPXRequest(16, pool_timeout=10, read_timeout=30, httpx_kwargs=trust),
        )
        try:
            self._bot = _Bot(
                around.secret(str(settings.get("token", ""))),
                base_url=f"{address}/bot",
                base_file_url=f"{address}/file/bot",
                get_updates_request=self._requests[0],
                request=self._requests[1],
            )
        except InvalidToken:
            raise CredentialsRejected("there is no token for Telegram", HINT) from None
        self._around = around
        self._progress = MultipartSend()
        self._me = wire.Me(0, "")
        self._groups = wire.Groups()
        self._returned: float | None = None
        """When a poll last came back."""
        self._brought = 0
        """How many updates polls have brought."""

    async def run(self) -> None:
        self._returned = None
        try:
            me = await self._bot.get_me()
            self._me = wire.Me(me.id, me.username or "", bool(me.can_read_all_group_messages))
            await self._bot.delete_webhook()
            offset = _number(await self._around.mark())
            self._returned = self._around.clock()
            while True:
                updates = await self._bot.poll(offset, POLL_SECONDS)
                self._returned = self._around.clock()
                self._brought += len(updates)
                before = offset
                for update in updates:
                    offset = await self._take(update, offset)
                if updates and offset == before:
                    await self._around.sleep(1)
        except InvalidToken:
            raise CredentialsRejected("Telegram does not accept the bot's token", HINT) from None
        except Conflict:
            raise HermesError(
                "another program receives what is sent to this bot",
                "stop it, or make a bot of its own for Hermes",
            ) from None
        except TelegramError as trouble:
            raise HermesError(f"the connection to Telegram was lost: {trouble.message}") from None

    async def _take(self, raw: Any, offset: int) -> int:
        """Keep an update, and say from where to go on."""
        number = raw.get("update_id") if isinstance(raw, Mapping) else None
        try:
            update = msgspec.convert(raw, wire.Update)
        except msgspec.ValidationError as why:
            log.warning("update %r is malformed and passed over: %s", number, why)
            if type(number) is not int or abs(number) > 2**53:
                return offset
            await self._around.save_cursor(str(number + 1))
            return max(offset, number + 1)
        after = max(offset, update.update_id + 1)
        arrived = wire.arrived(update, self._groups.me_in(update, self._me))
        if arrived is None or not arrived.person.id:
            await self._around.save_cursor(str(after))
            return after
        message = wire.message_of(update)
        if message is not None:
            arrived = await self._with_files(arrived, message)
        await self._around.receive(arrived, str(after))
        if update.callback_query is not None:
            await self._quietly(self._bot.answer_callback_query(update.callback_query.id))
        return after

    async def _with_files(
        self, arrived: InboundMessage, message: wire.TelegramMessage
    ) -> InboundMessage:
        kept: dict[str, list[Media]] = {"file": [], "voice": []}
        notes = []
        for use, file, name, kind in wire.attachments(message):
            name = clean(file.file_name) or name
            get = partial(self._fetch, file, name, clean(file.mime_type) or kind)
            media, note = await fetched(name, get, self._around.sleep)
            if media is None:
                notes.append(note)
            else:
                kept[use].append(media)
        return msgspec.structs.replace(
            arrived,
            text=with_notes(arrived.text, notes),
            files=tuple(kept["file"]),
            voice=tuple(kept["voice"]),
        )

    async def _fetch(self, wanted: wire.TelegramFile, name: str, kind: str) -> Media:
        """A server of one's own knows no limit; we do."""
        try:
            if wanted.file_size > MAX_BYTES:
                raise AttachmentUnavailable("it is too large")
            file = await self._bot.get_file(wanted.file_id)
            if (file.file_size or 0) > MAX_BYTES:
                raise AttachmentUnavailable("it is too large")
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

    def _parts(self, outgoing: OutboundMessage, chat: str) -> list[Callable[[], Awaitable[str]]]:
        """A message of text and files is several to Telegram, unless the text is a caption."""
        place = _place(outgoing, chat)
        if outgoing.edit:
            first, *rest = _pieces(outgoing.text) or [""]
            more = [partial(self._say, piece, None, place) for piece in rest]
            return [partial(self._edit, first, outgoing, place), *more]
        caption = outgoing.text if len(outgoing.files) == 1 and len(outgoing.text) < CAPTION else ""
        parts: list[Callable[[], Awaitable[str]]] = []
        if not caption:
            pieces = _pieces(outgoing.text)
            parts += [partial(self._say, piece, None, place) for piece in pieces[:-1]]
            parts += [
                partial(self._say, piece, _keyboard(outgoing), place) for piece in pieces[-1:]
            ]
        parts += [partial(self._put, file, caption, outgoing, place) for file in outgoing.files]
        if not parts:
            raise SendError("there is nothing to send", again=False)
        return parts

    async def _say(
        self, piece: str, keyboard: InlineKeyboardMarkup | None, place: dict[str, Any]
    ) -> str:
        async def say(text: str, mode: str | None) -> str:
            sent = await self._bot.send_message(
                text=text, parse_mode=mode, reply_markup=keyboard, **place
            )
            return wire.message_id(str(sent.chat_id), sent.message_id)

        return await _marked_up(say, piece)

    async def _edit(self, piece: str, outgoing: OutboundMessage, place: dict[str, Any]) -> str:
        number = wire.number_in(outgoing.edit)
        if number is None:
            raise SendError(f"{outgoing.edit!r} is no message of Telegram", again=False)

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

        return await _marked_up(edit, piece)

    async def _put(
        self, file: Media, caption: str, outgoing: OutboundMessage, place: dict[str, Any]
    ) -> str:
        picture = file.type in PHOTOS and len(file.data) <= PHOTO_BYTES
        put: Any = self._bot.send_photo if picture else self._bot.send_document
        named = InputFile(file.data, filename=file.name or "file")
        keyboard = _keyboard(outgoing) if caption or not outgoing.text else None

        async def send(text: str, mode: str | None) -> str:
            sent = await put(
                chat_id=place["chat_id"],
                **{"photo" if picture else "document": named},
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
        await self._quietly(
            self._bot.send_chat_action(chat.chat, "typing", message_thread_id=thread)
        )

    async def _quietly(self, call: Awaitable[Any]) -> None:
        try:
            await call
        except TelegramError as trouble:
            log.info("Telegram did not take it: %s", trouble.message)

    async def probe(self) -> None:
        """That we hear can only be shown by what others send. Telegram says how much waits for
        us: what waits must come by our poll, and the poll itself must not hang."""
        try:
            await self._bot.get_me()
            brought = self._brought
            for wait in (0.0, *PATIENCE):
                if wait:
                    await self._around.sleep(wait)
                about = await self._bot.get_webhook_info()
                if about.url:
                    raise HermesError(
                        "what is sent to this bot goes to a webhook, not to us",
                        "restart the channel: it removes the webhook",
                    )
                if self._brought != brought or not about.pending_update_count:
                    break
            else:
                raise HermesError(
                    f"Telegram holds {about.pending_update_count} messages that do not reach us"
                )
        except InvalidToken:
            raise CredentialsRejected("Telegram does not accept the bot's token", HINT) from None
        except TelegramError as trouble:
            raise HermesError(f"Telegram does not answer: {trouble.message}") from None
        if self._returned is None:
            raise HermesError("nothing is received from Telegram yet")
        silent = self._around.clock() - self._returned
        if silent > POLL_SECONDS + SLACK_SECONDS:
            raise HermesError(f"no poll of Telegram has come back for {silent:.0f} s")

    async def close(self) -> None:
        for request in self._requests:
            await request.shutdown()


def _pieces(text: str) -> list[str]:
    """Telegram counts in units of UTF-16, of which an emoji takes two: what fits by characters may
    not fit."""
    pieces: list[str] = []
    while text:
        size = MAX_LENGTH
        while len(text[:size].encode("utf-16-le", "replace")) > 2 * MAX_LENGTH:
            size -= (len(text[:size].encode("utf-16-le", "replace")) // 2 - MAX_LENGTH + 1) // 2
        pieces.append(text[:size])
        text = text[size:]
    return pieces


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
    """Send text with its markup, or as it is when Telegram refuses the markup."""
    try:
        return await send(render(text, TELEGRAM), "HTML")
    except BadRequest as why:
        if "entit" not in why.message.lower():
            raise
        log.info("Telegram refused the markup of a message; it goes as plain text")
        return await send(text, None)


def _send_error(trouble: TelegramError) -> SendError:
    match trouble:
        case RetryAfter():
            after = trouble._retry_after.total_seconds()
            return SendError("Telegram asks to send less often", after=after)
        case InvalidToken():
            return SendError("Telegram does not accept the bot's token", HINT, channel=True)
        case Forbidden() | BadRequest():
            return SendError(f"Telegram refuses it: {trouble.message}", again=False)
        case NetworkError():
            unsent = isinstance(
                trouble.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
            )
            slow = "in time" if isinstance(trouble, TimedOut) else f"properly: {trouble.message}"
            return SendError(
                f"Telegram does not answer {slow}", doubtful=not unsent, channel=unsent
            )
        case _:
            return SendError(f"Telegram does not take it: {trouble.message}")
