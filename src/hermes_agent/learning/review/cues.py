"""How people say that something was wrong, that it was right, or that it is to be remembered, in
the languages that `cues.table` has words for. These are cues and no understanding: a cue makes a
turn worth a review, or tips an outcome that nobody else judges, and no more."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from hermes_agent.learning.tables import read

READ_CHARS = 600
"""A correction stands at the beginning of a message; what follows is often pasted."""
LOOKED_AT_CHARS = 20_000
"""Before what is no prose is taken out."""
FIRST = 3
"""Later sentences belong to a task more often than to a reproach."""

_LEAD = (
    r"(?:(?:hm+|uh|um|oh|ah|well|ok(?:ay)?|sorry|hey|hi|and|but|also|actually|thanks|thank you|"
    r"danke|merci|gracias|grazie|aber|und|mais|pero|ma)\b[,.!\s…]*)*"
)
_PLEASE = r"(?:(?:please|pls|bitte|por favor|s'il te plaît|s'il vous plaît)\b,?\s*)?"
_NOT_PROSE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^>[^\n]*|\"[^\"\n]{0,400}\"|\u201c[^\u201d\n]{0,400}\u201d|"
    r"\u201e[^\u201c\n]{0,400}\u201c|\u00ab[^\u00bb\n]{0,400}\u00bb",
    re.DOTALL | re.MULTILINE,
)
"""Code, quotations and quoted lines: what somebody else said."""
_BREAK = re.compile(r"(?<=[.!?;:\n])\s+|\s+[-\u2013\u2014]+\s+|(?<=[\u3002\uff01\uff1f\uff1b])")
_QUESTION = re.compile(r"[?\uff1f]\s*$")


def corrects(text: str) -> str:
    """The sentence that says that something was wrong; empty when none does."""
    for position, sentence in enumerate(_sentences(text)):
        if _QUESTION.search(sentence) or _fits("corrects not", sentence):
            continue
        if _fits("corrects: anywhere in a sentence", sentence):
            return sentence
        if position < FIRST and _fits("corrects: at the beginning of a sentence", sentence):
            return sentence
    return ""


def praises(text: str) -> str:
    """The sentence that says that it was right; empty when none does, or something was wrong."""
    if corrects(text):
        return ""
    said = [one for one in _sentences(text)[:FIRST] if not _QUESTION.search(one)]
    return next((one for one in said if _fits("praises", one)), "")


def wants_remembered(text: str) -> str:
    """The sentence that asks to remember something; empty when none does."""
    said = [one for one in _sentences(text) if not _fits("remembers not", one)]
    return next((one for one in said if _fits("remembers", one)), "")


def _sentences(text: str) -> Sequence[str]:
    """What a person says in a message, without code and quotations, as far as it is read."""
    read = text[:LOOKED_AT_CHARS].replace("\u2019", "'")
    prose = _NOT_PROSE.sub(" ", read)[:READ_CHARS]
    return [part.strip() for part in _BREAK.split(prose.strip()) if part.strip()]


def _fits(heading: str, sentence: str) -> bool:
    return any(pattern.search(sentence) for pattern in _table()[heading])


@cache
def _table() -> Mapping[str, Sequence[re.Pattern[str]]]:
    def pattern(line: str) -> re.Pattern[str]:
        whole = line.replace("{lead}", _LEAD).replace("{please}", _PLEASE)
        return re.compile(whole, re.IGNORECASE)

    parts = read(Path(__file__).with_name("cues.table"))
    return {heading: [pattern(line) for line in lines] for heading, lines in parts}
