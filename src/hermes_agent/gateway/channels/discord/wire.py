"""The parts of Discord's events that we read:
https://discord.com/developers/docs/resources/message#message-object."""

import re
from typing import Annotated

from msgspec import Meta, Struct

from hermes_agent.core.gateway import Chat, InboundMessage, Person
from hermes_agent.gateway.channels.shared import clean

Snowflake = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
Whole = Annotated[int, Meta(ge=0, le=2**53)]
SAID = (0, 19)
"""Types of messages that people write: plain ones and replies."""
THREADS = (10, 11, 12)
DIRECT = 1
VOICE = 1 << 13
PRESS = 3
EPOCH = 1_420_070_400_000


class DiscordUser(Struct, frozen=True):
    id: Snowflake
    username: str = ""
    global_name: str | None = None


class Attachment(Struct, frozen=True):
    url: str
    filename: str = ""
    content_type: str | None = None
    size: Whole = 0


class Referenced(Struct, frozen=True):
    id: Snowflake
    author: DiscordUser


class DiscordMessage(Struct, frozen=True):
    id: Snowflake
    channel_id: Snowflake
    author: DiscordUser
    content: str = ""
    edited_timestamp: str | None = None
    mentions: tuple[DiscordUser, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    type: Whole = 0
    flags: Whole = 0
    referenced_message: Referenced | None = None


class DiscordChannelInfo(Struct, frozen=True):
    id: Snowflake
    type: Whole = 0
    parent_id: Snowflake | None = None
    last_message_id: Snowflake | None = None


class Server(Struct, frozen=True):
    id: Snowflake
    channels: tuple[DiscordChannelInfo, ...] = ()
    threads: tuple[DiscordChannelInfo, ...] = ()


class Pressed(Struct, frozen=True):
    custom_id: str


class Member(Struct, frozen=True):
    user: DiscordUser


class PressedOn(Struct, frozen=True):
    id: Snowflake


class DiscordPress(Struct, frozen=True):
    id: Snowflake
    token: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.=-]{1,500}\Z")]
    type: Whole
    channel_id: Snowflake | None = None
    data: Pressed | None = None
    member: Member | None = None
    user: DiscordUser | None = None
    message: PressedOn | None = None


def chat_of(place: DiscordChannelInfo) -> Chat:
    if place.type in THREADS and place.parent_id:
        return Chat("discord", place.parent_id, place.id)
    return Chat("discord", place.id)


def written(id: str) -> float:
    """The time in a snowflake."""
    return ((int(id) >> 22) + EPOCH) / 1000


def _person(user: DiscordUser) -> Person:
    return Person(user.id, clean(user.global_name or user.username))


def arrived(message: DiscordMessage, place: DiscordChannelInfo, me: str) -> InboundMessage | None:
    """The message without its files; None if it is our own or a system message."""
    if message.author.id == me or message.type not in SAID:
        return None
    answered = message.referenced_message
    addressed = any(user.id == me for user in message.mentions) or (
        answered is not None and answered.author.id == me
    )
    group = place.type != DIRECT
    return InboundMessage(
        id=message.id,
        chat=chat_of(place),
        person=_person(message.author),
        text=_text(message, me),
        group=group,
        addressed=addressed or not group,
        reply_to=answered.id if answered else "",
        time=written(message.id),
    )


def _text(message: DiscordMessage, me: str) -> str:
    """The text without the bot's name, and with names for ids of others."""
    names = {user.id: user.global_name or user.username for user in message.mentions}

    def named(match: re.Match[str]) -> str:
        id = match[1]
        if id == me:
            return ""
        return f"@{names[id]}" if id in names else match[0]

    return clean(re.sub(r"<@!?([0-9]+)>", named, message.content)).strip()


def pressed(press: DiscordPress, place: DiscordChannelInfo) -> InboundMessage | None:
    who = press.member.user if press.member else press.user
    if press.type != PRESS or press.data is None or who is None or press.message is None:
        return None
    return InboundMessage(
        id=f"press/{press.id}",
        chat=chat_of(place),
        person=_person(who),
        text=clean(press.data.custom_id),
        kind="press",
        group=place.type != DIRECT,
        reply_to=press.message.id,
        time=written(press.id),
    )
