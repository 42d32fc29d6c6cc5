"""What the parts of the gateway see of the channels that live."""

from typing import Protocol

from hermes_agent.gateway.channel import Channel, Manifest


class ChannelDirectory(Protocol):
    def channel(self, name: str) -> Channel | None:
        """The channel, where it runs."""
        ...

    def manifest(self, name: str) -> Manifest | None: ...

    def wake(self, channel: str) -> None:
        """There is something to send."""
        ...
