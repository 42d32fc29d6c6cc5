"""What `echo` and `printf` print, when that can be known."""

import re
from collections.abc import Sequence

from hermes_agent.policy.shell.interpreter.state import ExpandedWord

_OPTION = re.compile(r"-[neE]+")
_ESCAPE = re.compile(r"\\(?:([abefnrtv\\\"'])|0?([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.?))", re.DOTALL)
_SIGNS = {
    "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_FORMAT = re.compile(r"%([%s])|(%)")


def _unescape(text: str) -> str | None:
    pieces: list[str] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        sign, octal, byte, other = found.groups()
        pieces.append(text[at : found.start()])
        at = found.end()
        if sign:
            pieces.append(_SIGNS[sign])
        elif other is not None:
            return None
        else:
            code = int(octal, 8) if octal else int(byte, 16)
            if not 0 < code < 128:
                return None
            pieces.append(chr(code))
    return "".join(pieces) + text[at:]


def echoed(words: Sequence[ExpandedWord], *, bash: bool) -> str | None:
    if any(word.dynamic or word.glob for word in words):
        return None
    texts = [word.text for word in words]
    options = ""
    while texts and _OPTION.fullmatch(texts[0]):
        options += texts.pop(0)[1:]
    text = " ".join(texts)
    if not bash and (options or "\\" in text):
        return None  # shells differ here
    escapes = [letter for letter in options if letter in "eE"]
    if escapes and escapes[-1] == "e":
        unescaped = _unescape(text)
        if unescaped is None:
            return None
        text = unescaped
    return text if "n" in options else text + "\n"


def formatted(words: Sequence[ExpandedWord]) -> str | None:
    """`printf` with `%s` and plain text; other formats are not followed."""
    if any(word.dynamic or word.glob for word in words) or not words:
        return None
    texts = [word.text for word in words]
    if texts[0] == "--":
        texts.pop(0)
    if not texts or texts[0].startswith("-"):
        return None
    pattern, rest = texts[0], texts[1:]
    if any(found.group(2) for found in _FORMAT.finditer(pattern)):
        return None
    output = ""
    while True:
        before = len(rest)
        pieces = _FORMAT.split(pattern)
        for at in range(0, len(pieces), 3):
            plain = _unescape(pieces[at])
            if plain is None:
                return None
            output += plain
            if at + 1 < len(pieces):
                sign = pieces[at + 1]
                output += "%" if sign == "%" else rest.pop(0) if rest else ""
        if not rest or len(rest) == before:
            return output
