"""Text as it would be read: hidden characters taken out, look-alike letters made plain."""

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

from hermes_agent.learning.injection_scan.tables import read

_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u180e\u034f\u115f\u1160\u3164"
_MARKS_OF_DIRECTION = "\u200e\u200f\u061c"
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_HIDDEN = frozenset(_ZERO_WIDTH + _MARKS_OF_DIRECTION + _TURNS + "\u00ad\ufff9\ufffa\ufffb")

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_JAMO = re.compile("[\u1100-\u11ff]{2,}")
_MIXED = re.compile(r"[^\W\d_]+")


@cache
def _letters(part: str) -> dict[str, str]:
    lines = dict(read("letters.table"))[part]
    return {line[0]: line[2:] for line in lines}


@cache
def _plain(char: str) -> str:
    """One character without marks, in its compatible form; nothing when it cannot be seen."""
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


@dataclass(frozen=True)
class Folded:
    """`text` as it is read, `lower` the same in small letters, and the way back."""

    text: str
    lower: str
    outs: tuple[int, ...]
    ins: tuple[int, ...]
    lengths: tuple[int, ...]

    def origin(self, at: int) -> int:
        """Where in the text that was scanned this place is."""
        if not self.outs:
            return 0
        piece = max(bisect_right(self.outs, at) - 1, 0)
        return self.ins[piece] + min(at - self.outs[piece], max(self.lengths[piece] - 1, 0))


class _Pieces:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.outs: list[int] = []
        self.ins: list[int] = []
        self.lengths: list[int] = []
        self.size = 0

    def add(self, part: str, start: int, length: int) -> None:
        if not part:
            return
        follows = bool(self.outs) and self.ins[-1] + self.lengths[-1] == start
        even = follows and self.size - self.outs[-1] == self.lengths[-1] and len(part) == length
        if even:
            self.lengths[-1] += length
        else:
            self.outs.append(self.size)
            self.ins.append(start)
            self.lengths.append(length)
        self.parts.append(part)
        self.size += len(part)


def _fold_run(run: str, start: int, pieces: _Pieces) -> None:
    at = 0
    for jamo in _JAMO.finditer(run):
        for index in range(at, jamo.start()):
            pieces.add(_plain(run[index]), start + index, 1)
        whole = unicodedata.normalize("NFC", jamo[0])
        pieces.add(whole, start + jamo.start(), len(jamo[0]))
        at = jamo.end()
    for index in range(at, len(run)):
        pieces.add(_plain(run[index]), start + index, 1)


def fold(text: str) -> Folded:
    """The text as it is read. Work grows with its length."""
    pieces = _Pieces()
    at = 0
    for run in _NOT_ASCII.finditer(text):
        pieces.add(text[at : run.start()], at, run.start() - at)
        _fold_run(run[0], run.start(), pieces)
        at = run.end()
    pieces.add(text[at:], at, len(text) - at)
    plain, lower = _as_read("".join(pieces.parts))
    return Folded(plain, lower, tuple(pieces.outs), tuple(pieces.ins), tuple(pieces.lengths))


def _as_read(plain: str) -> tuple[str, str]:
    """With words of mixed letters made Latin, and the same in small letters."""
    if not plain.isascii():
        plain = _MIXED.sub(lambda word: _unmix(word[0]), plain)
    lower = plain.lower()
    if len(lower) != len(plain):  # the few letters that grow when they are made small
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in plain)
    return plain, lower


def _unmix(word: str) -> str:
    """A word of Latin and other letters, all Latin where each other one looks like a Latin one."""
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
    """Words of rules, in the form that texts are compared in: `fold` without the way back."""
    if text.isascii():
        return text.lower()
    composed = _JAMO.sub(lambda jamo: unicodedata.normalize("NFC", jamo[0]), text)
    return _as_read(composed.translate(_PLAIN))[1]


@dataclass(frozen=True)
class HiddenText:
    why: str
    start: int


_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
_SUPPLEMENT = re.compile("[\U000e0100-\U000e01ef]")
_ZERO_RUN = re.compile(f"[{_ZERO_WIDTH}]{{4,}}")
_SPLIT_WORD = re.compile("(?<=[A-Za-z])[\u200b\u200c\u200d\u2060\u2063\ufeff]+(?=[A-Za-z])")
_OVERRIDE = re.compile("[\u202d\u202e]")
_TURN = re.compile("[\u202a\u202b\u2066-\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]")
_SPLIT_WORDS = 3
"""So many words with something unseen between their letters are no accident of copying."""


def _chooses_a_form(text: str, at: int) -> bool:
    """Whether a variation selector stands after an ideograph, where it belongs."""
    return at > 0 and unicodedata.category(text[at - 1]) == "Lo"


def hidden(text: str) -> tuple[HiddenText, ...]:
    """Characters that nobody sees and that carry something, or make text look other than it is."""
    if text.isascii():
        return ()
    found: list[HiddenText] = []
    for tags in _TAGS.finditer(text):
        flag = text[max(tags.start() - 1, 0)] == "\U0001f3f4" and tags[0].endswith("\U000e007f")
        if not (flag and len(tags[0]) <= 7):
            found.append(HiddenText("invisible tag characters carry text", tags.start()))
            break
    selectors = _SELECTORS.search(text) or next(
        (one for one in _SUPPLEMENT.finditer(text) if not _chooses_a_form(text, one.start())), None
    )
    if selectors is not None:
        found.append(HiddenText("variation selectors carry data", selectors.start()))
    run = _ZERO_RUN.search(text)
    if run is not None:
        found.append(HiddenText("a row of zero-width characters carries data", run.start()))
    split = list(_SPLIT_WORD.finditer(text))
    if len(split) >= _SPLIT_WORDS:
        found.append(HiddenText("zero-width characters split words", split[0].start()))
    turned = _OVERRIDE.search(text)
    if turned is None and not _RIGHT_TO_LEFT.search(text):
        turned = _TURN.search(text)
    if turned is not None:
        found.append(HiddenText("direction marks make text look other than it is", turned.start()))
    return tuple(found)
