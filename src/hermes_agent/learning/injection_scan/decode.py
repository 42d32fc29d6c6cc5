"""Decodes texts hidden in a text by an encoding, letter tricks or reversal."""

import base64
import binascii
import codecs
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from msgspec import Struct

from hermes_agent.learning.injection_scan.concepts import known


class Within(Struct, frozen=True):
    """A text hidden in another one at `start`."""

    text: str
    how: str
    start: int
    run: bool = False
    """Its words run together."""


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}(?:\r?\n[A-Za-z0-9+/_-]{4,})*={0,2}")
_CUTS = re.compile(r"[/_\n-]")
_BASE32 = re.compile(r"[A-Z2-7]{24,}={0,6}")
_HEX = re.compile(r"(?:(?:\\x|0x)?[0-9a-fA-F]{2}[\s,:]{0,2}){10,}")
_HEX_PAIR = re.compile(r"(?:\\x|0x)?([0-9a-fA-F]{2})")
_BINARY = re.compile(r"(?:[01]{8}[\s,]{0,2}){6,}")
_DECIMAL = re.compile(r"(?:\b\d{2,3}\b[\s,]{1,2}){8,}\d{2,3}\b")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,8});")
_ESCAPE = re.compile(
    r"\\u\{?([0-9a-fA-F]{4,6})\}?|\\U([0-9a-fA-F]{8})|\\x([0-9a-fA-F]{2})"
    r"|[uU]\+([0-9a-fA-F]{4,6}) ?"
)
_LETTERS = re.compile(r"(?<![^\W_])(?:[^\W_](?:[ .\-_*|/~,+]{1,4}|\n)){5,}[^\W_](?![^\W_])")
_BETWEEN = re.compile(r"[ .\-_*|/~,+\n]+")
_WORD = re.compile(r"[^\W_]+")
_LONG_WORD = re.compile(r"[^\W\d_]{18,}")
_LEET_WORD = re.compile(r"(?<![\w@$!|])[a-z0-9@$!|]{2,30}(?![\w@$!|])")
_LEET_TABLES = tuple(str.maketrans("0134578@$!|", f"o{one}eastbasi{one}") for one in "il")
_LEAST_WORD = 4
"""Shorter words occur by chance when letters are replaced."""
_LEAST_WORDS = 2


def _readable(data: bytes) -> str:
    """The bytes as text; empty if they are none."""
    encoding = "utf-16-le" if data[1:2] == b"\0" else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return ""
    seen = sum(char.isprintable() or char in "\r\n\t" for char in text)
    return text if seen >= len(text) * 0.95 else ""


def _from_base64(blob: str) -> str:
    plain = "".join(blob.split()).rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        plain = plain[:-1]
    return _readable(binascii.a2b_base64(plain + "=" * (-len(plain) % 4)))


def _from_base32(blob: str) -> str:
    plain = blob.rstrip("=")
    plain = plain[: len(plain) - (len(plain) % 8 in (1, 3, 6))]
    return _readable(base64.b32decode(plain + "=" * (-len(plain) % 8)))


def _from_hex(blob: str) -> str:
    return _readable(bytes(int(pair, 16) for pair in _HEX_PAIR.findall(blob)))


def _from_binary(blob: str) -> str:
    return _readable(bytes(int(octet, 2) for octet in re.findall("[01]{8}", blob)))


def _from_decimal(blob: str) -> str:
    numbers = [int(number) for number in re.findall(r"\d+", blob)]
    return _readable(bytes(numbers)) if max(numbers) < 256 else ""


