"""Queues messages to people in the outbox. The gateway sends them, and need not be up yet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import (
    Chat,
    DeliveryKind,
    NewDelivery,
    OutboundMessage,
    OutboxEntry,
    chat_of,
)
from hermes_agent.core.messages import Media
from hermes_agent.host.context import RuntimeContext

HOME = "home"
"""The setting of a channel that names its default chat."""
ALL = "all"
PHONE = "phone"
"""The first channel in config.yaml that has a home chat."""
ORIGIN = "origin"
LOCAL = "local"


Channels = Mapping[str, Mapping[str, Any]]


def is_on(given: Mapping[str, Any]) -> bool:
    """Whether a channel with these settings is used."""
    return bool(given.get("enabled", True))


def places(channels: Channels, targets: Sequence[str], origin: str = "") -> list[Chat]:
    """The chats that targets refer to, without duplicates; `UsageError` for an unknown target."""
    found: dict[Chat, None] = {}
    for target in targets:
        for chat in _resolve(channels, target.strip(), origin):
            found[chat] = None
    return list(found)


def _resolve(channels: Channels, target: str, origin: str) -> list[Chat]:
    if target in ("", LOCAL):
        return []
    if target == ORIGIN:
        return [chat_of(origin)] if origin else []
    homes = [name for name, given in channels.items() if given.get(HOME) and is_on(given)]
    if target == PHONE and not homes:
        raise UsageError(
            "no channel has a home chat",
            f"`hermes gateway setup` adds one, or set channels.CHANNEL.{HOME}",
        )
    if target in (ALL, PHONE):
        return [_home(channels, name) for name in (homes if target == ALL else homes[:1])]
    chat = chat_of(target)
    if chat.channel not in channels:
        known = ", ".join(sorted(channels)) or "none"
        raise UsageError(
            f"no channel called {chat.channel!r}",
            f"configured: {known}; `hermes gateway setup` lists the available ones",
        )
    return [chat] if chat.chat else [_home(channels, chat.channel)]


def _home(channels: Channels, channel: str) -> Chat:
    home = str(channels[channel].get(HOME, ""))
    if not home:
        raise UsageError(
            f"the channel {channel!r} has no home chat",
            f"`hermes gateway pair {channel} --role owner`, or name the chat: {channel}:CHAT",
        )
    return Chat(channel, home)


class OutboundMessages:
    def __init__(self, context: RuntimeContext) -> None:
        self._context = context
        self.wake: Callable[[str], None] = lambda _channel: None
        """Called with each channel that has a new message; set by the gateway."""
        self.available: Callable[[], Mapping[str, str]] = dict
        """Names and titles of the channels that could be set up; set by the gateway."""

    def titles(self) -> Mapping[str, str]:
        """Of all channels by name, whether they are set up or not."""
        return {**{name: name for name in self._context.settings.channels}, **self.available()}

    def chats(self, targets: Sequence[str], origin: str = "") -> list[Chat]:
        return places(self._context.settings.channels, targets, origin)

    async def send(
        self,
        key: str,
        chats: Sequence[Chat],
        text: str,
        *,
        kind: DeliveryKind = "message",
        files: Sequence[Media] = (),
    ) -> Sequence[OutboxEntry]:
        """Queue a message for each of the chats. Once this returns, it is not lost; the same key
        queues it once."""
        if not text.strip() and not files:
            raise HermesError("there is nothing to send", "give a text or a file")
        text = self._context.redact(text)
        handed_in = await self._context.store.gateway.enqueue(
            *(
                NewDelivery(
                    f"{key}/{chat.target}", OutboundMessage(chat, text, tuple(files), kind=kind)
                )
                for chat in chats
            )
        )
        for channel in {chat.channel for chat in chats}:
            self.wake(channel)
        return handed_in
