"""Codes that let their bearers in: each once, for ten minutes. Whoever guesses hears nothing, and
soon is not even listened to."""

import re
import secrets
from collections import deque
from collections.abc import Container

from hermes_agent.core.errors import UsageError
from hermes_agent.core.gateway import Pairing, Role
from hermes_agent.core.protocols import Clock
from hermes_agent.core.pseudonyms import PseudonymHasher

SIGNS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
GROUPS, GROUP = 3, 4
"""Of 32 signs twelve: 60 bits."""
SECONDS = 600.0
GUESSES = 5
"""Of one person, in the time that a code lasts."""
GUESSES_IN_ALL = 1_000
"""On one channel, in that time."""

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
    """Whether a message is written as codes are shown: nobody says such a thing by chance."""
    return _PLAIN.fullmatch(text.strip()) is not None


def code_in(text: str) -> str:
    """The code that a message consists of; empty when it is none."""
    if len(text) > 60:
        return ""
    found = _CODE.fullmatch(text)
    return re.sub(r"[^0-9A-Z]", "", found[1].upper()) if found else ""


def kept(
    ids: PseudonymHasher, code: str, channel: str, role: Role, policy: str, name: str, now: float
) -> Pairing:
    """As it is kept: by its hash."""
    return Pairing(hashed(ids, channel, code), channel, role, now + SECONDS, policy, name)


def hashed(ids: PseudonymHasher, channel: str, code: str) -> str:
    return ids("pairing", channel, code_in(code))


def check_name(name: str, channels: Container[str]) -> None:
    """A name that rules may know somebody by: none that stands for something else."""
    if not _NAME.fullmatch(name) or name in channels or name in TAKEN or name.startswith("group-"):
        raise UsageError(
            f"{name!r} cannot be somebody's name",
            "letters, digits, dots and dashes, and not the name of a channel",
        )


class Guesses:
    """How often codes were tried."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tried: dict[str, deque[tuple[float, str]]] = {}

    def may(self, channel: str, person: str) -> bool:
        """Count a try; False when there were too many."""
        tried = self._tried.setdefault(channel, deque(maxlen=GUESSES_IN_ALL + 1))
        now = self._clock()
        while tried and (tried[0][0] <= now - SECONDS or tried[0][0] > now):
            tried.popleft()
        if len(tried) >= GUESSES_IN_ALL or sum(by == person for _, by in tried) >= GUESSES:
            return False
        tried.append((now, person))
        return True
