"""Rows that give a program another time, and what is left of them without it."""

import re
import shlex

from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import keeping
from hermes_agent.models.responder.rules.sed import basic

FAKED = re.compile(r"faketime|datefudge", re.IGNORECASE)
_APART, _WORD = r"(?:\s*,\s*|\s+)", r"(?:\"[^\"]*\"|'[^']*'|[^\s,\"'()\[\]]+)"
_CALL = re.compile(
    rf"(?<![\w./-])(\"|'|)(?:/[\w./-]*/)?(?:faketime|datefudge)\1"
    rf"(?:{_APART}(\"|'|)(?:-[mfs]|--[\w-]+)\2(?=[\s,]))*{_APART}{_WORD}"
    rf"(?:{_APART}|(?=\s*$|[)\]\"';]))"
)
"""A call of a program that gives another one its time, up to that one."""
_GIVEN = re.compile(r"(,?\s*)(?<![\w.])(LD_PRELOAD|FAKETIME\w*)=(\"[^\"]*\"|'[^']*'|[^,\s\"');]*)")
_PAIR = re.compile(r"([\"']?FAKETIME[\"']?\s*:\s*)([\"']?)[^\"',]+\2")
_NOTHING = re.compile(
    r"\s*(?:(?:export|(?:declare|typeset) -x|set -gx|env|Environment\s*=|[\"';])\s*)*"
)


def true_row(row: str) -> str:
    """What is left of a row; nothing, where it gives another time and does no more."""
    left = _PAIR.sub(r"\1\g<2>+0\2", _GIVEN.sub(_without, _CALL.sub("", row)))
    left = re.sub(r"^(\s*environment\s*=)\s*,\s*", r"\1", left)
    return "" if left != row and _NOTHING.fullmatch(left) else left


def _without(found: re.Match[str]) -> str:
    """What else is loaded before a program stays so."""
    before, name, value = found.groups()
    if name != "LD_PRELOAD":
        return ""
    parts = re.split(r"[\s:]+", value.strip("\"'"))
    kept = [one for one in parts if one and not FAKED.search(one)]
    if len(kept) == len(parts):
        return found[0]
    return f'{before}{name}="{":".join(kept)}"' if kept else ""


def trued(path: str, text: str) -> tuple[str, ...]:
    """Commands that take another time out of a file; none where no row of it can be read so."""
    rows = [row for row in text.splitlines() if not row.lstrip().startswith(("#", ";"))]
    edits = list[str]()
    for row in dict.fromkeys(row for row in rows if row.strip()):
        left = true_row(row)
        if left.strip() and left != row:
            edits.append(swapped(path, row, left, whole=True)[1])
        elif left != row:
            gone = f"/^[[:space:]]*{basic(row.strip())}[[:space:]]*$/d"
            edits.append(f"sed -i {shlex.quote(gone)} {shlex.quote(path)}")
    return (keeping(path), *edits) if edits else ()
