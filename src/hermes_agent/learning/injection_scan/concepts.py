"""Finds the concepts of `words.table` in a text."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct

from hermes_agent.learning.injection_scan.normalize import plain_words
from hermes_agent.learning.tables import read

Place = tuple[int, int]
"""Start and end."""

_WORD = re.compile(r"[^\W_]+")
_WIDE_FROM = "\u0590"
"""Words of letters from here on are searched within words: they have prefixes or no spaces."""
_PARTS = re.compile(r"[^\W_]+\*?")
_END = re.compile(r"[.!?;:](?=[\s\"')\]]|$)|[。！？；]|\n[ \t]*(?:\n|[-*#>|]|\d+[.)])|```")  # noqa: RUF001
# Each begins with a rare character, which makes the search fast.
_THINGS = (
    ("dest", re.compile(r"https?://[^\s\"'<>)]{3,}")),
    ("dest", re.compile(r"@[\w-]{1,60}\.[a-z][\w.-]{1,40}")),
    ("dest", re.compile(r"(?<![\d.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\d.])")),
    (
        "secret",
        re.compile(
            r"/\.(?:ssh|aws|gnupg|kube|netrc|docker|config/gcloud|npmrc|pypirc|git-credentials"
            r"|mozilla|password-store)\b"
        ),
    ),
    ("secret", re.compile(r"\.(?:env\b(?!\.(?:example|sample|template|dist))|netrc\b)")),
    ("secret", re.compile(r"id_(?:rsa|ed25519|ecdsa)\b(?!\.pub)|/etc/shadow\b")),
)


Phrase = tuple[str, tuple[str, ...]]
"""A concept and the words that must follow the first."""


class _Words(Struct, frozen=True):
    exact: dict[str, list[Phrase]]
    stems: dict[str, list[Phrase]]
    lengths: tuple[int, ...]
    wide: tuple[tuple[str, str], ...]
    """Stems and concepts that are searched within words."""


@cache
def _words() -> _Words:
    exact: dict[str, list[Phrase]] = {}
    stems: dict[str, list[Phrase]] = {}
    wide: set[tuple[str, str]] = set()
    lines = [line for _, lines in read(Path(__file__).with_name("words.table")) for line in lines]
    for concept, _, entries in (line.partition(": ") for line in lines):
        for entry in plain_words(entries).split(", "):  # at once: there are thousands
            if not entry.isascii() and max(entry) >= _WIDE_FROM:
                wide.add((entry, concept))
                continue
            first, *rest = (entry,) if entry.rstrip("*").isalnum() else _PARTS.findall(entry)
            table = stems if first.endswith("*") else exact
            table.setdefault(first.rstrip("*"), []).append((concept, tuple(rest)))
    return _Words(exact, stems, tuple(sorted({len(stem) for stem in stems})), tuple(sorted(wide)))


class _Meaning(Struct, frozen=True):
    alone: tuple[str, ...]
    """Concepts of the word alone."""
    with_next: dict[str, tuple[Phrase, ...]]
    """Phrases by the word that must come next."""
    with_stem: tuple[Phrase, ...]
    """Phrases whose next word is a stem."""


@lru_cache(maxsize=20_000)
def _meaning(word: str) -> _Meaning | None:
    words = _words()
    found = list(words.exact.get(word, ()))
    for length in words.lengths:
        if length > len(word):
            break
        found += words.stems.get(word[:length], ())
    if not found:
        return None
    with_next: dict[str, tuple[Phrase, ...]] = {}
    for phrase in found:
        if phrase[1] and not phrase[1][0].endswith("*"):
            with_next[phrase[1][0]] = (*with_next.get(phrase[1][0], ()), phrase)
    stems = tuple(phrase for phrase in found if phrase[1] and phrase[1][0].endswith("*"))
    return _Meaning(tuple({concept for concept, rest in found if not rest}), with_next, stems)


def known(word: str) -> bool:
    """Whether a word is, or begins, a concept."""
    return _meaning(word) is not None


class Tagged(Struct):
    """A text in lower case, with the places of its concepts and the ends of its sentences."""

    text: str
    places: dict[str, list[Place]] = {}
    ends: list[int] = []
    steps: int = 0
    """The work done, in words and stems."""

    def within(self, concept: str, start: int, end: int) -> Iterator[Place]:
        """The concept's places that start there."""
        places = self.places.get(concept, [])
        index = bisect_left(places, (start, 0))
        while index < len(places) and places[index][0] < end:
            yield places[index]
            index += 1

    def has(self, concept: str, start: int, end: int) -> bool:
        return next(self.within(concept, start, end), None) is not None

    def sentence(self, at: int) -> Place:
        index = bisect_left(self.ends, at + 1)
        start = self.ends[index - 1] if index else 0
        end = self.ends[index] if index < len(self.ends) else len(self.text)
        return start, end


