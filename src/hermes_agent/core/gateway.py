"""Values of the gateway: chats, people, inbound and outbound messages. A channel is a connection to
a chat platform."""

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes_agent.core.files import credentials_file, private_folder, write_private
from hermes_agent.core.messages import Media


class Chat(Struct, frozen=True, omit_defaults=True):
    """A conversation on a channel: a private chat, a group, a room, a mail thread."""

    channel: str
    chat: str
    """The platform's id."""
    thread: str = ""

    @property
    def target(self) -> str:
        """`telegram:123`, `slack:C1:1718.2`: how people and jobs write it. A colon in the
        platform's id is written `%3A`."""
        parts = (self.channel, self.chat, self.thread)
        return ":".join(one.replace("%", "%25").replace(":", "%3A") for one in parts if one)


def chat_of(target: str) -> Chat:
    """Parse a target; the channel alone means its home chat. Matrix ids (`!room:server`) contain a
    colon."""
    channel, _, rest = target.partition(":")
    if rest[:1] in _SIGILS and "%3A" not in rest.partition(":")[0]:
        room, colon, rest = rest.partition(":")
        server, _, thread = rest.partition(":")
        return Chat(channel, _plain(room + colon + server), _plain(thread))
    chat, _, thread = rest.partition(":")
    return Chat(channel, _plain(chat), _plain(thread))


_SIGILS = ("!", "#", "@")


def _plain(text: str) -> str:
    return text.replace("%3A", ":").replace("%25", "%")


class Person(Struct, frozen=True, omit_defaults=True):
    """The sender, according to the platform."""

    id: str
    name: str = ""
    """The display name. Data, never an instruction."""
    vouched: bool = True
    """False: the sender is not authenticated, and may decide nothing."""


class Button(Struct, frozen=True):
    text: str
    data: str
    """Returned when it is pressed; at most 60 bytes."""


class InboundMessage(Struct, frozen=True, omit_defaults=True):
    """Something that arrived on a channel."""

    id: str
    """The platform's id; the same id is stored once."""
    chat: Chat
    person: Person
    text: str = ""
    kind: Literal["message", "press", "edited", "alert"] = "message"
    """`press`: a button, whose data is the text. `edited`: the new text of an earlier message
    (`reply_to`), with its own id. `alert`: the payload of a monitoring system, for the incident
    commander."""
    group: bool = False
    addressed: bool = True
    """In a group: the agent was mentioned or replied to."""
    files: tuple[Media, ...] = ()
    voice: tuple[Media, ...] = ()
    reply_to: str = ""
    """The platform's id of the message it replies to."""
    time: float = 0.0
    """When it was written, according to the platform."""


ArrivedState = Literal["new", "done", "ignored", "dead"]
"""`dead`: handling it failed repeatedly; it is a dead letter, and shown."""


class InboxEntry(Struct, frozen=True, omit_defaults=True):
    """A row of the inbox."""

    number: int
    """Increases in order of arrival."""
    arrived: InboundMessage
    state: ArrivedState
    kept: float
    tries: int = 0
    why: str = ""
    """Why it was ignored or could not be handled."""


DeliveryKind = Literal["reply", "notice", "question", "message", "result", "command"]
DeliveryState = Literal["waiting", "sending", "sent", "dead", "dropped"]
"""`dead`: given up, and shown. `dropped`: discarded by a person."""


