"""What all key sources share: the protocol, the check of a key, and the row for people."""

import re
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.models.wires.base import Credential

Learn = Callable[[str, str], None]
"""Called with every secret and its origin as soon as it is known, so that it is redacted."""

_KEY = re.compile(r"[!-~]+")


class KeyOrigin(Protocol):
    """Where one key of a service comes from."""

    @property
    def label(self) -> str:
        """Its name, unique within a service. Holds no secret."""
        ...

    @property
    def where(self) -> str:
        """Where the key is stored."""
        ...

    async def credential(self) -> Credential:
        """The current key. Raises `ModelError` if there is none."""
        ...

    def refused(self) -> None:
        """The service refused the key: read it anew next time."""
        ...

    def present(self) -> bool | None:
        """Whether there is a key; None if only asking (a command, the keyring) can tell."""
        ...


class SourceRow(Struct, frozen=True):
    label: str
    present: bool | None
    where: str


def described(sources: Iterable[KeyOrigin]) -> tuple[SourceRow, ...]:
    """The sources for people, without secrets. Runs no command and opens no keyring."""
    return tuple(SourceRow(s.label, s.present(), s.where) for s in sources)


def checked(secret: str, label: str) -> str:
    """The key, if it is valid: printable ASCII that fits into a header."""
    if _KEY.fullmatch(secret):
        return secret
    said = "is empty" if not secret else "contains invalid characters"
    raise ModelError(
        "auth",
        f"the key from {label} {said}",
        f"check {label} for spaces, line breaks, quotes and characters that are not ASCII",
    )
