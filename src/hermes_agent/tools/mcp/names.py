"""Names that models can call a server's tools by: `server__tool`, unique over all servers."""

import re
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256

MAX_COUNT = 64
"""What every model service takes."""
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 8


def unique_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Each tool, as server and name, by a name of its own. One that had to be changed and would
    meet another's gets a mark that depends on nothing but itself, so that it stays the same
    whatever else comes and goes."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for server, tool in sorted(set(tools)):
        groups[_plain(server, tool)].append((server, tool))
    named: dict[str, tuple[str, str]] = {}
    for plain, group in groups.items():
        exact = [one for one in group if "__".join(one) == plain]
        keeper = exact[0] if exact else group[0] if len(group) == 1 else None
        for one in group:
            fits = one == keeper and len(plain) <= MAX_COUNT
            named[plain if fits else _marked(plain, one)] = one
    return named


def server_of(name: str, servers: Iterable[str]) -> list[str]:
    """The servers whose tool it may be."""
    return [one for one in servers if name.startswith(_plain(one, "")[: MAX_COUNT - _DIGITS])]


def _plain(server: str, tool: str) -> str:
    return _ODD.sub("_", f"{server}__{tool}")


def _marked(plain: str, tool: tuple[str, str]) -> str:
    mark = sha256("\0".join(tool).encode()).hexdigest()[:_DIGITS]
    return f"{plain[: MAX_COUNT - _DIGITS - 1]}_{mark}"
