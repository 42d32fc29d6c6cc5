"""Texts of a machine in the patterns of sed: each stands there for itself, whatever is in it. One
that breaks a line would begin a command of its own, so that nothing fits it."""

import re

_NEVER = "[^[:print:][:cntrl:]]"


def basic(text: str) -> str:
    """A text as a pattern of `sed`, between `/`, or `|` where it has none."""
    return _NEVER if _breaks(text) else re.sub(r"([][\\.*^$/])", r"\\\1", text)


def extended(text: str) -> str:
    """A text as a pattern of `sed -E`, between `/`."""
    return _NEVER if _breaks(text) else re.sub(r"([][\\.*^$/|(){}+?])", r"\\\1", text)


def replacement(text: str, mark: str = "/") -> str:
    """A text as what is put in the place of another, up to a mark."""
    return re.sub(rf"([\\&\n{re.escape(mark)}])", r"\\\1", text)


def _breaks(text: str) -> bool:
    return "\n" in text
