"""What channels have in common. A channel need not use it."""

import logging
from collections.abc import Awaitable, Callable

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Media

log = logging.getLogger("hermes.gateway")

FETCH_TRIES = 3
MOST_BYTES = 25_000_000
"""Of one file that comes in."""


class Unfetched(HermesError):
    """A file that came with a message cannot be had; `passing` when trying again may help."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def clean(text: str) -> str:
    """Without halves of characters, which no store takes."""
    return text.encode("utf-8", "replace").decode()


async def fetched(
    name: str, get: Callable[[], Awaitable[Media]], sleep: Callable[[float], Awaitable[None]]
) -> tuple[Media | None, str]:
    """A file, or a sentence that says why it is missing: a file that cannot be had keeps nobody's
    message back."""
    for attempt in range(1, FETCH_TRIES + 1):
        try:
            return await get(), ""
        except Unfetched as trouble:
            why = trouble.message
            if not trouble.passing or attempt == FETCH_TRIES:
                break
        await sleep(attempt)
    log.warning("a file could not be fetched: %s", why)
    return None, f"(a file {name!r} came with this but could not be fetched: {why})"


def with_notes(text: str, notes: list[str]) -> str:
    return "\n\n".join([*([text] if text else []), *notes])


class Progress:
    """Which parts of a message of several went out already, so that another attempt goes on with
    the rest. It does not outlive the process."""

    def __init__(self) -> None:
        self._sent: dict[str, list[str]] = {}

    async def send(self, key: str, parts: list[Callable[[], Awaitable[str]]]) -> list[str]:
        """The ids of all parts."""
        sent = self._sent.setdefault(key, [])
        for part in parts[len(sent) :]:
            sent.append(await part())
        return self._sent.pop(key)