def _blobs(text: str) -> Iterator[Within]:
    for found in _BASE64.finditer(text):
        whole = found[0]
        if whole.islower() or whole.isdigit():  # a path or a number
            continue
        parts = [whole, *whole.split("\n"), *_CUTS.split(whole)]
        for part in dict.fromkeys(parts):
            if len(part) >= 16 and (inner := _from_base64(part)):
                yield Within(inner, "base64", found.start())
                break
    others: tuple[tuple[re.Pattern[str], Callable[[str], str], str], ...] = (
        (_BASE32, _from_base32, "base32"),
        (_HEX, _from_hex, "hexadecimal"),
        (_BINARY, _from_binary, "binary"),
        (_DECIMAL, _from_decimal, "character codes"),
    )
    for pattern, decode, how in others:
        for found in pattern.finditer(text):
            if inner := decode(found[0]):
                yield Within(inner, how, found.start())


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = int(next(group for group in found.groups() if group), 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else found[0]

    return _ESCAPE.sub(one, text)


def _unleet(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        word = found[0]
        if word.isalpha() or word.isdigit():
            return word
        readings = [word.translate(table) for table in _LEET_TABLES]
        return next((reading for reading in readings if known(reading)), readings[0])

    return _LEET_WORD.sub(one, text.lower())


def _rot13(text: str) -> str:
    return codecs.encode(text, "rot13")


def _reversed(text: str) -> str:
    return text[::-1]


def _hits(words: set[str], change: Callable[[str], str]) -> set[str]:
    return {word for word in words if not known(word) and known(change(word))}


def _changed_words(text: str) -> Iterator[tuple[Callable[[str], str], str, set[str]]]:
    """Letter tricks, with the unknown words that they turn into known ones."""
    lower = text.lower()
    words = {word for word in _WORD.findall(lower) if _LEAST_WORD <= len(word) <= 30}
    yield _rot13, "rot13", _hits(words, _rot13)
    yield _reversed, "reversed letters", _hits(words, _reversed)
    mixed = {
        word
        for word in _LEET_WORD.findall(lower)
        if len(word) > 2 and not word.isalpha() and any(char.isalpha() for char in word)
    }
    yield _unleet, "letters written as digits", {word for word in mixed if known(_unleet(word))}


def _lines(text: str, wanted: Callable[[str], object], change: Callable[[str], str], how: str
           ) -> Iterator[Within]:  # fmt: skip
    """The lines written in some way, decoded, as one text."""
    changed: list[str] = []
    first, at = -1, 0
    for line in text.splitlines(keepends=True):
        if wanted(line):
            first = at if first < 0 else first
            changed.append(change(line.rstrip("\r\n")))
        elif changed and changed[-1]:
            changed.append("")
        at += len(line)
    if changed:
        yield Within("\n".join(changed), how, first)


def _spaced(text: str) -> Iterator[Within]:
    for found in _LETTERS.finditer(text):
        glue = Counter(_BETWEEN.findall(found[0])).most_common(1)[0][0]
        parts = found[0].split(glue)
        joined = "".join(_BETWEEN.sub(" ", part) for part in parts)
        yield Within(joined, "letters set apart", found.start(), run=" " not in joined)


def _long_words(text: str) -> Iterator[Within]:
    words = [(word[0], word.start()) for word in _LONG_WORD.finditer(text)]
    if words:
        joined = ". ".join(word for word, _ in words)
        yield Within(joined, "words written together", words[0][1], run=True)


def within(text: str) -> Iterator[Within]:
    """All that may be hidden in a text, each about as long as the text at most."""
    yield from _blobs(text)
    if "%" in text:
        yield from _lines(text, _PERCENT.search, unquote, "percent signs")
    if "&" in text:
        yield from _lines(text, _ENTITY.search, html.unescape, "HTML entities")
    if "\\" in text or "+" in text:
        yield from _lines(text, _ESCAPE.search, _unescape, "escapes")
    for change, how, hits in _changed_words(text):
        if len(hits) >= _LEAST_WORDS:
            spot = re.compile("|".join(map(re.escape, sorted(hits))), re.IGNORECASE)
            yield from _lines(text, spot.search, change, how)
    yield from _spaced(text)
    yield from _long_words(text)
