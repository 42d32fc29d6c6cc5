"""What a search finds."""

import re

from msgspec import Struct

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class SearchHit(Struct, frozen=True):
    title: str
    url: str
    snippet: str = ""


def words(text: object) -> str:
    """On one line."""
    return " ".join(str(text or "").split())


def unmarked(text: object) -> str:
    """Without HTML's tags and entities."""
    import html

    return words(html.unescape(_TAG.sub("", str(text or ""))))
