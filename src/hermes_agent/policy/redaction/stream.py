"""Redact a text that arrives in pieces, and hold back no more than may be part of a secret."""

import re
from collections.abc import Callable

from hermes_agent.policy.redaction import variable_names
from hermes_agent.policy.redaction.known_values import Span
from hermes_agent.policy.redaction.token_shapes import KEY_BEGIN, KEY_END, KEY_OPENS

_MAX_HELD = 4096
_LEAST_HELD = 1024
_KEPT_BEFORE = 512
"""What is remembered of the text that was given out: the names in it make a value a secret."""
_ENOUGH_OF_KEY = 400
_MAX_END = 60
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\|]*")
_TOKEN = re.compile(r"[^\s\"']*")
_SPACE = re.compile(r"\s")


class RedactingStream:
    """Feed pieces and get what is safe to show; `end` gives the rest."""

    def __init__(self, spans: Callable[[str], list[Span]], begun: Callable[[str], int]) -> None:
        self._spans = spans
        self._begun = begun
        self._before = ""
        self._held = ""
        self._inside: re.Pattern[str] | None = None
        """Where a secret was given out as redacted and goes on: what belongs to it."""

    def feed(self, piece: str) -> str:
        text, self._held = self._held + piece, ""
        if self._inside is not None:
            text = self._left_of(text, self._inside)
        return self._give(text, last=False) if text else ""

    def end(self) -> str:
        text, self._held = self._held, ""
        return self._give(text, last=True) if text and self._inside is None else ""

    def _give(self, text: str, *, last: bool) -> str:
        whole, begin = self._before + text, len(self._before)
        spans = [span for span in self._spans(whole) if span[1] > begin]
        cut = len(whole) if last else max(begin, self._safe(whole, spans))
        if len(whole) - cut > _MAX_HELD:
            cut = max(begin, self._forced(whole, spans))
        parts = []
        at = begin
        for start, end, name in spans:
            if max(start, begin) >= cut:
                break
            parts += [whole[at : max(start, at)], f"[redacted:{name}]"]
            at = end
        if self._inside is None:
            parts.append(whole[at:cut])
        self._held = whole[cut:]
        self._before = whole[max(0, cut - _KEPT_BEFORE) : cut]
        return "".join(parts)

    def _safe(self, whole: str, spans: list[Span]) -> int:
        """Up to where nothing that comes can make a secret of it."""
        cut = len(whole)
        while cut and not _SPACE.match(whole, cut - 1):
            cut = max(whole.rfind(sign, 0, cut) for sign in " \n\t\r\f\v") + 1
        cut = min(cut, self._begun(whole), _named_at_end(whole), _key_at_end(whole))
        for start, end, name in spans:
            if name == "private-key" and not KEY_END.search(whole, start, end):
                if _KEY_BODY.fullmatch(whole, end):
                    self._inside = _KEY_BODY
                    return len(whole)
            elif start < cut < end:
                cut = start
        return cut

    def _forced(self, whole: str, spans: list[Span]) -> int:
        """Where to cut a text that has no end: a secret at its end goes as it is."""
        cut = len(whole) - _LEAST_HELD
        for start, end, _ in spans:
            if end >= len(whole) - 2 and start < cut:
                self._inside = _TOKEN
                return len(whole)
            if start < cut < end:
                cut = start
        return cut

    def _left_of(self, text: str, inside: re.Pattern[str]) -> str:
        """What follows the secret that is still arriving."""
        matched = inside.match(text)
        at = matched.end() if matched else 0
        if at == len(text):
            return ""
        if inside is _KEY_BODY:
            closing = KEY_END.match(text, at)
            if closing is None and text.startswith("-", at) and len(text) - at < _MAX_END:
                self._held = text[at:]
                return ""
            at = closing.end() if closing else at
        self._inside = None
        self._before = ""
        return text[at:]


def _named_at_end(whole: str) -> int:
    """Where a value behind a name begins that may go on."""
    start = whole.rfind("\n", 0, max(0, whole.rfind("\n"))) + 1  # the name may be a line above
    line = whole[start:].encode("ascii", "replace")
    found = [
        setting.start
        for setting in variable_names.settings(line, line.lower())
        if not line[setting.end :].strip(b".,;:")
    ]
    return start + min(found, default=len(line))


def _key_at_end(whole: str) -> int:
    """Where a private key begins of which too little has come to tell."""
    opens = KEY_OPENS.search(whole, max(0, len(whole) - _MAX_END))
    last = opens.start() if opens else len(whole)
    at = whole.rfind("-----BEGIN", max(0, len(whole) - _ENOUGH_OF_KEY))
    begins = KEY_BEGIN.match(whole, at) if at >= 0 else None
    if begins is None or KEY_END.search(whole, at):
        return last
    return min(at, last)
