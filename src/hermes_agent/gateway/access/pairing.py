"""Pairing codes, each valid once and for ten minutes. Guesses get no answer and are limited."""

import re
import secrets
from collections import deque
from collections.abc import Container

from hermes_agent.core.errors import UsageError
from hermes_agent.core.gateway import PseudonymHasher
from hermes_agent.core.protocols import Clock

SIGNS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
GROUPS, GROUP = 3, 4
"""Twelve of 32 characters: 60 bits."""
SECONDS = 600.0
GUESSES = 5
"""Per person, while a code is valid."""
GUESSES_IN_ALL = 1_000
"""Per channel, in that time."""

TAKEN = ("cli", "nobody", "mcp", "api", "job", "agent", "library", "incident", "commander")
_NAME = re.compile(r"\w[\w.@+-]{0,39}")
_CODE = re.compile(
    rf"\s*(?:/pair\s+|/start\s+)?((?:[{SIGNS}]{{{GROUP}}}[- ]?){{{GROUPS}}})\s*", re.IGNORECASE
)


def new_code() -> str:
    signs = "".join(secrets.choice(SIGNS) for _ in range(GROUPS * GROUP))
    return "-".join(signs[at : at + GROUP] for at in range(0, len(signs), GROUP))


_PLAIN = re.compile(rf"(?:/pair\s+|/start\s+)?[{SIGNS}]{{{GROUP}}}(?:-[{SIGNS}]{{{GROUP}}}){{2}}")


def is_plainly_code(text: str) -> bool:
    """Whether a message looks exactly as codes are shown, which is no coincidence."""
    return _PLAIN.fullmatch(text.strip()) is not None


def code_in(text: str) -> str:
    """The code that a message consists of; empty if it is something else."""
    if len(text) > 60:
        return ""
    found = _CODE.fullmatch(text)
    return re.sub(r"[^0-9A-Z]", "", found[1].upper()) if found else ""


def hashed(ids: PseudonymHasher, channel: str, code: str) -> str:
    return ids("pairing", channel, code_in(code))


def check_name(name: str, channels: Container[str]) -> None:
    """Raises if a name in rules could be mistaken for something else."""
    if not _NAME.fullmatch(name) or name in channels or name in TAKEN or name.startswith("group-"):
        raise UsageError(
            f"not a valid name for a person: {name!r}",
            "letters, digits, dots and dashes, and not the name of a channel",
        )


class Guesses:
    """Limits how often codes are tried."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tried: dict[str, deque[tuple[float, str]]] = {}

    def may(self, channel: str, person: str) -> bool:
        """Counts a try; False if there were too many."""
        tried = self._tried.setdefault(channel, deque(maxlen=GUESSES_IN_ALL + 1))
        now = self._clock()
        while tried and (tried[0][0] <= now - SECONDS or tried[0][0] > now):
            tried.popleft()
        if len(tried) >= GUESSES_IN_ALL or sum(by == person for _, by in tried) >= GUESSES:
            return False
        tried.append((now, person))
        return True
