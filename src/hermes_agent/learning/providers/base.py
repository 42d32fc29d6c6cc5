"""What every memory provider does."""

from collections.abc import Sequence
from typing import Literal, Protocol

Said = tuple[Literal["user", "assistant"], str]
"""Who spoke, and the words."""


class Provider(Protocol):
    """Every method raises `HermesError` when the service fails or takes longer than
    `memory.timeout_seconds`; after that the service is left alone for a while."""

    @property
    def name(self) -> str: ...

    async def recall(self, query: str, limit: int) -> Sequence[str]:
        """What the service remembers that fits, best first, each on one line."""
        ...

    async def remember(self, session: str, messages: Sequence[Said]) -> None:
        """Hand over what was said. Whoever calls has taken the secrets out."""
        ...

    async def check(self) -> str:
        """Ask the service now, even if it is being left alone; how it is, in a sentence."""
        ...

    async def close(self) -> None: ...