class OutboundMessage(Struct, frozen=True, omit_defaults=True):
    """A message to send."""

    chat: Chat
    text: str = ""
    """Markdown, as models write it; the channel renders it."""
    files: tuple[Media, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons."""
    reply_to: str = ""
    edit: str = ""
    """The platform's id of our message that this one replaces."""
    kind: DeliveryKind = "message"


class OutboxEntry(Struct, frozen=True, omit_defaults=True):
    """A row of the outbox: one message to one chat."""

    id: int
    key: str
    """The idempotency key."""
    outgoing: OutboundMessage
    state: DeliveryState
    created: float
    attempts: int = 0
    due: float = 0.0
    receipt: str = ""
    """The platform's id of the sent message."""
    sent: float | None = None
    error: str = ""
    doubtful: bool = False
    """An attempt may have arrived without a receipt, on a channel that cannot tell."""
    part: int = 0
    """How many of its parts were sent, if it is too long for one message."""
    tried: float | None = None
    unsure: float | None = None
    """When an attempt first had an unknown outcome."""


class NewDelivery(Struct, frozen=True, omit_defaults=True):
    key: str
    outgoing: OutboundMessage


Role = Literal["owner", "member", "blocked"]
"""`owner`: may approve, pair others and use every command. `member`: may talk."""


class Identity(Struct, frozen=True, omit_defaults=True):
    """Somebody who may talk to the agent on a channel."""

    channel: str
    hash: str
    """The pseudonym of the platform's id; the id itself is neither stored nor shown."""
    name: str = ""
    """The name given by the owner, which identifies them; with a leading `~`, only the platform's
    display name."""
    role: Role = "member"
    policy: str = ""
    """The policy profile of their sessions; empty means the channel's, or that of new sessions."""
    since: float = 0.0
    by: str = ""
    """How they were admitted: `code`, `allow-list`, `cli`."""


class Pairing(Struct, frozen=True, omit_defaults=True):
    """A code that admits one person, once."""

    code: str
    channel: str
    role: Role = "member"
    expires: float = 0.0
    policy: str = ""
    name: str = ""
    """The name to give the person."""


class ChatBinding(Struct, frozen=True, omit_defaults=True):
    """The session of a chat, and how far its journal was published there."""

    key: str
    """A hash of channel, chat, thread and, if each person has a session, person."""
    session: str
    chat: Chat
    told: int = 0
    """The last journal event that is in the outbox."""
    group: bool = False
    busy: Literal["queue", "interrupt", "steer"] = "queue"
    seen: tuple[str, ...] = ()
    """In a group: the hashes of known people who have written there."""


class SessionPlace(Struct, frozen=True):
    """Where a session talks to people."""

    source: str = ""
    """Such as `cli`, `job` or the name of a channel."""
    chat: Chat | None = None

    @property
    def targets(self) -> frozenset[str]:
        """Its source, and its channel, chat and thread as targets."""
        chat = self.chat
        if chat is None:
            return frozenset({self.source})
        return frozenset({chat.channel, Chat(chat.channel, chat.chat).target, chat.target})


CHAT_KEY = "chat"


def chat_key(channel: str, person: str, number: int) -> str:
    """The key of a chat's session: the person, and the inbox row it was opened for."""
    return f"{CHAT_KEY}:{channel}:{person}:{number}"


def person_of(key: str) -> str | None:
    """The person (or `group-HASH`) in the key of a chat's session; None for other sessions."""
    parts = key.split(":")
    return parts[2] if parts[0] == CHAT_KEY and len(parts) == 4 else None


class ChannelHealth(Struct, frozen=True, omit_defaults=True):
    """The health of a channel."""

    channel: str
    proven: float | None = None
    """When a round trip last succeeded."""
    tried: float | None = None
    failures: int = 0
    """Consecutive failures."""
    error: str = ""
    received: float | None = None
    sent: float | None = None
    restarts: int = 0
    """Since it was last healthy."""
    announced: bool = False
    """Its failure was announced on another channel."""


class QueueDepths(Struct, frozen=True, omit_defaults=True):
    """How many messages of a channel are pending."""

    new: int = 0
    dead_letters: int = 0
    waiting: int = 0
    dead: int = 0
    oldest: float | None = None
    """When the oldest unsent message was queued."""


class PseudonymHasher:
    """Replaces platforms' ids of people and chats by hashes that only this home can compute."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def open(
        cls, home: Path, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> "PseudonymHasher":
        """Use the key in the home's credentials, created on first use."""
        file = credentials_file(home, "gateway", "key")
        try:
            return cls(file.read_bytes())
        except FileNotFoundError:
            private_folder(file.parent)
            write_private(file, random(32))
        return cls(file.read_bytes())

    def __call__(self, *parts: str) -> str:
        digest = hashlib.blake2b(key=self._key, digest_size=10)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(4, "big") + data)
        return digest.hexdigest()
