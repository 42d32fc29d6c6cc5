"""What every source of keys shares: the seam, the check of a key, and what people are shown."""

import re
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.models.wires.base import Credential

Learn = Callable[[str, str], None]
"""Told every secret as soon as it is known, with where it came from, so that it is redacted."""

_KEY = re.compile(r"[!-~]+")


class KeyOrigin(Protocol):
    """Where one key of a service comes from."""

    @property
    def label(self) -> str:
        """What it is called; no two sources of a service share one. Holds no secret."""
        ...

    @property
    def where(self) -> str:
        """What keeps the key."""
        ...

    async def credential(self) -> Credential:
        """The key as it is now. Raises `ModelError` when there is none."""
        ...

    def refused(self) -> None:
        """The service refused the key: the next ask looks again."""
        ...

    def present(self) -> bool | None:
        """Whether there is a key; None where that takes a question to somebody else."""
        ...


class SourceRow(Struct, frozen=True):
    label: str
    present: bool | None
    where: str


def described(sources: Iterable[KeyOrigin]) -> tuple[SourceRow, ...]:
    """The sources for people, without any secret. Runs nothing and asks nobody."""
    return tuple(SourceRow(s.label, s.present(), s.where) for s in sources)


def checked(secret: str, label: str) -> str:
    """The key, if it can be one: what a header carries as it is."""
    if _KEY.fullmatch(secret):
        return secret
    said = "is empty" if not secret else "has characters that no key has"
    raise ModelError(
        "auth",
        f"the key from {label} {said}",
        f"check {label} for spaces, line breaks, quotes and characters that are not ASCII",
    )
