"""What a channel is to the gateway. A channel knows its platform and nothing else: not who may
talk, not what is answered, not what was sent before."""

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
    """One setting of a channel, for `hermes gateway setup`, the checks and the documentation."""

    name: str
    about: str
    secret: bool = False
    """Its value is the name of a secret, never the secret."""
    required: bool = False
    default: str = ""


class Manifest(Struct, frozen=True, omit_defaults=True):
    """All that is known of a channel before it is imported: data, in `manifest.py`."""

    name: str
    title: str
    about: str
    module: str
    """Where `make(settings, surroundings) -> Channel` is found."""
    packages: tuple[str, ...] = ()
    extra: str = ""
    """What to install when a package is missing."""
    fields: tuple[SettingField, ...] = ()
    longest: int = 4_000
    """The most characters of one message."""
    edits: bool = False
    buttons: bool = False
    files: bool = False
    voice: bool = False
    groups: bool = False
    threads: bool = False
    typing: bool = False
    receives: bool = True
    """False: it can only send."""
    knows_twice: bool = False
    """A message sent twice under one key arrives once."""
    knows_for: float = 0.0
    """Seconds for which the platform knows a key again; 0: for good."""
    proof: Literal["round-trip", "answers"] = "answers"
    """What `probe` shows: that something sent comes in again, or only that the platform answers
    and has nothing for us that we did not get."""
    per_second: float = 0.0
    """Messages to one chat a second that the platform bears; 0: no limit is known."""
    steps: tuple[str, ...] = ()
    """How to get there, for `hermes gateway setup`."""
    folder: str = ""
    """Where it lies, of a channel of the home."""


class ChannelContext(Struct, frozen=True):
    """What a channel is handed."""

    receive: Callable[[InboundMessage, str], Awaitable[None]]
    """Hand in what arrived, with the mark of how far was read. When it returns it is kept: only
    then may the platform be told that we have it."""
    mark: Callable[[], Awaitable[str]]
    """How far was read, as last handed in."""
    save_cursor: Callable[[str], Awaitable[None]]
    secret: Callable[[str], str]
    """The value of a secret by its name; raises a `HermesError` that says what to do."""
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    listen: str = ""
    """Where the gateway's own door listens (`127.0.0.1:9912`), for channels that are called."""


class SendError(HermesError):
    """A message did not go out."""

    def __init__(
        self, message: str, hint: str = "", *, again: bool = True, after: float | None = None,
        doubtful: bool = False, channel: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message, hint)
        self.again = again
        """Whether trying again may help; a chat that is gone or a message that is refused does
        not."""
        self.after = after
        """Seconds the platform asked to wait."""
        self.doubtful = doubtful
        """It may have arrived all the same: the answer got lost."""
        self.channel = channel
        """The channel itself is at fault (token refused, unreachable), not this message: others
        wait too."""


class CredentialsRejected(HermesError):
    """The platform does not accept us (an expired token, a wrong password): no restart helps."""


Settings = Mapping[str, Any]
"""What stands under the channel's name in `channels:` of config.yaml."""


class Channel(Protocol):
    async def run(self) -> None:
        """Connect and receive until cancelled. Returns or raises when the connection is lost; the
        gateway begins it again. Raises `CredentialsRejected` when no restart helps."""
        ...

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        """Send one message that is not too long, or edit one, and give the platform's id of it.
        Raises `SendError`. `key` is the same for every attempt."""
        ...

    async def typing(self, chat: Chat) -> None:
        """Show for a few seconds that an answer is being written; does nothing where there is no
        such thing. Trouble is not raised."""
        ...

    async def probe(self) -> None:
        """Prove that what is sent to us arrives, as far as the manifest's `proof` says; returns
        when it is proven, raises a `HermesError` that says what is not. Bounded by the caller."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class WebhookReceiver(Protocol):
    """A channel whose platform calls us, by the door to the network."""

    async def called(self, request: "Request", rest: str) -> "Response":
        """Answer what came to `/channels/<name>/<rest>`. Who may, it finds out for itself."""
        ...
