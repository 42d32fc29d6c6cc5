"""Resolves local paths and globs, matched as bash matches them."""

import functools
import os
import re

MAX_COUNT = 1000
"""A glob that matches more than this counts as unknown, so that policy asks."""
_MAGIC = re.compile(r"[*?\[]")
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r"\ \t", "digit": "0-9", "lower": "a-z",
    "space": r"\s", "upper": "A-Z", "word": r"\w", "xdigit": "0-9a-fA-F",
    "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip
_SET = re.compile(r"\[(?P<not>[!^]?)(?P<inner>\]?(?:\[:\w+:\]|\\.|[^\]])*)\]", re.DOTALL)


def trace(path: str) -> tuple[str, ...]:
    """The real paths of an absolute path or glob."""
    if not _MAGIC.search(path):
        return (os.path.realpath(path),)
    found = matches(path)
    if len(found) > MAX_COUNT:
        return ()
    found = found or [_plain(path)]
    if os.path.lexists(path):  # a file of that very name
        found.append(path)
    return tuple(dict.fromkeys(os.path.realpath(one) for one in found))


def matches(pattern: str) -> list[str]:
    """What an absolute glob matches, in order, at most one more than `MAX_COUNT`."""
    found = [""]
    for part in pattern.split("/")[1:]:
        if not _MAGIC.search(part):
            found = [f"{top}/{_plain(part)}" for top in found]
            found = [one for one in found if os.path.lexists(one)]
        else:
            found = [f"{top}/{name}" for top in found for name in _names(top, part)]
        if not found or len(found) > MAX_COUNT:
            return found[: MAX_COUNT + 1]
    return found


def _plain(part: str) -> str:
    """Without backslash escapes."""
    return re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)


def _names(folder: str, part: str) -> list[str]:
    fits = _expression(part)
    try:
        names = os.listdir(folder or "/")  # noqa: PTH208 - names are all that is wanted
    except OSError:  # not there, not a folder, not ours
        return []
    hidden = part.startswith((".", "\\."))
    return sorted(name for name in names if (hidden or name[0] != ".") and fits.fullmatch(name))


@functools.lru_cache(256)
def _expression(part: str) -> re.Pattern[str]:
    """One part of a glob, between slashes, as a regular expression."""
    signs, place = [], 0
    while place < len(part):
        sign = part[place]
        group = _SET.match(part, place) if sign == "[" else None
        if group is not None:
            signs.append(_set(group["not"], group["inner"]))
            place = group.end()
            continue
        if sign == "\\" and place + 1 < len(part):
            place += 1
            signs.append(re.escape(part[place]))
        else:
            signs.append({"*": ".*", "?": "."}.get(sign, re.escape(sign)))
        place += 1
    try:
        return re.compile("".join(signs), re.DOTALL)
    except re.error:  # a range that is none
        return re.compile(re.escape(part), re.DOTALL)


def _set(negated: str, inner: str) -> str:
    text, place = "", 0
    while place < len(inner):
        named = re.compile(r"\[:(\w+):\]").match(inner, place)
        if named is not None and named[1] in _CLASSES:
            text += _CLASSES[named[1]]
            place = named.end()
            continue
        sign = inner[place]
        if sign == "\\" and place + 1 < len(inner):
            place += 1
            sign = inner[place]
            text += "\\" + sign if not sign.isalnum() else sign
        else:
            text += sign if sign == "-" or sign.isalnum() else re.escape(sign)
        place += 1
    return f"[{'^' if negated else ''}{text}]"
