"""Recognises homes of other agents, so that none is taken for ours and changed. Some of them use
`~/.hermes`, too."""

import os
from collections.abc import Iterator

from hermes_agent.core.errors import HermesError

KNOWN = {
    "hermes-agent": (".hermes",),
    "openclaw": (".openclaw", ".clawdbot", ".moltbot"),
    "nanobot": (".nanobot",),
}
"""Other agents, and the folders below the user's home where theirs may be."""
ASIDE = "~/.hermes-runtime"
"""Where our home goes when `~/.hermes` is another agent's."""

OURS = "store.id"
"""The file in every home of ours that a runtime has used."""
OPENCLAW_FILES = ("openclaw.json", "clawdbot.json", "moltbot.json")
_HERMES_AGENT = (
    "auth.json", "auth.lock", "audio_cache", "channel_directory.json", "cron", "gateway_state.json",
    "hermes-agent", "hooks", "image_cache", "kanban.db", "pairing", "sessions",
)  # fmt: skip
"""What hermes-agent keeps in its home and we never do."""
_SQLITE, _RESERVED = b"SQLite format 3\x00", 20
"""How a database begins, and where it says how many bytes of each page are reserved. Ours reserves
some for checksums."""


def foreign_home(home: str) -> str | None:
    """The other agent whose home this is; None for ours, and for a folder that nobody uses yet."""

    def has(name: str) -> bool:
        return os.path.lexists(os.path.join(home, name))

    if has(OURS):
        return None
    if any(map(has, OPENCLAW_FILES)):
        return "openclaw"
    if has("config.json") and (has("workspace") or has("sessions")):
        return "nanobot"
    marks = sum(map(has, _HERMES_AGENT))
    return "hermes-agent" if marks > 1 or (marks and _other_database(home)) else None


def _other_database(home: str) -> bool:
    try:
        with open(os.path.join(home, "state.db"), "rb") as file:
            start = file.read(_RESERVED + 1)
    except OSError:
        return False
    return start.startswith(_SQLITE) and start[_RESERVED:] == b"\0"


def refuse_foreign(home: str) -> None:
    """Raise if the home is another agent's."""
    if (peer := foreign_home(home)) is None:
        return
    raise HermesError(
        f"{home} is a home of {peer}, another program; nothing in it was changed",
        f"use another home: `export HERMES_HOME={ASIDE}`, then `hermes import {peer}`",
    )


def found_homes(user_home: str) -> Iterator[tuple[str, str]]:
    """Homes of other agents in the places where they usually are, each with its agent."""
    for peer, folders in KNOWN.items():
        for name in folders:
            path = os.path.join(user_home, name)
            if os.path.isdir(path) and foreign_home(path) == peer:
                yield peer, path
