"""Reasoning as services that speak the chat format send it: between tags, or as a list of details
that they want back whole."""

from typing import Any

import msgspec

from hermes_agent.core.messages import ReasoningBlock

OPEN, CLOSE = "<think>", "</think>"

_details = msgspec.json.Decoder(list[dict[str, Any]])


class Tags:
    """Takes the reasoning out of an answer that begins with it between tags, as local servers
    send it."""

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""

    @property
    def are_over(self) -> bool:
        """Whether only text can come from here on."""
        return self._state == "text"

    def take(self, text: str) -> tuple[str, str]:
        """The reasoning and the text in the next piece of an answer."""
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
        """What was held back."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thinking" else ("", held)


def _begun(text: str) -> int:
    """How many characters at the end may begin the closing tag."""
    most = min(len(CLOSE) - 1, len(text))
    return next((size for size in range(most, 0, -1) if CLOSE.startswith(text[-size:])), 0)


class Details:
    """The details of one answer, each put together from its pieces."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def take(self, pieces: Any) -> str:
        """Add what came; the readable part of it."""
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
        # All that a detail has beside its text is short and flat.
        entry.update((name, one) for name, one in piece.items() if isinstance(one, str | int))
        if field and text:
            entry[field] = entry.get(field, "") + text
        return text

    def _same(self, piece: dict[str, Any]) -> dict[str, Any] | None:
        """The detail that a piece goes on with. What is encrypted comes whole."""
        if not _field(piece):
            return None
        for entry in reversed(self.entries):
            if entry.get("type") == piece.get("type") and entry.get("index") == piece.get("index"):
                ids = entry.get("id"), piece.get("id")
                return entry if None in ids or ids[0] == ids[1] else None
        return None

    def sealed(self, text: str) -> str:
        """The details as JSON, for a thought of this text: they hold lengths in its place."""
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
    """The details again, as they came. None where the seal was taken off."""
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
    """Where the readable text of a detail is; "" where it has none."""
    kind = detail.get("type")
    return {"reasoning.text": "text", "reasoning.summary": "summary"}.get(
        kind if isinstance(kind, str) else "", ""
    )
