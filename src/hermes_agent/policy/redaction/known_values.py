"""Secrets whose value is known, in the forms in which they travel: as they are, as JSON and URLs
write them, in base64 at any offset and in hex; also cut into lines, spaced out, escaped sign by
sign and in the dumps of `od`, `xxd` and `hexdump`."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple
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

_BLANKS = b" \t\r\n"
_BETWEEN_HEX = b" \t\r\n:,;%\\x'\"-"
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_NEXT_LINES = re.compile(rb"(?:\r?\n[ \t]*[A-Za-z0-9+/_=-]+)+")
_DUMP = re.compile(
    rb"\n(?:[0-9a-f]{6,}:?[ \t]+|[ \t]+(?=(?:[0-9a-f]{2,8} ){3}))[0-9a-f]{2,8} {1,2}[0-9a-f]{2}"
)
_DUMP_LINE = re.compile(
    rb"\n((?:[0-9a-f]{6,}:?)?[ \t]+)((?:[0-9a-f]{2,8} {1,2})*[0-9a-f]{2,8})([^\n]*)"
)
_SWAPPED = re.compile(rb"\b([0-9a-f]{2})([0-9a-f]{2})\b")
_LEAST_BEGUN = 4
"""Signs of a form that must be there before a stream is held back for the rest."""
_TAIL = 2000
"""How far back a text may have begun to write a secret in pieces."""

Span = tuple[int, int, str]
"""Where something secret begins and ends, and what it is called."""


class _View(NamedTuple):
    """A text in which what separates the pieces of a secret is marked; positions are the same."""

    marked: bytes
    separators: bytes
    forms: Mapping[bytes, str]
    whole_lines: bool = False

    def spans(self) -> Iterator[Span]:
        joined = self.marked.translate(None, self.separators)
        found = [(form, name) for form, name in self.forms.items() if form in joined]
        kept = self._kept() if found else []
        for form, name in found:
            at = joined.find(form)
            while at >= 0:
                start, end = kept[at], kept[at + len(form) - 1] + 1
                while self.marked[end : end + 1] == b"\0":
                    end += 1
                if self.whole_lines:
                    start = self.marked.rfind(b"\n", 0, start) + 1
                    end = (self.marked.find(b"\n", end) + 1 or len(self.marked) + 1) - 1
                yield start, end, name
                at = joined.find(form, at + len(form))

    def begun(self) -> int | None:
        """Where the end may be the beginning of a form."""
        joined = self.marked.translate(None, self.separators)
        first = len(joined)
        for form in self.forms:
            at = joined.find(form[:_LEAST_BEGUN], max(0, len(joined) - len(form) + 1))
            while 0 <= at < first:
                if form.startswith(joined[at:]):
                    first = at
                at = joined.find(form[:_LEAST_BEGUN], at + 1)
        if first == len(joined):
            return None
        start = self._kept()[first]
        return self.marked.rfind(b"\n", 0, start) + 1 if self.whole_lines else start

    def _kept(self) -> list[int]:
        return [at for at, sign in enumerate(self.marked) if sign not in self.separators]


class KnownSecrets:
    def __init__(self) -> None:
        self._plain: dict[str, str] = {}
        self._dense: dict[bytes, str] = {}
        self._raw: dict[bytes, str] = {}
        self._hex: dict[bytes, str] = {}
        self._pieces: set[bytes] = set()

    def learn(self, name: str, value: str) -> None:
        value = value.strip()
        if len(value) < SHORTEST:
            return
        if value.isascii() and value.isprintable() and " " not in value:
            self._raw.setdefault(value.encode(), name)
            lower = value.lower().encode().replace(b"0x", b"")
            self._pieces.add(lower.translate(None, _BETWEEN_HEX))
        as_hex = value.encode("utf-8", "surrogatepass").hex().encode()
        self._hex.setdefault(as_hex, name)
        self._pieces.add(as_hex)
        for form in _forms(value):
            raw = form.encode("utf-8", "surrogatepass")
            if len(raw) >= MAX_RUN and RUN_SIGNS.issuperset(raw):
                self._dense.setdefault(raw, name)
            else:
                self._plain.setdefault(form, name)

    def spans(
        self, text: str, shadow: bytes, dense: bytes, runs: Sequence[tuple[int, int]]
    ) -> Iterator[Span]:
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
        if self._hex:
            for view in self._views(shadow, self._pieces):
                yield from view.spans()
            yield from self._wrapped(shadow, runs)

    def _views(self, shadow: bytes, wanted: Collection[bytes] = (b"",)) -> Iterator[_View]:
        """`wanted` are texts of which one is in the text without separators, if a secret is."""
        lower = hexes = shadow.lower()
        for prefix in (b"0x", b"\\u00"):
            if prefix in lower:
                hexes = hexes.replace(prefix, b" " * len(prefix))
        joined = hexes.translate(None, _BETWEEN_HEX)
        if any(map(joined.__contains__, wanted)):
            yield _View(shadow, _BLANKS, self._raw)
            yield _View(hexes, _BETWEEN_HEX, self._hex)
        if _PERCENT.search(shadow):
            yield _View(_PERCENT.sub(_decoded, shadow), b"\0", self._raw)
        if _DUMP.search(b"\n" + lower):
            dump = _DUMP_LINE.sub(_bytes_of_dump, b"\n" + lower)[1:]
            yield _View(dump, _BETWEEN_HEX, self._hex, whole_lines=True)
            # Words of two bytes, the lower one first.
            swapped = _SWAPPED.sub(rb"\2\1", dump)
            yield _View(swapped, _BETWEEN_HEX, self._hex, whole_lines=True)

    def _wrapped(self, shadow: bytes, runs: Sequence[tuple[int, int]]) -> Iterator[Span]:
        """Runs that go on in the next lines, as base64 does."""
        parts, last = [], 0
        for start, end in runs:
            if start >= last and shadow[end : end + 1] in (b"\r", b"\n"):
                more = _NEXT_LINES.match(shadow, end)
                last = more.end() if more else end
                parts += [(start, last)] if more else []
        joined = b"\0".join([shadow[start:end] for start, end in parts])
        if any(True for _ in _View(joined, _BLANKS, self._dense).spans()):
            for begin, finish in parts:
                view = _View(shadow[begin:finish], _BLANKS, self._dense)
                yield from ((begin + start, begin + end, name) for start, end, name in view.spans())

    def begun(self, text: str) -> int:
        """Where the end of the text may be the beginning of a value that has spaces in it, or is
        written in pieces."""
        first = len(text)
        for form in self._plain:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while 0 <= at < first:
                if form.startswith(text[at:]):
                    first = at
                at = text.find(form[0], at + 1)
        if not self._hex:
            return first
        skipped = max(0, len(text) - min(_TAIL, 200 + 6 * max(map(len, self._raw or [b""]))))
        tail = text[skipped:].encode("ascii", "replace")
        line = tail.rfind(b"\n") + 1
        views: list[_View] = []
        if _DUMP.search(b"\n" + tail[line:].lower()) or _DUMP.search(b"\n" + tail[:line].lower()):
            first = min(first, skipped + line)  # the line goes on
            views += self._views(tail[:line])
        tail = tail[: max(line, tail.rfind(b" ") + 1, tail.rfind(b"\t") + 1)]
        views += [*self._views(tail), _View(tail, _BLANKS, self._dense)]
        starts = [skipped + start for view in views if (start := view.begun()) is not None]
        return min(first, *starts, len(text))


def _decoded(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 16)]) + b"\0\0"


def _bytes_of_dump(line: re.Match[bytes]) -> bytes:
    """A line of a dump with its offset, and what it shows as text, blanked."""
    offset, shown, rest = line.groups()
    if not rest.lstrip().startswith((b"|", b">")):  # else two blanks are just a gap
        shown = shown.partition(b"  ")[0]
    return (b"\n" + b" " * len(offset) + shown).ljust(len(line[0]))


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
