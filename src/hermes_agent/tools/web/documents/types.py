"""The kind of a document: by its first bytes, then its Content-Type, then its name."""

from typing import Literal

HEAD = 4096
"""Bytes at its start that tell what it is."""

Kind = Literal["html", "text", "pdf", "office", "image", ""]

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_OFFICE = (".docx", ".docm", ".dotx", ".xlsx", ".xlsm", ".xltx", ".pptx", ".pptm", ".ppsx")
_UNSAID = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/download"})
_TEXT = frozenset(
    {
        "application/javascript", "application/json", "application/ld+json", "application/sql",
        "application/toml", "application/x-ndjson", "application/x-sh", "application/x-yaml",
        "application/xml", "application/yaml", "application/x-javascript",
    }
)  # fmt: skip
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def image_type(data: bytes) -> str | None:
    """The media type of an image that models take, by how it begins."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((type for start, type in _IMAGES.items() if data.startswith(start)), None)


def kind_of(type: str, name: str, head: bytes) -> Kind:
    """The kind of a document; empty when it cannot be read. `type` is its Content-Type, empty when
    unknown; `head` is at least its first `HEAD` bytes, or all of it."""
    plain = type.partition(";")[0].strip().lower()
    if image_type(head) is not None:
        return "image"
    if head.startswith(b"%PDF-") or (plain == "application/pdf" and b"%PDF-" in head[:1024]):
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        known = "openxmlformats" in plain or name.lower().endswith(_OFFICE) or plain in _UNSAID
        return "office" if known else ""
    if b"\0" in head[:HEAD] and not head.startswith(_MARKS) and "utf-16" not in type.lower():
        return ""
    if plain in {"text/html", "application/xhtml+xml"}:
        return "html"
    if plain in _UNSAID:
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
        return "html" if start.startswith((b"<!doctype html", b"<html")) else "text"
    written = plain.startswith("text/") or plain in _TEXT or plain.endswith(("+json", "+xml"))
    return "text" if written else ""
