"""Extracts the words of a message that say what it is about, with their possible spellings."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from hermes_agent.learning.tables import read

TEXT_CHARS = 4_000
"""Half from the beginning of a long message, half from its end."""
TERMS = 40
_CJK = "\u3005-\u3007\u3041-\u30ff\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_ACCENT = re.compile("[\u0300-\u036f]+")
_PLAIN_WORD = re.compile("[a-zA-Z0-9]+")
_VOWELS = frozenset("aeiouy")
_ROUND = (
    "\"'`.,;:!?()[]{}<>*#\u201c\u201d\u201e\u00ab\u00bb\u2026"
    "\u3002\u3001\uff0c\uff1f\uff01\uff1a\uff1b\uff08\uff09"
)
"""Characters around words."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class RecallTerm(NamedTuple):
    """A normalised word, and the forms in which the index may have it."""

    key: str
    forms: tuple[str, ...]
    common: bool = False
    """Said of almost everything in this field."""
    whole: bool = False
    """A compound name, such as `nginx.service`, whose parts are terms too."""


def fold(text: str) -> str:
    """Without case and accents, as the index keeps it."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _ACCENT.sub("", spread))


def _stem(word: str) -> str:
    """A word without its ending; need not be right, only the same for all forms."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    if (word.endswith("ies") and len(word) > 4) or word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) > 2 and not _VOWELS.isdisjoint(rest):
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    if word.endswith("ment") and len(word) > 7:
        word = word[:-4]
    if word.endswith(("tion", "sion")) and len(word) > 6:
        word = word[:-3]
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    return f"{word[:-1]}i" if word.endswith("y") else word


def _spellings(stem: str) -> Iterator[str]:
    """Likely words with this stem."""
    yield stem
    if len(stem) < 3 or not (stem.isascii() and stem.isalpha()):
        return
    endings = ("y", "ies", "ied") if stem.endswith("i") else ("s", "ed", "ing")
    yield from (f"{stem.removesuffix('i')}{ending}" for ending in endings)
    if len(stem) > 3 or stem.endswith("x"):
        yield from (f"{stem}e", f"{stem}es")
    if stem.endswith(("t", "s")):
        yield f"{stem}ion"
    elif len(stem) > 3 and stem[-1] in "elny":
        yield f"{stem}ment"
    if len(stem) < 6 and stem[-1] not in _VOWELS and stem[-2] in _VOWELS:
        yield from (f"{stem}{stem[-1]}{ending}" for ending in ("ed", "ing"))


class _Tables(NamedTuple):
    empty: frozenset[str]
    common: frozenset[str]
    same: dict[str, tuple[str, ...]]


@cache
def _tables() -> _Tables:
    parts = dict(read(Path(__file__).with_name("vocabulary.table")))
    same = {_stem(word): tuple(line.split()) for line in parts["same"] for word in line.split()}
    empty = frozenset(fold(word) for line in parts["empty"] for word in line.split())
    common = frozenset(_key(word, same) for line in parts["common"] for word in line.split())
    return _Tables(empty, common, same)


def _key(word: str, same: Mapping[str, tuple[str, ...]]) -> str:
    stem = _stem(word)
    return _stem(same[stem][0]) if stem in same else stem


@lru_cache(20_000)
def key_of(word: str) -> str:
    """The normal form of a folded word."""
    return _key(word, _tables().same)


def _forms(word: str, stem: str) -> tuple[str, ...]:
    same = _tables().same.get(stem, ())
    every = [word, *_spellings(stem), *same]
    for other in same:
        every += _spellings(_stem(other))
    return tuple(dict.fromkeys(every))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


@cache  # such wide ranges compile slowly, and most texts have none of them
def _any_word() -> re.Pattern[str]:
    return re.compile(f"(?P<far>[{_CJK}]+)|[^\\W_{_CJK}]+")


def _far_east(text: str) -> bool:
    return not text.isascii() and any(one["far"] for one in _any_word().finditer(text))


def words_of(folded: str) -> list[str]:
    """Every word of a folded text; scripts without spaces in pairs of characters."""
    if folded.isascii():
        return _PLAIN_WORD.findall(folded)
    words: list[str] = []
    for word in _any_word().finditer(folded):
        words += _pairs(word[0]) if word["far"] else [word[0]]
    return words


def keys_of(text: str) -> Iterator[str]:
    return (key_of(word) for word in words_of(fold(text)))


def _shortened(text: str) -> str:
    half = TEXT_CHARS // 2
    return text if len(text) <= TEXT_CHARS else f"{text[:half]} {text[-half:]}"


def terms(text: str) -> list[RecallTerm]:
    """What a message is about, in order."""
    empty, common, _ = _tables()
    found: dict[str, RecallTerm] = {}
    for piece in _shortened(text).split():
        bare = fold(piece).strip(_ROUND)
        words = words_of(bare)
        if len(words) > 1 and not _far_east(bare) and 3 < len(bare) <= 80:
            found.setdefault(bare, RecallTerm(bare, (bare,), whole=True))
        for word in words:
            if word in empty or len(word) < 2 or (word.isdigit() and len(word) < 3):
                continue
            key = key_of(word)
            found.setdefault(key, RecallTerm(key, _forms(word, _stem(word)), key in common))
    every = list(found.values())
    return every if len(every) <= TERMS else [*every[: TERMS // 2], *every[-TERMS // 2 :]]


def meaningful(found: Iterable[RecallTerm]) -> int:
    """How many words say what it is about."""
    return sum(not term.whole for term in found)


def near(word: str) -> list[str]:
    """Words one typo away: a letter too many, too few, wrong, or two swapped."""
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    slips = [f"{left}{right[1:]}" for left, right in splits if right]
    slips += [f"{left}{right[1]}{right[0]}{right[2:]}" for left, right in splits if right[1:]]
    for letter in _LETTERS:
        slips += [f"{left}{letter}{right[1:]}" for left, right in splits if right]
        slips += [f"{left}{letter}{right}" for left, right in splits]
    return [slip for slip in dict.fromkeys(slips) if slip != word]


def prefix(term: RecallTerm) -> str:
    """The term for a message search: the prefix that its forms share."""
    word = term.forms[0]
    stem = _stem(word).removesuffix("i")
    return f"{stem}*" if len(stem) > 2 and word.startswith(stem) and word.isascii() else word
