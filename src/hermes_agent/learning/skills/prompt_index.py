"""The list of skills in a session's prompt, within a token limit: the more skills, the less is said
of each."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes_agent.core.skills import SkillState

MAX_TOKENS = 3_000
LENGTHS = (240, 160, 110, 80, 60, 40)
"""Characters of a description, tried in this order until all fit."""
OTHER = "other"
INCIDENTS = "incidents"
FIND_MORE = "Find more with `recall`, kind skill."

_PIECE = re.compile(r"[A-Za-z]+| ?[0-9]|\n|[^\sA-Za-z0-9]")


class SkillIndexEntry(Struct, frozen=True):
    name: str
    description: str
    category: str
    state: SkillState
    digest: str
    incident: str = ""
    """The incident category it is for."""
    shipped: bool = False


def index(entries: Sequence[SkillIndexEntry], most_tokens: int = MAX_TOKENS) -> str:
    """One line each with its description if that fits, else with a shorter one, else names by
    category. Bundled skills for incidents are listed by name only: incidents say more."""
    if bundled := [each.name for each in entries if each.incident and each.shipped]:
        line = f"- {INCIDENTS}: {', '.join(bundled)}"
        rest = [each for each in entries if each.name not in bundled]
        return "\n".join(filter(None, [index(rest, most_tokens - tokens(line)), line]))
    if not entries:
        return ""
    for length in (None, *LENGTHS):
        text = "\n".join(f"- {each.name}: {_short(each.description, length)}" for each in entries)
        if tokens(text) <= most_tokens:
            return text
    return _by_category(entries, most_tokens)


def tokens(text: str) -> int:
    """An estimate for tokenizers with a small vocabulary."""
    return sum(map(_cost, _PIECE.findall(text)))


def _cost(piece: str) -> int:
    if not piece.isascii():
        return max(1, len(piece.encode()) - 1)
    if piece.isalpha():
        return 1 + (len(piece) - 1) // 4
    return len(piece)


def _by_category(entries: Sequence[SkillIndexEntry], most_tokens: int) -> str:
    groups: dict[str, list[str]] = {}
    for each in sorted(entries, key=lambda each: (each.category or OTHER, each.name)):
        groups.setdefault(each.category or OTHER, []).append(each.name)
    whole = _listed(groups, len(entries))
    if tokens(whole) <= most_tokens:
        return whole
    head = f"{len(entries):,} skills, too many to name. {FIND_MORE}\n"
    sizes = range(1, max(map(len, groups.values())))
    fits = bisect_left(
        sizes, True, key=lambda size: tokens(head + _listed(groups, size)) > most_tokens
    )
    if fits:
        return head + _listed(groups, sizes[fits - 1])
    return head + _counted(groups, most_tokens - tokens(head))


def _listed(groups: Mapping[str, Sequence[str]], most: int) -> str:
    """Each category with at most so many names."""
    lines = []
    for category, names in groups.items():
        more = f" and {len(names) - most:,} more" if len(names) > most else ""
        lines.append(f"- {category}: {', '.join(names[:most])}{more}")
    return "\n".join(lines)


def _counted(groups: Mapping[str, Sequence[str]], most_tokens: int) -> str:
    """The largest categories with how many they hold, as many as fit."""
    lines: list[str] = []
    left = most_tokens - tokens("\n- and 99,999 more categories")
    for category, names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        line = f"- {category}: {len(names):,}"
        left -= tokens(f"{line}\n")
        if left < 0:
            lines.append(f"- and {len(groups) - len(lines):,} more categories")
            break
        lines.append(line)
    return "\n".join(lines)


def _short(description: str, length: int | None) -> str:
    line = " ".join(description.split())
    if length is None or len(line) <= length:
        return line
    cut = line[: length - 1]
    head, space, _ = cut.rpartition(" ")
    return f"{(head if space and len(head) > length // 2 else cut).rstrip(' ,.;:')}…"