def tag(text: str) -> Tagged:
    """Look every word up once."""
    tagged = Tagged(text)
    found: dict[str, list[Place]] = tagged.places
    words = [*_WORD.findall(text), ""]
    spans = [match.span() for match in _WORD.finditer(text)]
    tagged.steps = len(words)
    for index, meaning in enumerate(map(_meaning, words)):
        if meaning is None:
            continue
        start, end = spans[index]
        for concept in meaning.alone:
            found.setdefault(concept, []).append((start, end))
        for phrase in (*meaning.with_next.get(words[index + 1], ()), *meaning.with_stem):
            tagged.steps += 1
            if _follows(words, index, phrase[1]):
                last = spans[index + len(phrase[1])][1]
                found.setdefault(phrase[0], []).append((start, last))
    for concept, pattern in _THINGS:
        found.setdefault(concept, []).extend(match.span() for match in pattern.finditer(text))
    if not text.isascii() and max(text) >= _WIDE_FROM:
        _tag_wide(tagged)
    for places in found.values():
        places.sort()
    _without_none(found)
    tagged.ends = [match.end() for match in _END.finditer(text)]
    return tagged


def _follows(words: list[str], index: int, rest: tuple[str, ...]) -> bool:
    """Whether these words come after the one at `index`."""
    if index + len(rest) >= len(words):
        return False
    for word, want in zip(words[index + 1 : index + 1 + len(rest)], rest, strict=True):
        if word != want and not (want.endswith("*") and word.startswith(want[:-1])):
            return False
    return True


def _tag_wide(tagged: Tagged) -> None:
    for stem, concept in _words().wide:
        tagged.steps += _tag_all(tagged, stem, concept)


def _tag_all(tagged: Tagged, stem: str, concept: str) -> int:
    """Tag every occurrence of a stem; how many there are."""
    found, at = 0, tagged.text.find(stem)
    while at >= 0:
        tagged.places.setdefault(concept, []).append((at, at + len(stem)))
        at = tagged.text.find(stem, at + len(stem))
        found += 1
    return found


def _without_none(found: dict[str, list[Place]]) -> None:
    """Drop what only looks like a concept: `user interface` is no user."""
    nones = found.pop("none", [])
    if not nones:
        return

    def stays(place: Place) -> bool:
        index = bisect_left(nones, (place[0] + 1, 0)) - 1
        return index < 0 or place[0] >= nones[index][1]

    for places in found.values():
        places[:] = filter(stays, places)


def tag_run(text: str) -> Tagged:
    """Tag a text without spaces: known words are searched everywhere in it."""
    tagged = Tagged(text)
    words = _words()
    for table in (words.exact, words.stems):
        for first, entries in table.items():
            for concept, rest in entries:
                whole = first + "".join(rest).replace("*", "")
                if len(whole) >= 3:
                    _tag_all(tagged, whole, concept)
    for places in tagged.places.values():
        places.sort()
    tagged.ends = [match.end() for match in _END.finditer(text)]
    return tagged
