"""Splits long texts into several messages: between paragraphs, else lines, sentences or words. A
code block that is split is closed in one message and opened again in the next."""

import re
from collections.abc import Callable

from hermes_agent.gateway.channel import Manifest

LEAST = 40
"""The smallest message limit supported."""

_FENCE = re.compile(r" {0,3}(`{3,10}(?!`)|~{3,10}(?!~))(.*)")
_JOINED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31"
    "\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff\ufe00-\ufe0f"
    "\ufe20-\ufe2f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
"""Characters that combine with the one before."""
_JOINER = "\u200d"
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")


def split_for(manifest: Manifest, text: str) -> list[str]:
    """The messages in which a channel sends a text; a single empty one for no text."""
    return split(text, manifest.longest, MEASURES[manifest.measure]) or [""]


def split(text: str, longest: int, measure: Callable[[str], int] = len) -> list[str]:
    """The text as messages that each measure at most `longest`. Several are numbered."""
    if longest < LEAST:
        raise ValueError(f"the limit of {longest} is too small to split a text")
    text = text.strip("\n").rstrip()
    if measure(text) <= longest:
        return [text] if text else []
    room = longest - len(" (999/999)\n\n")
    parts = _parts(text, room, measure)
    return [f"{part}\n\n({at}/{len(parts)})" for at, part in enumerate(parts, 1)]


def _parts(text: str, room: int, measure: Callable[[str], int]) -> list[str]:
    parts: list[str] = []
    opening = ""
    while text:
        begin = f"{opening}\n" if opening else ""
        if measure(begin + text) <= room:
            parts.append(begin + text)
            break
        # Leave room for the fence that closes a code block.
        piece, rest = _cut(text, room - measure(begin) - _closing_room(opening, text), measure)
        opening = open_fence(begin + piece)
        closing = f"\n{_marks(opening)}" if opening else ""
        if (whole := (begin + piece).rstrip("\n") + closing).strip():
            parts.append(whole)
        # Drop blank lines between messages, except in code.
        text = rest if opening else rest.lstrip("\n")
        if opening and text.strip() == _marks(opening):
            break
    return parts


def _closing_room(opening: str, text: str) -> int:
    marks = [found[1] for line in text.split("\n") if (found := _FENCE.fullmatch(line))]
    return max((len(mark) for mark in (*marks, _marks(opening))), default=0) + 1


def open_fence(text: str) -> str:
    """The line that opened the code block a text ends in; empty if it ends outside of one."""
    opening = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        mark, words = found[1], found[2].strip()
        if not opening:
            if mark[0] == "~" or "`" not in words:
                opening = f"{mark}{words[:20]}"
        elif mark[0] == opening[0] and len(mark) >= len(_marks(opening)) and not words:
            opening = ""
    return opening


def _marks(opening: str) -> str:
    return opening[: len(opening) - len(opening.lstrip(opening[:1]))] if opening else ""


def _cut(text: str, room: int, measure: Callable[[str], int]) -> tuple[str, str]:
    """As much as fits, and the rest: cut at the best boundary that leaves no tiny first part."""
    most = _most(text, max(room, 1), measure)
    least = most // 3
    outside = [at for at in _ends(text, "\n\n", least, most) if not open_fence(text[:at])]
    if outside:
        return text[: outside[-1]], text[outside[-1] :]
    for mark in ("\n", ". ", "! ", "? ", "。", " "):
        if ends := _ends(text, mark, least, most):
            return text[: ends[-1]], text[ends[-1] :]
    for mark in ("\n", " "):
        if ends := _ends(text, mark, 0, most):
            return text[: ends[-1]], text[ends[-1] :]
    return text[: (at := _grapheme_start(text, most))], text[at:]


def _ends(text: str, mark: str, least: int, most: int) -> list[int]:
    """Positions after this mark."""
    ends = []
    at = text.find(mark, max(least - len(mark), 0))
    while at != -1 and at + len(mark) <= most:
        ends.append(at + len(mark))
        at = text.find(mark, at + 1)
    return ends


def _most(text: str, room: int, measure: Callable[[str], int]) -> int:
    """How many characters fit; at least one."""
    low, high = 1, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _grapheme_start(text: str, at: int) -> int:
    """The nearest position before, within reason, that is not inside a grapheme."""
    for place in range(at, max(at - 64, 0), -1):
        if not _is_inside_grapheme(text, place):
            return place
    return at


def _is_inside_grapheme(text: str, at: int) -> bool:
    if at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if _JOINED.match(after) or before == _JOINER:
        return True
    if _FLAG.match(before) and _FLAG.match(after):
        flags = 0
        while flags < at and _FLAG.match(text[at - 1 - flags]):
            flags += 1
        return flags % 2 == 1
    return "\ud800" <= before <= "\udbff" or (before, after) == ("\r", "\n")


def utf16(text: str) -> int:
    """The length in UTF-16 units, as most platforms count."""
    return len(text) + sum(sign > "\uffff" for sign in text)


MEASURES: dict[str, Callable[[str], int]] = {
    "utf16": utf16, "bytes": lambda text: len(text.encode())
}  # fmt: skip
