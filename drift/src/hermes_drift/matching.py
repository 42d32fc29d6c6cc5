"""Globs over paths and names: `*` within a part, `**` over parts."""

import re
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=1000)
def _compiled(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    signs = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(signs.get(part, re.escape(part)) for part in parts), re.DOTALL)


def fits(glob: str, text: str) -> bool:
    """Whether a glob matches; one without a slash may match the last part of a path."""
    found = _compiled(glob).fullmatch(text)
    if found is None and "/" not in glob and "/" in text:
        return _compiled(glob).fullmatch(text.rpartition("/")[2]) is not None
    return found is not None


def fits_any(globs: Iterable[str], text: str) -> bool:
    return any(fits(glob, text) for glob in globs)
