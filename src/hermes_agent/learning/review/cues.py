"""Detects corrections, praise and requests to remember, in the languages of `cues.table`. A cue
makes a turn worth a review, or decides an outcome that nothing else does, and no more."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from hermes_agent.learning.tables import read

READ_CHARS = 600
"""A correction is at the beginning of a message; what follows is often pasted."""
LOOKED_AT_CHARS = 20_000
"""Before code and quotations are removed."""
FIRST = 3
"""Later sentences are more often a task than a complaint."""

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
"""Code, quotations and quoted lines."""
_BREAK = re.compile(r"(?<=[.!?;:\n])\s+|\s+[-\u2013\u2014]+\s+|(?<=[\u3002\uff01\uff1f\uff1b])")
_QUESTION = re.compile(r"[?\uff1f]\s*$")


def corrects(text: str) -> str:
    """The sentence that says that something was wrong, if any."""
    for position, sentence in enumerate(_sentences(text)):
        if _QUESTION.search(sentence) or _fits("corrects not", sentence):
            continue
        if _fits("corrects: anywhere in a sentence", sentence):
            return sentence
        if position < FIRST and _fits("corrects: at the beginning of a sentence", sentence):
            return sentence
    return ""


def praises(text: str) -> str:
    """The sentence that says that it was right, if any and nothing was wrong."""
    if corrects(text):
        return ""
    said = [one for one in _sentences(text)[:FIRST] if not _QUESTION.search(one)]
    return next((one for one in said if _fits("praises", one)), "")


def wants_remembered(text: str) -> str:
    """The sentence that asks to remember something, if any."""
    said = [one for one in _sentences(text) if not _fits("remembers not", one)]
    return next((one for one in said if _fits("remembers", one)), "")


def gives_up(text: str) -> bool:
    """Whether an agent's answer says that something could not be done."""
    return _fits("gives up", text.replace("\u2019", "'"))


def _sentences(text: str) -> Sequence[str]:
    """The first sentences of a message, without code and quotations."""
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
