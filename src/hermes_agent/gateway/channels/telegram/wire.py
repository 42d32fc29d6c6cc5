"""The parts of Telegram's updates that we read: https://core.telegram.org/bots/api#update."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from hermes_agent.core.gateway import Chat, InboundMessage, Person
from hermes_agent.gateway.channels.shared import clean

MAX_GROUPS = 10_000
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]


class TelegramUser(Struct, frozen=True):
    id: Whole
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    title: str = ""


class TelegramChat(Struct, frozen=True):
    id: Whole
    type: str
    title: str = ""


class Entity(Struct, frozen=True):
    type: str
    offset: Whole
    length: Whole
    user: TelegramUser | None = None


class TelegramFile(Struct, frozen=True):
    file_id: str
    file_name: str = ""
    mime_type: str = ""
    file_size: Whole = 0


class Location(Struct, frozen=True):
    latitude: float
    longitude: float


class Sticker(Struct, frozen=True):
    emoji: str = ""


class TelegramReplied(Struct, frozen=True):
    message_id: Whole
    from_: TelegramUser | None = field(default=None, name="from")


class TelegramMessage(Struct, frozen=True):
    message_id: Whole
    chat: TelegramChat
    date: Whole = 0
    edit_date: Whole = 0
    from_: TelegramUser | None = field(default=None, name="from")
    sender_chat: TelegramUser | None = None
    message_thread_id: Whole = 0
    is_topic_message: bool = False
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    reply_to_message: TelegramReplied | None = None
    photo: tuple[TelegramFile, ...] = ()
    document: TelegramFile | None = None
    video: TelegramFile | None = None
    audio: TelegramFile | None = None
    animation: TelegramFile | None = None
    video_note: TelegramFile | None = None
    voice: TelegramFile | None = None
    sticker: Sticker | None = None
    location: Location | None = None


class TelegramPress(Struct, frozen=True):
    id: str
    from_: TelegramUser = field(name="from")
    message: TelegramMessage | None = None
    data: str = ""


class Update(Struct, frozen=True):
    update_id: Whole
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    channel_post: TelegramMessage | None = None
    edited_channel_post: TelegramMessage | None = None
    callback_query: TelegramPress | None = None


KINDS = [name for name in Update.__struct_fields__ if name != "update_id"]


class Me(Struct, frozen=True):
    """The bot's own account."""

    id: int
    username: str
    sees_all: bool = False
    """Telegram also delivers messages for other bots of a group."""


def message_id(chat: str, message: int) -> str:
    """Telegram numbers messages per chat."""
    return f"{chat}/{message}"


def number_in(id: str) -> int | None:
    number = id.partition("/")[2].partition("/")[0]
    return int(number) if number.isdecimal() and number.isascii() else None


def place_of(message: TelegramMessage) -> Chat:
    thread = message.message_thread_id if message.is_topic_message else 0
    return Chat("telegram", str(message.chat.id), str(thread) if thread else "")


def person_of(user: TelegramUser | None) -> Person:
    if user is None:
        return Person("")
    name = user.title or f"{user.first_name} {user.last_name}".strip() or user.username
    return Person(str(user.id), clean(name))


def arrived(update: Update, me: Me) -> InboundMessage | None:
    """The message without its files; None if there is none."""
    if update.callback_query is not None:
        return _pressed(update.callback_query)
    message = message_of(update)
    if message is None:
        return None
    edited = bool(update.edited_message or update.edited_channel_post)
    group = message.chat.type != "private"
    addressed, text = _words(message, me)
    id = message_id(str(message.chat.id), message.message_id)
    answered = message.reply_to_message
    # In a topic every message replies to the one that opened it.
    opening = message.is_topic_message and answered is not None and (
        answered.message_id == message.message_thread_id
    )  # fmt: skip
    reply_to = message_id(str(message.chat.id), answered.message_id) if answered else ""
    return InboundMessage(
        id=f"{id}/{message.edit_date}" if edited else id,
        chat=place_of(message),
        person=person_of(message.from_ or message.sender_chat),
        text=text,
        kind="edited" if edited else "message",
        group=group,
        addressed=addressed or not group,
        reply_to=id if edited else "" if opening else reply_to,
        time=float(message.edit_date if edited else message.date),
    )


