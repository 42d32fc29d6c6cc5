"""Writes notes as a Markdown page, reads them back, and compares notes."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

_BULLET = re.compile(r"[-*+](?:[ \t]+|$)")
_HEADING = re.compile(r"#{1,6} \S")
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

SAME = 0.9
"""Notes that share this many of their words say nearly the same."""


def clean(text: str) -> str:
    """A note's text as it is read from a file: without trailing and surrounding spaces."""
    lines = _BREAKS.sub("\n", text.replace("\x00", "")).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def entry(text: str) -> str:
    if "\n" not in text and _HEADING.match(text):
        return text
    first, *more = text.split("\n")
    return "\n".join([f"- {first}", *(f"  {line}" if line else "" for line in more)])


def page(texts: Iterable[str]) -> str:
    return "".join(f"{entry(text)}\n" for text in texts)


def entries(page: str) -> list[str]:
    """The notes of a page: bullets with their indented lines, headings, and paragraphs."""
    found: list[list[str]] = []
    kind = ""
    blank = False
    for line in _BREAKS.sub("\n", page.replace("\x00", "")).split("\n"):
        if not line.strip():
            blank = True
            continue
        indented = line.startswith(("  ", "\t"))
        if kind == "bullet" and indented:
            found[-1] += [""] * blank + [line[1:] if line[0] == "\t" else line[2:]]
        elif (bullet := _BULLET.match(line)) is not None:
            found.append([line[bullet.end() :]])
            kind = "bullet"
        elif _HEADING.match(line):
            found.append([line])
            kind = "heading"
        elif kind == "paragraph" and not blank:
            found[-1].append(line)
        else:
            found.append([line])
            kind = "paragraph"
        blank = False
    return [text for lines in found if (text := clean("\n".join(lines)))]


def plain(text: str) -> str:
    """The same for texts that differ only in case, spaces and punctuation."""
    return " ".join(_words(text)) or text.casefold()


@cache  # slow to compile, and most commands compare no notes
def _word() -> re.Pattern[str]:
    return re.compile(
        r"[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
        r"|[^\W_\u3041-\u9fff\uac00-\ud7a3]+"
    )


def _words(text: str) -> list[str]:
    return _word().findall(unicodedata.normalize("NFKC", text).casefold())


def alike(one: str, other: str) -> bool:
    """Whether they say nearly the same. Numbers must be the same: `web1` is not `web2`."""
    a, b = set(_words(one)), set(_words(other))
    if not a or not b:
        return False
    if {word for word in a ^ b if any(c.isdigit() for c in word)}:
        return False
    return len(a & b) >= SAME * len(a | b)


def near(text: str, others: Sequence[str]) -> list[int]:
    """The indexes of the others that share most words with the text, best first."""
    wanted = set(_words(text))
    shared = [(len(wanted & set(_words(other))), -place) for place, other in enumerate(others)]
    return [-place for count, place in sorted(shared, reverse=True) if count][:3]
