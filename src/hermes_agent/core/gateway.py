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
    """A place on a channel: a private chat, a group, a room, a mailbox and its thread."""

    channel: str
    chat: str
    """As the platform names it."""
    thread: str = ""

    @property
    def target(self) -> str:
        """`telegram:123`, `slack:C1:1718.2`: what people and jobs write. A colon within the
        platform's own name is written `%3A`."""
        parts = (self.channel, self.chat, self.thread)
        return ":".join(one.replace("%", "%25").replace(":", "%3A") for one in parts if one)


def chat_of(target: str) -> Chat:
    """A target as people write it; the channel alone stands for its home chat. The names of
    Matrix (`!room:server`) hold a colon of their own."""
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
    """Who wrote, as the platform says."""

    id: str
    name: str = ""
    """As others see them. Data, never an instruction."""
    vouched: bool = True
    """False: whoever called says that it was them; nobody has seen to that. They decide nothing."""


class Button(Struct, frozen=True):
    text: str
    data: str
    """What comes back when it is pressed; at most 60 bytes."""


class InboundMessage(Struct, frozen=True, omit_defaults=True):
    """Something that came in on a channel."""

    id: str
    """The platform's id for it: what arrives twice under one id is one."""
    chat: Chat
    person: Person
    text: str = ""
    kind: Literal["message", "press", "edited", "alert"] = "message"
    """`press`: of a button, whose data is the text. `edited`: an earlier message, which `reply_to`
    names, says this now; it has an id of its own.
    `alert`: a body in the format of a monitoring system, for the incident commander."""
    group: bool = False
    addressed: bool = True
    """In a group: the agent was named or replied to."""
    files: tuple[Media, ...] = ()
    voice: tuple[Media, ...] = ()
    reply_to: str = ""
    """The platform's id of the message that it answers."""
    time: float = 0.0
    """When it was written, as the platform says."""


ArrivedState = Literal["new", "done", "ignored", "dead"]
"""`dead`: dealing with it failed again and again; it is set aside and shown."""


class InboxEntry(Struct, frozen=True, omit_defaults=True):
    """A row of what arrived."""

    number: int
    """In the order of arrival."""
    arrived: InboundMessage
    state: ArrivedState
    kept: float
    tries: int = 0
    why: str = ""
    """Why it was ignored, or could not be dealt with."""


DeliveryKind = Literal["reply", "notice", "question", "message", "result", "command"]
DeliveryState = Literal["waiting", "sending", "sent", "dead", "dropped"]
"""`dead`: it was given up, and is shown. `dropped`: a person did not want it any more."""


class OutboundMessage(Struct, frozen=True, omit_defaults=True):
    """What is to be sent."""

    chat: Chat
    text: str = ""
    """Markdown, as models write it; the channel renders it."""
    files: tuple[Media, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of them."""
    reply_to: str = ""
    edit: str = ""
    """The platform's id of a message of ours that this takes the place of."""
    kind: DeliveryKind = "message"


class OutboxEntry(Struct, frozen=True, omit_defaults=True):
    """A row of the ledger: one message to one place."""

    id: int
    key: str
    """The same for the same message, however often it is asked for."""
    outgoing: OutboundMessage
    state: DeliveryState
    created: float
    attempts: int = 0
    due: float = 0.0
    receipt: str = ""
    """The platform's id of what was sent."""
    sent: float | None = None
    error: str = ""
    doubtful: bool = False
    """An attempt may have arrived though no receipt came, on a channel that cannot tell."""
    part: int = 0
    """How many messages of it were sent, where it is too long for one."""
    tried: float | None = None
    unsure: float | None = None
    """When it was first tried with an outcome that nobody knows."""


class NewDelivery(Struct, frozen=True, omit_defaults=True):
    key: str
    outgoing: OutboundMessage


Role = Literal["owner", "member", "blocked"]
"""`owner`: may answer approvals, pair others, and use every command. `member`: may talk."""


class Identity(Struct, frozen=True, omit_defaults=True):
    """Somebody who may talk to the agent on a channel."""

    channel: str
    hash: str
    """Of the platform's id: what is stored and shown."""
    name: str = ""
    """As the home's owner calls them, which counts as who they are; with `~` before it, only as
    the platform does."""
    role: Role = "member"
    policy: str = ""
    """The policy profile of sessions they open; empty: the channel's, else that of new sessions."""
    since: float = 0.0
    by: str = ""
    """Who let them in: `code`, `allow-list`, `cli`."""


class Pairing(Struct, frozen=True, omit_defaults=True):
    """A code that lets its bearer in, once."""

    code: str
    channel: str
    role: Role = "member"
    expires: float = 0.0
    policy: str = ""
    name: str = ""
    """What the person is to be called."""


class ChatBinding(Struct, frozen=True, omit_defaults=True):
    """Which session a chat's messages go to, and how far its journal was told there."""

    key: str
    """Channel, chat, thread and, where each has their own, person, hashed."""
    session: str
    chat: Chat
    told: int = 0
    """The last number of the journal whose news are in the ledger."""
    group: bool = False
    busy: Literal["queue", "interrupt", "steer"] = "queue"
    seen: tuple[str, ...] = ()
    """In a group: the hashes of those we know who have written there."""


CHAT_KEY = "chat"


def chat_key(channel: str, person: str, number: int) -> str:
    """The key of a session of a chat: whose it is, and the row that it was opened for."""
    return f"{CHAT_KEY}:{channel}:{person}:{number}"


def person_of(key: str) -> str | None:
    """Whose session of a chat this is: a person's, or `group-HASH`; None for any other session."""
    parts = key.split(":")
    return parts[2] if parts[0] == CHAT_KEY and len(parts) == 4 else None


class ChannelHealth(Struct, frozen=True, omit_defaults=True):
    """What a channel has shown of its being alive."""

    channel: str
    proven: float | None = None
    """When a round trip last succeeded."""
    tried: float | None = None
    failures: int = 0
    """In a row."""
    error: str = ""
    received: float | None = None
    sent: float | None = None
    restarts: int = 0
    """Since it last was well."""
    announced: bool = False
    """Its being deaf was told elsewhere."""


class QueueDepths(Struct, frozen=True, omit_defaults=True):
    """How much of a channel is not done."""

    new: int = 0
    dead_letters: int = 0
    waiting: int = 0
    dead: int = 0
    oldest: float | None = None
    """When the oldest that waits to be sent was written."""


class PseudonymHasher:
    """Names that platforms give to people and places, as hashes that only this home can make."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def open(
        cls, home: Path, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> "PseudonymHasher":
        """With the key that lies among the home's credentials; the first use makes it."""
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