def message_of(update: Update) -> TelegramMessage | None:
    first = update.message or update.channel_post
    return first or update.edited_message or update.edited_channel_post


def _pressed(press: TelegramPress) -> InboundMessage | None:
    if press.message is None:
        return None
    chat = press.message.chat
    return InboundMessage(
        id=f"press/{clean(press.id)}",
        chat=place_of(press.message),
        person=person_of(press.from_),
        text=clean(press.data),
        kind="press",
        group=chat.type != "private",
        reply_to=message_id(str(chat.id), press.message.message_id),
        time=float(press.message.date),
    )


def _words(message: TelegramMessage, me: Me) -> tuple[bool, str]:
    """Whether the bot is addressed, and the text without the bot's name."""
    wide = (message.text or message.caption).encode("utf-16-le", "surrogatepass")
    addressed = bool(
        message.reply_to_message
        and message.reply_to_message.from_
        and message.reply_to_message.from_.id == me.id
    )
    ours = "@" + me.username.lower()
    for entity in sorted(_spans(message), key=lambda one: -one.offset):
        # Telegram counts in units of UTF-16.
        begin, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
        word = wide[begin:end].decode("utf-16-le", "replace")
        left = _without(entity, word, ours, me)
        if left is not None:
            addressed = True
            wide = wide[:begin] + left.encode("utf-16-le") + wide[end:]
    said = clean(wide.decode("utf-16-le", "replace")).strip()
    return addressed, said or _wordless(message)


class Groups:
    """Groups in which the bot receives everything, as an administrator does: commands for other
    bots, too."""

    def __init__(self) -> None:
        self._overheard: set[int] = set()

    def me_in(self, update: Update, me: Me) -> Me:
        message = message_of(update)
        if me.sees_all or message is None or message.chat.type == "private":
            return me
        said = message.text or message.caption
        if said and not _words(message, me)[0] and len(self._overheard) < MAX_GROUPS:
            self._overheard.add(message.chat.id)
        return replace(me, sees_all=message.chat.id in self._overheard)


def _spans(message: TelegramMessage) -> Iterator[Entity]:
    spans = message.entities if message.text else message.caption_entities
    return (span for span in spans if span.offset >= 0 and span.length > 0)


def _without(entity: Entity, word: str, ours: str, me: Me) -> str | None:
    """What is left of a word that addresses the bot; None if it does not."""
    if entity.type == "mention":
        return "" if word.lower() == ours else None
    if entity.type == "text_mention":
        return "" if entity.user is not None and entity.user.id == me.id else None
    if entity.type == "bot_command":
        command, at, name = word.partition("@")
        meant = f"@{name}".lower() == ours if at else not me.sees_all
        return command if meant else None
    return None


def _wordless(message: TelegramMessage) -> str:
    if message.sticker:
        return f"(a sticker {clean(message.sticker.emoji)})".replace(" )", ")")
    if message.location:
        return f"(a place: {message.location.latitude}, {message.location.longitude})"
    return ""


Use = Literal["file", "voice"]
_FILES: dict[str, tuple[Use, str, str]] = {
    "voice": ("voice", "voice.ogg", "audio/ogg"),
    "animation": ("file", "animation.mp4", "video/mp4"),
    "document": ("file", "document", "application/octet-stream"),
    "video": ("file", "video.mp4", "video/mp4"),
    "video_note": ("file", "video.mp4", "video/mp4"),
    "audio": ("file", "audio.mp3", "audio/mpeg"),
}


def attachments(message: TelegramMessage) -> list[tuple[Use, TelegramFile, str, str]]:
    """The use of each, the file, and its name and type if Telegram gives none."""
    found: list[tuple[Use, TelegramFile, str, str]] = []
    if message.photo:
        found.append(("file", message.photo[-1], "photo.jpg", "image/jpeg"))
    for field_name, (use, name, kind) in _FILES.items():
        file = getattr(message, field_name)
        # An animation also comes as the `document`.
        if file and not (field_name == "document" and message.animation):
            found.append((use, file, name, kind))
    return found
