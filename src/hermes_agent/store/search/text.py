"""Words: how text is prepared for the index, how a query is read, how a snippet is cut.

The index knows words. Chinese, Japanese and Korean are written without spaces, so a run of such
characters is stored as overlapping pairs and searched as a phrase of pairs; the last character
follows alone, which keeps two neighbouring runs apart and lets a single character be found as
the beginning of a pair."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

_CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3"
    "\u1100-\u11ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_PRIVATE = re.compile("[\ue000-\uf8ff]+")
_PIECE = re.compile(r'"([^"]*)"?|([^\s"]+)')

QUERY_CHARS = 1_000
QUERY_TERMS = 24
ANY_WORDS = 2_000
"""Words of which one must match."""
SNIPPET_CHARS = 180


_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class FtsTerm(NamedTuple):
    """A word or phrase; with `prefix`, its last word is only the beginning of one."""

    text: str
    prefix: bool = False


class FtsQuery(NamedTuple):
    """An FTS5 expression and the number of phrases in it."""

    expression: str
    phrases: int


# Compiled when first needed: they are large, and most commands search nothing.
@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]+")


@cache
def _token() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")


def _plain(text: str) -> str:
    return text if text.isascii() else _PRIVATE.sub(" ", unicodedata.normalize("NFKC", text))


def _pairs(run: str) -> str:
    return " ".join([*(run[i : i + 2] for i in range(len(run) - 1)), run[-1]])


def for_index(text: str) -> str:
    """The text as it is indexed. Private-use characters are removed: the index uses them as
    marks."""
    if text.isascii():
        return text
    return _run().sub(lambda found: f" {_pairs(found[0])} ", _plain(text))


def _for_query(text: str) -> tuple[str, bool]:
    """A phrase as it was indexed, and whether it ends in half a pair."""
    if text.isascii():
        return text.rstrip(), False
    prepared = for_index(text).rstrip()
    runs = list(_run().finditer(_plain(text)))
    if not runs or any(c.isalnum() for c in _plain(text)[runs[-1].end() :]):
        return prepared, False
    if len(runs[-1][0]) == 1:
        return prepared, True
    # What follows the last pair is unknown, so the lone last character is not asked for.
    return prepared[: prepared.rindex(runs[-1][0][-1])].rstrip(), False


def parse_query(query: str) -> list[FtsTerm]:
    """The words and quoted phrases of a query. The only operators are quotes and a `*` at the end
    of a word."""
    terms: list[FtsTerm] = []
    for phrase, word in _PIECE.findall(query[:QUERY_CHARS]):
        text = _plain(phrase or word)
        bare = text.rstrip("*") if word else text
        letters = sum(c.isalnum() for c in bare)
        if letters:
            # One letter begins too many words to be worth anything.
            terms.append(FtsTerm(bare, bool(word) and text.endswith("*") and letters > 1))
    return terms[:QUERY_TERMS]


def match_of(terms: Sequence[FtsTerm]) -> FtsQuery:
    """An expression that matches all terms."""
    parts = []
    phrases = 0
    for term in terms:
        prepared, half = _for_query(term.text)
        quoted = prepared.replace('"', '""').replace("\x00", " ")
        ways = [f'"{quoted}"' + ("*" if term.prefix or half else "")]
        if term.prefix and len(prepared) == 2 and prepared.isalnum() and prepared.isascii():
            # The index knows beginnings of three letters; shorter ones would be put together from
            # every word there is.
            ways = [f'"{prepared}"', *(f'"{prepared}{letter}"*' for letter in _LETTERS)]
        parts.append(f"({' OR '.join(ways)})")
        phrases += len(ways)
    return FtsQuery(" AND ".join(parts), phrases)


def any_of(words: Sequence[str]) -> str:
    """An expression that matches any of the words; empty if none can be searched for."""
    ways = []
    for word in dict.fromkeys(words):
        prepared, half = _for_query(word[:QUERY_CHARS])
        if any(c.isalnum() for c in prepared):
            quoted = prepared.replace('"', '""').replace("\x00", " ")
            ways.append(f'"{quoted}"' + ("*" if half else ""))
    return " OR ".join(ways[:ANY_WORDS])


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in spread if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare).casefold()


def _hits(text: str, terms: Sequence[FtsTerm]) -> list[tuple[int, int]]:
    """The positions of the terms in the text, in order, without overlaps."""
    whole: set[str] = set()
    starts: list[str] = []
    inside: list[str] = []
    for term in terms:
        words = [_fold(found[0]) for found in _token().finditer(term.text)]
        for place, word in enumerate(words):
            if _run().match(word):
                inside.append(word)
            elif term.prefix and place == len(words) - 1:
                starts.append(word)
            else:
                whole.add(word)
    beginnings = tuple(starts)
    hits: list[tuple[int, int]] = []
    for found in _token().finditer(text):
        word = _fold(found[0])
        if _run().match(word):
            if len(word) == len(found[0]):
                hits.extend(_hits_in_run(word, inside, found.start()))
        elif word in whole or (beginnings and word.startswith(beginnings)):
            hits.append(found.span())
    return hits


def _hits_in_run(run: str, wanted: Sequence[str], offset: int) -> list[tuple[int, int]]:
    marked = [False] * len(run)
    for piece in wanted:
        at = run.find(piece)
        while at >= 0:
            marked[at : at + len(piece)] = [True] * len(piece)
            at = run.find(piece, at + 1)
    spans: list[tuple[int, int]] = []
    for place, yes in enumerate(marked):
        if yes and spans and spans[-1][1] == offset + place:
            spans[-1] = (spans[-1][0], offset + place + 1)
        elif yes:
            spans.append((offset + place, offset + place + 1))
    return spans


def snippet(text: str, terms: Sequence[FtsTerm]) -> str:
    """The part of the text with the most hits, on one line, each marked as «hit»."""
    hits = _hits(text[: QUERY_CHARS * 200], terms)
    room = SNIPPET_CHARS * 3 // 4
    best = max(
        range(len(hits)),
        key=lambda i: sum(hits[i][0] <= at < hits[i][0] + room for at, _ in hits[i : i + 20]),
        default=None,
    )
    start = 0 if best is None else max(0, hits[best][0] - SNIPPET_CHARS // 4)
    end = min(len(text), start + SNIPPET_CHARS)
    parts, at = ["…" if start else ""], start
    for first, last in hits:
        if first >= start and last <= end:
            parts += [text[at:first], "«", text[first:last], "»"]
            at = last
    parts += [text[at:end], "…" if end < len(text) else ""]
    return " ".join("".join(parts).split())
