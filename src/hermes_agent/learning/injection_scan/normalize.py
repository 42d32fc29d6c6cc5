"""Normalises text for the scan: removes hidden characters and replaces look-alike letters."""

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from hermes_agent.learning.tables import read

_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u180e\u034f\u115f\u1160\u3164"
_MARKS_OF_DIRECTION = "\u200e\u200f\u061c"
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_HIDDEN = frozenset(_ZERO_WIDTH + _MARKS_OF_DIRECTION + _TURNS + "\u00ad\ufff9\ufffa\ufffb")

_PIECE = re.compile("[\x00-\x7f]+|[\u1100-\u11ff]{2,}|.", re.DOTALL)
"""ASCII, letters of one Korean syllable or more, or one other character."""
_JAMO = re.compile("[\u1100-\u11ff]{2,}")
_MIXED = re.compile(r"[^\W\d_]+")


@cache
def _letters(part: str) -> dict[str, str]:
    lines = dict(read(Path(__file__).with_name("letters.table")))[part]
    return {line[0]: line[2:] for line in lines}


@cache
def _plain(char: str) -> str:
    """One character without accents, in its compatible form; empty if it is invisible."""
    known = _letters("plain")
    if char in known:
        return known[char]
    code = ord(char)
    if char in _HIDDEN or 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF:
        return ""
    if code >= 0x1F130:
        for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6):  # letters in squares, circles and flags
            if first <= code < first + 26:
                return chr(ord("A") + code - first)
    if unicodedata.is_normalized("NFKD", char) and unicodedata.category(char)[0] != "M":
        return char  # as most are
    parts = unicodedata.normalize("NFKD", char)
    kept = "".join(part for part in parts if unicodedata.category(part) not in ("Mn", "Me"))
    plain = "".join(known.get(part, part) for part in unicodedata.normalize("NFC", kept))
    return "".join(part for part in plain if part not in _HIDDEN)


class Folded(Struct, frozen=True):
    """Normalised text, the same in lower case, and the way back to the original."""

    text: str
    lower: str
    origins: Sequence[int]
    """The original position of each character."""

    def origin(self, at: int) -> int:
        return self.origins[min(at, len(self.origins) - 1)] if self.origins else 0


def fold(text: str) -> Folded:
    parts: list[str] = []
    origins = array("L")
    for piece in _PIECE.finditer(text):
        part, start = piece[0], piece.start()
        if part.isascii():
            origins.extend(range(start, piece.end()))
        else:
            part = _plain(part) if len(part) == 1 else unicodedata.normalize("NFC", part)
            origins.extend([start] * len(part))
        parts.append(part)
    return Folded(*_as_read("".join(parts)), origins)


def _as_read(plain: str) -> tuple[str, str]:
    """With words of mixed scripts made Latin, and the same in lower case."""
    if not plain.isascii():
        plain = _MIXED.sub(lambda word: _unmix(word[0]), plain)
    lower = plain.lower()
    if len(lower) != len(plain):  # a few letters grow in lower case
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in plain)
    return plain, lower


def _unmix(word: str) -> str:
    """A word of mixed letters in Latin, if each other one looks like a Latin one."""
    if word.isascii():
        return word
    if not any(char.isascii() for char in word):
        return word
    alike = _letters("lookalikes")
    if all(char.isascii() or char in alike for char in word):
        return "".join(alike.get(char, char) for char in word)
    return word


class _Plain(dict[int, str]):
    def __missing__(self, code: int) -> str:
        plain = self[code] = chr(code) if code < 128 else _plain(chr(code))
        return plain


_PLAIN = _Plain()


def plain_words(text: str) -> str:
    """`fold` without the way back, for the words of rules."""
    if text.isascii():
        return text.lower()
    composed = _JAMO.sub(lambda jamo: unicodedata.normalize("NFC", jamo[0]), text)
    return _as_read(composed.translate(_PLAIN))[1]


_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
_SUPPLEMENT = re.compile("[\U000e0100-\U000e01ef]")
_ZERO_RUN = re.compile(f"[{_ZERO_WIDTH}]{{4,}}")
_SPLIT_WORD = re.compile("(?<=[A-Za-z])[\u200b\u200c\u200d\u2060\u2063\ufeff]+(?=[A-Za-z])")
_OVERRIDE = re.compile("[\u202d\u202e]")
_TURN = re.compile("[\u202a\u202b\u2066-\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]")
_SPLIT_WORDS = 3
"""Fewer words with something invisible inside may be an accident of copying."""


def _chooses_a_form(text: str, at: int) -> bool:
    """Whether a variation selector follows an ideograph, where it belongs."""
    return at > 0 and unicodedata.category(text[at - 1]) == "Lo"


def hidden(text: str) -> Iterator[tuple[str, int]]:
    """Invisible characters that carry data or change how text looks: why, and where."""
    if text.isascii():
        return
    for tags in _TAGS.finditer(text):
        flag = text[max(tags.start() - 1, 0)] == "\U0001f3f4" and tags[0].endswith("\U000e007f")
        if not (flag and len(tags[0]) <= 7):
            yield "invisible tag characters carry text", tags.start()
            break
    selectors = _SELECTORS.search(text) or next(
        (one for one in _SUPPLEMENT.finditer(text) if not _chooses_a_form(text, one.start())), None
    )
    if selectors is not None:
        yield "variation selectors carry data", selectors.start()
    run = _ZERO_RUN.search(text)
    if run is not None:
        yield "a row of zero-width characters carries data", run.start()
    split = list(_SPLIT_WORD.finditer(text))
    if len(split) >= _SPLIT_WORDS:
        yield "zero-width characters split words", split[0].start()
    turned = _OVERRIDE.search(text)
    if turned is None and not _RIGHT_TO_LEFT.search(text):
        turned = _TURN.search(text)
    if turned is not None:
        yield "direction marks make text look other than it is", turned.start()
