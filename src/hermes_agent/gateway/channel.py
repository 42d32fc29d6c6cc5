"""The interface between the gateway and a channel. A channel knows only its platform: not who may
talk, what is answered, or what was sent before."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage
from hermes_agent.core.protocols import Clock

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class SettingField(Struct, frozen=True, omit_defaults=True):
    """One setting of a channel."""

    name: str
    about: str
    secret: bool = False
    """The value is the name of a secret, never the secret itself."""
    required: bool = False
    default: str = ""


class Manifest(Struct, frozen=True, omit_defaults=True):
    """What a channel can do and needs, read from `manifest.yaml` without importing its code."""

    name: str
    title: str
    about: str
    module: str
    """The module with `make(settings, context) -> Channel`."""
    packages: tuple[str, ...] = ()
    fields: tuple[SettingField, ...] = ()
    longest: int = 4_000
    """The maximum length of one message, in units of `measure`."""
    measure: Literal["utf16", "bytes"] = "utf16"
    edits: bool = False
    buttons: bool = False
    files: bool = False
    voice: bool = False
    groups: bool = False
    threads: bool = False
    typing: bool = False
    knows_twice: bool = False
    """The platform ignores a message sent again under the same key."""
    knows_for: float = 0.0
    """Seconds for which the platform remembers a key; 0: for ever."""
    proof: Literal["round-trip", "answers"] = "answers"
    """What `probe` proves: that a message we send comes back to us, or only that the platform
    answers and holds nothing for us that we did not get."""
    per_second: float = 0.0
    """Messages per second to one chat that the platform accepts; 0: no known limit."""
    steps: tuple[str, ...] = ()
    """Instructions that `hermes gateway setup` prints."""
    folder: str = ""
    """The folder of a channel in the home; empty for a built-in one."""


class ChannelContext(Struct, frozen=True):
    """What the gateway gives a channel."""

    receive: Callable[[InboundMessage, str], Awaitable[None]]
    """Hands in a message with the cursor after it. Once this returns the message is stored; only
    then may the channel acknowledge it to the platform."""
    mark: Callable[[], Awaitable[str]]
    """The last saved cursor: how far the channel has read."""
    save_cursor: Callable[[str], Awaitable[None]]
    secret: Callable[[str], str]
    """The value of a secret by its name; raises a `HermesError` with a hint."""
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    listen: str = ""
    """Where the gateway's HTTP listener is (`127.0.0.1:9912`), for channels with webhooks."""


class SendError(HermesError):
    """A message was not sent."""

    def __init__(
        self, message: str, hint: str = "", *, again: bool = True, after: float | None = None,
        doubtful: bool = False, channel: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message, hint)
        self.again = again
        """A retry may help; it does not if the chat is gone or the message is refused."""
        self.after = after
        """Seconds the platform asked to wait."""
        self.doubtful = doubtful
        """It may have arrived: the response was lost."""
        self.channel = channel
        """The whole channel is affected (token refused, unreachable), so other messages wait."""


class CredentialsRejected(HermesError):
    """The platform does not accept us (an expired token, a wrong password): retrying is useless."""


Settings = Mapping[str, Any]
"""The settings under the channel's name in `channels:` of config.yaml."""


class Channel(Protocol):
    async def run(self) -> None:
        """Connects and receives until cancelled. Returns or raises when the connection is lost; the
        gateway then starts it again. Raises `CredentialsRejected` if that would not help."""
        ...

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        """Sends or edits one message that is not too long and returns the platform's id for it.
        Raises `SendError`. `key` is the same for every attempt."""
        ...

    async def typing(self, chat: Chat) -> None:
        """Shows a typing indicator for a few seconds if the platform has one. Never raises."""
        ...

    async def probe(self) -> None:
        """Proves that messages reach us, as far as the manifest's `proof` says; raises a
        `HermesError` if they do not. The caller sets a timeout."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class WebhookReceiver(Protocol):
    """A channel whose platform calls us over HTTP."""

    async def called(self, request: "Request", rest: str) -> "Response":
        """Answers a request to `/channels/<name>/<rest>`; the channel itself checks who calls."""
        ...


class ChannelDirectory(Protocol):
    """What the parts of the gateway see of the running channels."""

    def channel(self, name: str) -> Channel | None:
        """The channel, if it is connected."""
        ...

    def manifest(self, name: str) -> Manifest | None: ...

    def wake(self, channel: str) -> None:
        """Tells its outbox that there is something to send."""
        ...
