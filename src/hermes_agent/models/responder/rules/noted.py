"""Figures that somebody changed, and noted in words what they were."""

import re
from collections.abc import Iterator, Sequence

from hermes_agent.models.responder.rules.config import swapped

_ROW = re.compile(
    r"^\s*(?:export\s+|-\s+)?[\"']?([A-Za-z][\w.-]*)[\"']?\s*[=: ]\s*[\"']?(\d+(?:\.\d+)?)"
)
_REMARK = re.compile(r"(?:^|\s)(?:#|;|//|<!--|--)\s*(.*)$")
_FORMER = re.compile(
    r"\b(?:until|was|were|before|former\w*|normal\w*|usual\w*|original\w*|previous\w*|used to|"
    r"instead of|temporar\w*|back to|by default|once)\b",
    re.IGNORECASE,
)
_ALONE = re.compile(
    r"\b(?:was|were|before|formerly|normally|usually|originally|previously|used to be|instead of|"
    r"back to)\b\D{0,16}?(?<![\w.])(\d+(?:\.\d+)?)(?![\w.]*\d)",
    re.IGNORECASE,
)
"""A figure of which nothing else is said than that it was so."""
_FIGURE = r"(?<![\w.])(\d+(?:\.\d+)?)(?:\s?(?:ms|s|sec\w*|min\w*|m|h))?"


def noted(text: str) -> list[tuple[str, str]]:
    """Rows with a figure of which a remark says that it was another one, and how they were."""
    rows = text.splitlines()
    told = [(at, here[1]) for at, row in enumerate(rows) if (here := _REMARK.search(row))]
    told = [(at, remark) for at, remark in told if _FORMER.search(remark)]
    found = dict[str, str]()
    for at, row in enumerate(rows):
        given = _ROW.match(row)
        if given is None or rows.count(row) > 1:
            continue
        figures = {
            one for where, remark in told
            for one in _figures(given[1], remark, own=where in (at, *_above(rows, at)))
        }  # fmt: skip
        if len(figures) == 1 and (was := figures.pop()) != given[2]:
            found[row] = row[: given.start(2)] + was + row[given.end(2) :]
    return list(found.items())


def _above(rows: Sequence[str], at: int) -> Iterator[int]:
    """The row above one, where it is a remark and nothing else."""
    if at and re.match(r"\s*(?:#|;|//|<!--|--)", rows[at - 1]):
        yield at - 1


def _figures(key: str, remark: str, *, own: bool) -> Iterator[str]:
    """What a remark says that a key was: by its name, or on its row or the one above it."""
    name = r"[ _.-]?".join(map(re.escape, re.split(r"[_.-]", key.rpartition(".")[2])))
    name = rf"\b{name.removesuffix('s')}s?\b"
    yield from re.findall(rf"{_FIGURE}\s+{name}", remark, re.IGNORECASE)
    joined = r"(?:\s*[=:]\s*|\s+(?:of|was|were|at|is|from|to)?\s*)"
    yield from re.findall(rf"{name}{joined}{_FIGURE}", remark, re.IGNORECASE)
    if own and len(re.findall(r"\d+(?:\.\d+)?", remark)) == 1:
        yield from _ALONE.findall(remark)


def set_back(path: str, changes: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Commands that give rows their former figures; the file is kept aside, once."""
    edits = [swapped(path, now, was, whole=True) for now, was in changes]
    return (edits[0][0], *(edit for _, edit in edits)) if edits else ()
