"""Scores how well a document fits a message. The thresholds were tuned on one half of the queries
in `tests/learning/retrieval`."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from hermes_agent.core.knowledge import Doc
from hermes_agent.learning.recall.terms import RecallTerm, fold, key_of, near, words_of

PRIOR = 30
"""Imaginary documents beside the real ones, so that few documents do not mislead."""
RARE, COMMON = 0.01, 0.15
"""The share of those that have a rare word, and a common one."""
COUNTED = 12
"""Words of a message that count: the most telling ones."""
SLIP = 0.7
"""Weight of a word that is spelled almost the same."""
UNKNOWN = 0.6
"""Weight of a word that no document has: a name, most likely."""
NEAR_LETTERS, NEAR_WORDS = 5, 3
LEAD_WORDS, LEAD_DOCS = 4, 400
LEAST_WORDS, LEAST_SHARE, LEAST_SCORE = 2.0, 0.3, 1.15
MEANING, LEAST_VALUE = 3.0, 2.4
"""Weight of similar meaning beside words, and the least sum of both."""
BESIDE = 0.45
"""Other documents must reach this share of the best one's value."""


class Weighed(NamedTuple):
    term: RecallTerm
    weight: float
    """From 0 to 1, which is a word that one document has."""
    docs: int
    """Documents that have it."""
    near: frozenset[str] = frozenset()
    """For a word that no document has: what may have been meant."""


class Fit(NamedTuple):
    doc: Doc
    words: float
    """Words of the message that are in the document; common ones count half."""
    share: float
    """The part of what the message says that is in the document, from 0 to 1."""
    score: float
    """How much that is, more where it is most of the message or of the title."""
    meaning: float = 0.0
    """How near they are in meaning, from -1 to 1; 0 where nobody knows."""

    @property
    def value(self) -> float:
        return self.score + MEANING * self.meaning

    @property
    def good(self) -> bool:
        """Whether it is worth being offered."""
        if self.words >= LEAST_WORDS and self.share >= LEAST_SHARE and self.score >= LEAST_SCORE:
            return True
        return self.meaning > 0 and self.words >= 1 and self.value >= LEAST_VALUE


def weigh(found: Sequence[RecallTerm], counts: Sequence[int], total: int) -> list[Weighed]:
    """Rare words say more. `counts`: how many documents of `total` have the word."""
    most = -math.log((1 + PRIOR * RARE) / (total + PRIOR + 1))
    weighed = []
    slips = 0
    for term, count in zip(found, counts, strict=True):
        expected = PRIOR * (COMMON if term.common else RARE)
        weight = -math.log((max(count, 1) + expected) / (total + PRIOR + 1)) / most
        meant: frozenset[str] = frozenset()
        if not count:
            if term.whole:
                continue  # its parts count
            weight *= UNKNOWN
            word = term.forms[0]
            if slips < NEAR_WORDS and len(word) >= NEAR_LETTERS and word.isascii():
                slips += 1
                meant = frozenset(near(word))
        weighed.append(Weighed(term, max(weight, 0.0), count, meant))
    weighed.sort(key=lambda one: -one.weight)
    return weighed[:COUNTED]


def telling(message: Sequence[Weighed]) -> list[str]:
    """Forms of the words by which documents are looked for. What says little is left out where
    other words lead to enough of them: a document with nothing else fits badly anyway."""
    forms: list[str] = []
    words = reached = 0
    for one in message:
        if one.docs and (words < LEAD_WORDS or reached + one.docs <= LEAD_DOCS):
            forms += one.term.forms
            words, reached = words + 1, reached + one.docs
    return forms


def fit(message: Sequence[Weighed], doc: Doc, meaning: float = 0.0) -> Fit:
    folded = fold(f"{doc.title}\n{doc.text}")
    title = set(words_of(fold(doc.title)))
    words = set(words_of(folded))
    # Only words that start like one of the message's need a closer look.
    heads = {form[:2] for one in message for form in one.term.forms}
    keys = {key_of(word) for word in words if word[:2] in heads}
    met: set[str] = set()
    said = count = 0.0
    for term, weight, _, meant in message:
        if term.whole and term.key in folded:
            said += weight
            count += 0.5  # its parts count too
        elif term.key in keys:
            said += weight
            count += 0.5 if term.common else 1.0
            met.add(term.key)
        elif same := meant & words:
            said += weight * SLIP
            count += 1.0
            met.update(key_of(word) for word in same)
    whole = sum(one.weight for one in message)
    share = said / whole if whole else 0.0
    titled = {key_of(word) for word in title}
    named = len(met & titled) / len(titled) if titled else 0.0
    return Fit(doc, count, share, said * (0.5 + share) * (1 + 0.5 * named), meaning)


def fused(*rankings: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Rankings of the same things put together by reciprocal rank."""
    scores: dict[tuple[str, str], float] = {}
    for ranking in rankings:
        for place, one in enumerate(ranking):
            scores[one] = scores.get(one, 0.0) + 1 / (60 + place)
    return scores
