"""Secrets whose value is known, in the forms in which they travel: as they are, as JSON and URLs
write them, in base64 at any offset and in hex."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote

import msgspec

SHORTEST = 8
"""Shorter values are too likely to be ordinary words."""

MAX_RUN = 16
"""Forms of at least this length that fit the alphabet of runs are looked for in the runs only."""

RUN_SIGNS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=-")

_LINE = 24
"""A secret of several lines is recognised by any line of this length."""

_ESCAPED = re.compile("%[0-9A-F]{2}")

Span = tuple[int, int, str]
"""Where something secret begins and ends, and what it is called."""


class KnownSecrets:
    def __init__(self) -> None:
        self._plain: dict[str, str] = {}
        self._dense: dict[bytes, str] = {}

    def learn(self, name: str, value: str) -> None:
        value = value.strip()
        if len(value) < SHORTEST:
            return
        for form in _forms(value):
            raw = form.encode("utf-8", "surrogatepass")
            if len(raw) >= MAX_RUN and RUN_SIGNS.issuperset(raw):
                self._dense.setdefault(raw, name)
            else:
                self._plain.setdefault(form, name)

    def spans(self, text: str, shadow: bytes, dense: bytes) -> Iterator[Span]:
        """`shadow` is the text with one byte for each character, `dense` its long runs."""
        for form, name in self._plain.items():
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form), name
                at = text.find(form, at + len(form))
        for raw, name in self._dense.items():
            if raw not in dense:
                continue
            at = shadow.find(raw)
            while at >= 0:
                yield at, at + len(raw), name
                at = shadow.find(raw, at + len(raw))

    def begun(self, text: str) -> int:
        """Where the end of the text may be the beginning of a value that has spaces in it."""
        first = len(text)
        for form in self._plain:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while 0 <= at < first:
                if form.startswith(text[at:]):
                    first = at
                at = text.find(form[0], at + 1)
        return first


def _forms(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    forms = {value, json.dumps(value)[1:-1], raw.hex(), raw.hex().upper()}
    if value.isprintable():
        forms.add(msgspec.json.encode(value).decode()[1:-1])
        for quoted in (quote(value, safe=""), quote(value)):
            forms |= {quoted, _ESCAPED.sub(lambda sign: sign[0].lower(), quoted)}
    for offset in range(3):
        forms |= _inside(raw, offset)
    forms |= {line for part in value.splitlines()[1:] if len(line := part.strip()) >= _LINE}
    return {form for form in forms if not form.startswith("-----")} | {value}


def _inside(raw: bytes, offset: int) -> set[str]:
    """The base64 signs that depend on these bytes alone when `offset` others (of each three) stand
    before them; what stands after them changes the last sign."""
    filler = bytes(offset)
    first = (0, 2, 3)[offset]
    bits = 8 * (offset + len(raw))
    return {
        encode(filler + raw)[first : bits // 6].decode()
        for encode in (b64encode, urlsafe_b64encode)
    }
