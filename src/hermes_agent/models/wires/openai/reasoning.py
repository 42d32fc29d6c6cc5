"""Reasoning in the chat format: between tags, or as a list of details that must be sent back
unchanged."""

from typing import Any

import msgspec

from hermes_agent.core.messages import ReasoningBlock

OPEN, CLOSE = "<think>", "</think>"

_details = msgspec.json.Decoder(list[dict[str, Any]])


class Tags:
    """Separates leading `<think>` reasoning from an answer, as local servers send it."""

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""

    @property
    def are_over(self) -> bool:
        """Whether only text can follow."""
        return self._state == "text"

    def take(self, text: str) -> tuple[str, str]:
        """Reasoning and text in the next chunk of an answer."""
        thought = ""
        if self._state == "start":
            self._held += text
            begun = self._held.lstrip()
            if len(begun) < len(OPEN) and OPEN.startswith(begun):
                return "", ""
            text, self._held = self._held, ""
            self._state = "text"
            if begun.startswith(OPEN):
                text, self._state = begun[len(OPEN) :], "thinking"
        if self._state == "thinking":
            thought, closed, text = (self._held + text).partition(CLOSE)
            if not closed:
                keep = _begun(thought)
                cut = len(thought) - keep
                self._held = thought[cut:]
                return thought[:cut], ""
            self._held, self._state = "", "between"
        if self._state == "between":
            text = text.lstrip()
            if text:
                self._state = "text"
        return thought, text

    def end(self) -> tuple[str, str]:
        """The rest: what was held back."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thinking" else ("", held)


def _begun(text: str) -> int:
    """How many characters at the end may be the start of the closing tag."""
    most = min(len(CLOSE) - 1, len(text))
    return next((size for size in range(most, 0, -1) if CLOSE.startswith(text[-size:])), 0)


class Details:
    """The reasoning details of one answer, assembled from their pieces."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def take(self, pieces: Any) -> str:
        """Add pieces; returns their readable part."""
        found = pieces if isinstance(pieces, list) else ()
        return "".join([self._add(piece) for piece in found if isinstance(piece, dict)])

    def _add(self, piece: dict[str, Any]) -> str:
        field = _field(piece)
        said = piece.pop(field, None)
        text = said if isinstance(said, str) else ""
        entry = self._same(piece)
        if entry is None:
            entry = {}
            self.entries.append(entry)
        # Besides its text, a detail has only short scalar fields.
        entry.update((name, one) for name, one in piece.items() if isinstance(one, str | int))
        if field and text:
            entry[field] = entry.get(field, "") + text
        return text

    def _same(self, piece: dict[str, Any]) -> dict[str, Any] | None:
        """The detail that a piece continues. Encrypted details come in one piece."""
        if not _field(piece):
            return None
        for entry in reversed(self.entries):
            if entry.get("type") == piece.get("type") and entry.get("index") == piece.get("index"):
                ids = entry.get("id"), piece.get("id")
                return entry if None in ids or ids[0] == ids[1] else None
        return None

    def sealed(self, text: str) -> str:
        """The details as JSON, with lengths in place of the text of the thought."""
        if not self.entries:
            return ""
        texts = [str(entry.get(_field(entry), "")) for entry in self.entries]
        entries = self.entries
        if "".join(texts) == text:
            entries = [
                {**entry, _field(entry): len(own)} if own else entry
                for entry, own in zip(self.entries, texts, strict=True)
            ]
        return msgspec.json.encode(entries).decode()


def details_of(thought: ReasoningBlock) -> list[dict[str, Any]]:
    """The original details, or none if they are lost."""
    if not thought.body:
        return []
    try:
        entries = _details.decode(thought.body)
    except msgspec.MsgspecError:
        return []
    at = 0
    for entry in entries:
        field = _field(entry)
        length = entry.get(field)
        if field and isinstance(length, int):
            entry[field] = thought.text[at : at + length]
            at += length
    return entries


def _field(detail: dict[str, Any]) -> str:
    """The field with the readable text of a detail, or ""."""
    kind = detail.get("type")
    return {"reasoning.text": "text", "reasoning.summary": "summary"}.get(
        kind if isinstance(kind, str) else "", ""
    )
