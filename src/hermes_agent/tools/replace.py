"""Replace a passage of a text: exactly, or, where only the white space around lines differs and
there is one place it can mean, loosely."""

import difflib
from dataclasses import dataclass

from hermes_agent.core.errors import ToolError

LINES_NAMED = 10
LINES_COMPARED = 5_000
"""Lines compared to find the closest one: comparing is slow."""


@dataclass(frozen=True)
class Replaced:
    text: str
    lines: tuple[int, ...]
    """Where the passages began."""
    loosely: bool = False
    """White space differed from `old`."""


def replace(text: str, old: str, new: str, *, everywhere: bool) -> Replaced:
    """The text with `old` replaced by `new`. Raises `ToolError` when that is not possible or
    ambiguous."""
    if not old:
        raise ToolError("`old` is empty", "write_file makes a file or replaces it whole")
    if old == new:
        raise ToolError("`old` and `new` are the same; there is nothing to change")
    if "\r\n" in text and "\r" not in old:  # the model was shown the lines without their \r
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    places = _places(text, old)
    if len(places) > 1 and not everywhere:
        raise ToolError(
            f"`old` occurs {len(places)} times, {_named(places)}",
            "include more of the text around the one you mean, or set `all`",
        )
    if places:
        return Replaced(text.replace(old, new), places)
    loose = _loosely(text, old, new)
    if loose is None:
        raise _not_found(text, old, new)
    return loose


def _places(text: str, old: str) -> tuple[int, ...]:
    """The line each occurrence begins on."""
    lines: list[int] = []
    line, position = 1, 0
    while (found := text.find(old, position)) >= 0:
        line += text.count("\n", position, found)
        lines.append(line)
        line += old.count("\n")
        position = found + len(old)
    return tuple(lines)


def _named(lines: tuple[int, ...]) -> str:
    shown = ", ".join(str(line) for line in lines[:LINES_NAMED])
    return f"on lines {shown}" + (", …" if len(lines) > LINES_NAMED else "")


def _loosely(text: str, old: str, new: str) -> Replaced | None:
    """The replacement of whole lines that differ from `old` only in trailing white space and in
    one indentation added to or missing from all of them. None when there is no such place."""
    have = text.split("\n")
    want = old.rstrip("\r\n").split("\n")
    stripped = [line.strip() for line in want]
    if not any(stripped):
        return None
    bare = [line.strip() for line in have]
    found = [
        (start, shift)
        for start in range(len(have) - len(want) + 1)
        if bare[start] == stripped[0] and bare[start : start + len(want)] == stripped
        for shift in [_shift(want, have[start : start + len(want)])]
        if shift is not None
    ]
    if len(found) > 1:
        places = tuple(start + 1 for start, _ in found)
        raise ToolError(
            f"`old` has no exact match; ignoring white space it matches {len(found)} places, "
            + _named(places),
            "copy the passage exactly as read_file shows it, after the `|`",
        )
    if not found:
        return None
    start, shift = found[0]
    after = start + len(want)
    fresh = [_shifted(line, shift) for line in new.split("\n")]
    if old.endswith("\n") and fresh[-1] == "":
        fresh.pop()  # the line end belongs to the passage on both sides
    elif old.endswith("\n") and after < len(have):
        fresh[-1] += have[after]
        after += 1
    if have[start].endswith("\r"):
        fresh = [line.rstrip("\r") + "\r" for line in fresh]
    return Replaced("\n".join([*have[:start], *fresh, *have[after:]]), (start + 1,), loosely=True)


def _shift(want: list[str], have: list[str]) -> tuple[str, str] | None:
    """What to take off and what to put on at the start of each line to get from one indentation
    to the other; None when the lines do not agree on it."""
    shifts = {
        _difference(_indent(wanted), _indent(there))
        for wanted, there in zip(want, have, strict=True)
        if wanted.strip()
    }
    return shifts.pop() if len(shifts) == 1 else None


def _difference(wanted: str, there: str) -> tuple[str, str] | None:
    if there.endswith(wanted):
        return "", there[: len(there) - len(wanted)]
    if wanted.endswith(there):
        return wanted[: len(wanted) - len(there)], ""
    return None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _shifted(line: str, shift: tuple[str, str]) -> str:
    off, on = shift
    return on + line.removeprefix(off) if line.strip() else line


def _not_found(text: str, old: str, new: str) -> ToolError:
    if new.strip() and new in text:
        return ToolError("`old` was not found, but `new` was: perhaps the change was already made")
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    lines = [line.strip() for line in text.split("\n")[:LINES_COMPARED]]
    close = difflib.get_close_matches(first, lines, n=1, cutoff=0.6)
    hint = "read the file again and copy the passage exactly, without the line numbers"
    if close:
        hint = f"the closest is line {lines.index(close[0]) + 1}: {close[0][:200]!r}; {hint}"
    return ToolError("`old` was not found", hint)
