"""Formats what is recalled for the model and for people."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from hermes_agent.core.knowledge import Doc
from hermes_agent.core.text.untrusted import fenced
from hermes_agent.learning.recall.terms import RecallTerm, keys_of

SENTENCE_CHARS, TITLE_CHARS, NOTE_CHARS = 140, 60, 200
SNIPPET_CHARS = 180
_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_PLACE = re.compile(r"\S+")
HEAD = "[found in memory, not said by the user: background, as far as it fits]"


def clipped(text: str, most: int) -> str:
    """One line of printable characters, no longer than this."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _first(text: str) -> str:
    return next((part for part in _END.split(text) if part.strip()), "")


def _line(doc: Doc) -> str:
    match doc.kind:
        case "skill":
            return f"skill {doc.ref}: {clipped(_first(doc.text), SENTENCE_CHARS)}"
        case "note":
            return f"note: {clipped(doc.text, NOTE_CHARS)}"
    day = datetime.fromtimestamp(doc.time, UTC).date()
    came = clipped(doc.text.partition("\n")[0], SENTENCE_CHARS)
    return f'{doc.kind} {doc.ref} of {day}, "{clipped(doc.title, TITLE_CHARS)}": {came}'


def offered(docs: Sequence[Doc]) -> str:
    """What is shown with a message; empty without documents."""
    if not docs:
        return ""
    lines = "\n".join(_line(doc) for doc in docs)
    return f"{HEAD}\n{fenced('recalled', 'memory', lines)}"


def snippet(doc: Doc, said: Sequence[RecallTerm]) -> str:
    """The sentence with most of the words, each marked as «word»."""
    keys = {term.key for term in said}
    parts = [part for part in _END.split(doc.text) if part.strip()]
    best = max(parts, key=lambda part: len(keys.intersection(keys_of(part))), default="")

    def marked(found: re.Match[str]) -> str:
        return f"«{found[0]}»" if keys.intersection(keys_of(found[0])) else found[0]

    return _PLACE.sub(marked, clipped(best, SNIPPET_CHARS))
