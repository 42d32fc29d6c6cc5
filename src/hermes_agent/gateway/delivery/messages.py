"""A text for a chat as rows of the ledger: parted where it is too long for one message."""

from collections.abc import Sequence

from hermes_agent.core.gateway import Button, Chat, DeliveryKind, NewDelivery, OutboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import Manifest
from hermes_agent.gateway.delivery.splitting import split, utf16

MAX_LENGTH = 4_000
"""Where nothing is known of a channel."""


def rows(
    key: str,
    chat: Chat,
    text: str,
    manifest: Manifest | None,
    *,
    kind: DeliveryKind = "reply",
    files: Sequence[Media] = (),
    buttons: tuple[tuple[Button, ...], ...] = (),
    reply_to: str = "",
    edit: str = "",
) -> list[NewDelivery]:
    """The first part answers or edits, the last has the buttons and the files."""
    parts = split(text, manifest.longest if manifest else MAX_LENGTH, utf16) or [""]
    last = len(parts) - 1
    return [
        NewDelivery(
            f"{key}/{at}",
            OutboundMessage(
                chat,
                part,
                tuple(files) if at == last else (),
                buttons if at == last else (),
                reply_to if at == 0 else "",
                edit if at == 0 else "",
                kind,
            ),
        )
        for at, part in enumerate(parts)
    ]
