"""Finds dangerous commands, code and chat markup, by `commands.table`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from hermes_agent.learning.tables import read

_HOST = re.compile(r"https?://([\w.-]+)")
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}$")
_AT_HOME = ("127.", "10.", "192.168.")
_NAME = re.compile("<([A-Z_]+)>")


@cache
def _list(name: str) -> Sequence[str]:
    return dict(read(Path(__file__).with_name("commands.table")))[name]


def _strange_installer(found: re.Match[str]) -> bool:
    """Whether what is downloaded and run comes from an unknown host."""
    host = _HOST.search(found[0])
    if host is None:
        return "$" in found[0].split("|")[0]
    return not any(
        host[1] == known or host[1].endswith("." + known) for known in _list("known installers")
    )


def _strange_key(found: re.Match[str]) -> bool:
    """Whether a key is sent to somebody other than its issuer."""
    host, name = found["host"], found["name"]
    if _ADDRESS.match(host):
        return not host.startswith(_AT_HOME)
    vendor = next((one for one in _list("vendors") if name.startswith(one + "_")), None)
    return vendor is not None and vendor not in host and host != "localhost"


_CHECKS: Mapping[str, Callable[[re.Match[str]], bool]] = {
    "strange installer": _strange_installer,
    "strange key": _strange_key,
}


class CommandPattern(Struct, frozen=True):
    what: str
    why: str
    words: tuple[tuple[str, ...], ...]
    """A match contains one word of each group: other texts are not searched."""
    find: str
    """A regular expression, compiled when first needed."""
    only: Callable[[re.Match[str]], bool] | None
    quoted: bool
    """Harmless in skills and context files if quoted or code."""


@cache
def _patterns() -> tuple[CommandPattern, ...]:
    (_, named), *parts = read(Path(__file__).with_name("commands.table"))
    names = dict(line.split(" ", 1) for line in named)

    def whole(text: str) -> str:
        return _NAME.sub(lambda found: names[found[1]], text)

    made: list[CommandPattern] = []
    for heading, lines in parts:
        what, colon, why = heading.partition(": ")
        if not colon:
            continue
        given = [line.partition(" ")[::2] for line in lines]
        words = tuple(tuple(whole(text).split("  ")) for key, text in given if key == "words")
        find = next(whole(text) for key, text in given if key == "find")
        only = next((_CHECKS[text] for key, text in given if key == "only"), None)
        made.append(CommandPattern(what, why, words, find, only, ("quoted", "") in given))
    return tuple(made)


@cache
def _compiled(find: str) -> re.Pattern[str]:
    return re.compile(find)


def matches(lower: str) -> Iterator[tuple[CommandPattern, int, int]]:
    present: dict[tuple[str, ...], bool] = {}
    for pattern in _patterns():
        for group in pattern.words:
            if group not in present:
                present[group] = any(word in lower for word in group)
        if not all(present[group] for group in pattern.words):
            continue
        for found in _compiled(pattern.find).finditer(lower):
            if pattern.only is None or pattern.only(found):
                yield pattern, found.start(), found.end()
