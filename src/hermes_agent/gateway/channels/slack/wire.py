"""The parts of Slack's events that we read: https://docs.slack.dev/reference/events/message and
https://docs.slack.dev/reference/interaction-payloads/block_actions-payload."""

import re
from html import unescape
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hermes_agent.core.gateway import Chat, InboundMessage, Person
from hermes_agent.gateway.channels.shared import clean

Stamp = Annotated[str, Meta(pattern=r"^[0-9]{1,12}\.[0-9]{1,9}\Z")]
"""The time of a message, which is its id in its chat."""
Id = Annotated[str, Meta(pattern=r"^[A-Z0-9]{1,30}\Z")]

SAID = ("", "file_share", "thread_broadcast", "bot_message", "me_message")


class SlackFile(Struct, frozen=True):
    url_private_download: str = ""
    name: str | None = None
    mimetype: str = ""
    subtype: str = ""
    size: Annotated[int, Meta(ge=0, le=2**53)] = 0


class Edited(Struct, frozen=True):
    ts: Stamp


class SlackMessage(Struct, frozen=True):
    ts: Stamp
    channel: Id = ""
    channel_type: str = ""
    user: str = ""
    bot_id: str = ""
    username: str = ""
    subtype: str = ""
    text: str = ""
    thread_ts: Stamp | None = None
    parent_user_id: str = ""
    files: tuple[SlackFile, ...] = ()
    edited: Edited | None = None


class Envelope(Struct, frozen=True):
    """A frame of the socket."""

    type: str
    envelope_id: str = ""
    payload: Any = None


class Event(Struct, frozen=True):
    event: dict[str, Any]


class SlackHead(Struct, frozen=True):
    type: str = ""
    subtype: str = ""


class Named(Struct, frozen=True):
    id: Id
    name: str = ""


class SlackAction(Struct, frozen=True):
    action_ts: Stamp
    value: str = ""


class SlackContainer(Struct, frozen=True):
    message_ts: Stamp
    thread_ts: Stamp | None = None


class SlackPress(Struct, frozen=True):
    type: str
    user: Named
    channel: Named
    actions: tuple[SlackAction, ...]
    container: SlackContainer


def is_group(chat: str) -> bool:
    """Ids of direct messages begin with D."""
    return not chat.startswith("D")


def message_id(chat: str, stamp: str) -> str:
    return f"{chat}/{stamp}"


def stamp_in(id: str) -> str:
    """The time in a message id; empty if it is not one of Slack's."""
    stamp = id.partition("/")[2].partition("/")[0]
    return stamp if re.fullmatch(r"[0-9]+\.[0-9]+", stamp) else ""


def just_before(stamp: str) -> str:
    seconds, _, rest = stamp.partition(".")
    return f"{max(int(seconds) - 1, 0)}.{rest}"


def message_of(event: dict[str, Any]) -> tuple[SlackMessage, bool] | None:
    """A message, and whether it was edited; None for other events. Slack sends both `app_mention`
    and `message` for one text, with the same id."""
    head = msgspec.convert(event, SlackHead)
    if head.type not in {"message", "app_mention"}:
        return None
    if head.subtype == "message_changed":
        now = event.get("message")
        if not isinstance(now, dict):
            raise msgspec.ValidationError("a changed message without the message")
        changed = msgspec.convert({**now, "channel": event.get("channel")}, SlackMessage)
        return (changed, True) if changed.edited else None
    message = msgspec.convert(event, SlackMessage)
    return (message, False) if message.subtype in SAID and message.channel else None


def arrived(message: SlackMessage, me: str, *, changed: bool = False) -> InboundMessage | None:
    """The message without its files; None if it is our own."""
    who = message.user or message.bot_id
    if who == me or not who:
        return None
    chat = message.channel
    id = message_id(chat, message.ts)
    thread = message.thread_ts if message.thread_ts not in {None, message.ts} else None
    named = f"<@{me}>" in message.text or f"<@{me}|" in message.text
    answers_us = thread is not None and message.parent_user_id == me
    return InboundMessage(
        id=f"{id}/{message.edited.ts}" if changed and message.edited else id,
        chat=Chat("slack", chat, thread or ""),
        person=Person(clean(who), clean(message.username)),
        text=_text(message.text, me),
        kind="edited" if changed else "message",
        group=is_group(chat),
        addressed=named or answers_us or not is_group(chat),
        reply_to=id if changed else message_id(chat, thread) if thread else "",
        time=float(message.ts),
    )


def _text(text: str, me: str) -> str:
    """The text as people see it, without the bot's name."""

    def shown(match: re.Match[str]) -> str:
        inner, _, label = match[1].partition("|")
        match inner[:1]:
            case "@":
                return "" if inner == f"@{me}" else f"@{label or inner[1:]}"
            case "#":
                return f"#{label or inner[1:]}"
            case "!":
                return f"@{label or inner[1:].partition('^')[0]}"
            case _:
                return f"{label} ({inner})" if label and label not in inner else inner

    return unescape_slack(clean(re.sub(r"<([^<>]+)>", shown, text)).strip())


def unescape_slack(text: str) -> str:
    """Slack escapes three characters and no others."""
    return re.sub(r"&(amp|lt|gt);", lambda match: unescape(match[0]), text)


def pressed(press: SlackPress) -> list[InboundMessage]:
    thread = press.container.thread_ts or ""
    chat = press.channel.id
    own = "" if thread == press.container.message_ts else thread
    return [
        InboundMessage(
            id=f"press/{chat}/{press.container.message_ts}/{action.action_ts}",
            chat=Chat("slack", chat, own),
            person=Person(press.user.id, clean(press.user.name)),
            text=clean(action.value),
            kind="press",
            group=is_group(chat),
            reply_to=message_id(chat, press.container.message_ts),
            time=float(action.action_ts),
        )
        for action in press.actions
    ]
