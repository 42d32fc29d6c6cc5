"""Platforms for the contract suite of channels (`tests/gateway/contract`).

A platform is what stands on the other side of a channel: people who write, and a place where what
the agent sends is seen. Each is a class with the methods of `Platform`; `PLATFORMS` names them all.
One that is a real server serves as well as one that only speaks its API. `switches` says which
troubles it can be told to make: the suite tries each trouble on the platforms that have it. What a
channel cannot do, its manifest says, and the suite asserts that too: nothing is skipped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from hermes_agent.core.gateway import Chat
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import WebhookReceiver

Where = Literal["private", "group", "thread"]

Switch = Literal[
    "deaf",
    "cut",
    "limited",
    "broken",
    "twice",
    "malformed",
    "expired",
    "refuses-markup",
    "loses-files",
    "forgets-chat",
]
"""`deaf`: connected, but brings nothing. `cut`: connections end. `limited`: asks to send less
often. `broken`: answers with an error of its own. `twice`: brings the last message again.
`malformed`: brings rubbish. `expired`: our token is no longer accepted. `refuses-markup`: takes
plain text only. `loses-files`: a file that came cannot be fetched. `forgets-chat`: the chat is gone
for good."""


@dataclass(frozen=True)
class Shown:
    """A message of the agent, as people see it now."""

    id: str
    """As the channel gives it back."""
    chat: Chat
    text: str
    """What people read, without markup."""
    raw: str = ""
    """As it was sent."""
    files: tuple[Media, ...] = ()
    buttons: tuple[tuple[str, ...], ...] = ()
    """Their words, in rows."""
    reply_to: str = ""
    edited: bool = False


@dataclass
class Trouble:
    """Which switches are on."""

    deaf: bool = False
    expired: bool = False
    refuses_markup: bool = False
    loses_files: bool = False
    forgets_chat: bool = False
    limited: int = 0
    """So many messages are refused by `after` seconds."""
    broken: int = 0
    """So many requests to send fail."""
    after: float = 31.0


class Platform(Protocol):
    name: str
    """The folder of the channel."""
    switches: frozenset[Switch]
    trouble: Trouble
    listen: str
    """Where the door is that it calls; empty for one that is not called."""
    channel: WebhookReceiver | None
    """Who answers there."""

    async def start(self, folder: Path) -> None: ...
    async def stop(self) -> None: ...

    def settings(self) -> Mapping[str, Any]:
        """What stands under the channel's name in config.yaml."""
        ...

    def secrets(self) -> Mapping[str, str]: ...

    def chat(self, where: Where = "private") -> Chat:
        """Where a message said there arrives from, and what is sent there goes to."""
        ...

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
        """A person (always the same: id `person`) writes; gives the `Arrived.id` that it has to
        arrive under. `addressed` in a group names the agent before the text."""
        ...

    @property
    def person(self) -> str:
        """`Person.id` of who writes."""
        ...

    async def change(self, id: str, text: str) -> None:
        """The person changes what they said."""
        ...

    async def press(self, shown: Shown, button: str) -> None:
        """The person presses a button of a message, by its words."""
        ...

    def sent(self) -> Sequence[Shown]:
        """What the agent has sent, in order."""
        ...

    def acknowledged(self, id: str) -> bool | None:
        """Whether the platform believes that we have what was said under that id; None where it
        does not want to know."""
        ...

    async def again(self) -> None:
        """Bring the last thing that was said once more."""
        ...

    async def bring(self, rubbish: Any) -> None:
        """Bring something malformed in the place of a message."""
        ...

    def sound(self) -> Any:
        """What `bring` would be given for a message that is well-formed, to be damaged by chance.
        Not asked of those without `malformed`."""
        ...

    async def cut(self) -> None:
        """End all connections."""
        ...

    def seen_typing(self) -> Sequence[Chat]: ...


_PLATFORMS = {
    "email": "tests.support.platforms.email:EmailPlatform",
    "discord": "tests.support.platforms.discord:DiscordPlatform",
    "slack": "tests.support.platforms.slack:SlackPlatform",
    "telegram": "tests.support.platforms.telegram:TelegramPlatform",
    "webhook": "tests.support.platforms.webhook:WebhookPlatform",
    "matrix": "tests.support.platforms.matrix:MatrixPlatform",
    "ntfy": "tests.support.platforms.ntfy:NtfyPlatform",
}

NAMES = tuple(_PLATFORMS)


def platform(name: str) -> Platform:
    module, _, kind = _PLATFORMS[name].partition(":")
    made: Platform = getattr(import_module(module), kind)()
    return made


def having(*switches: Switch) -> list[str]:
    """The platforms that can make this trouble."""
    return [name for name in NAMES if set(switches) <= platform(name).switches]
