"""Lays out a question for a terminal: its view as rows that fit the width, and where they are
folded, how many are left out. Dangerous lines are never among those."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from hermes_agent.cli.home import home_folder
from hermes_agent.cli.output.formatting import cells, count, has_colour
from hermes_agent.core.text.consent import (
    ConsentAnswer,
    ConsentLine,
    ConsentSection,
    ConsentView,
    consent_view,
)
from hermes_agent.core.text.format import span

GUTTER = 5
"""Columns before a line of the effect: a mark, its number, a blank."""
RISKS = 30
"""Dangers listed where the view is folded."""
TINTS = {
    "danger": "1;31", "added": "32", "removed": "31", "quiet": "2", "folded": "2", "title": "1",
}  # fmt: skip

Measure = Callable[[str], int]


class Row(NamedTuple):
    text: str
    mark: str = ""
    """A mark of a line, `title`, or `folded`: it counts what is left out."""


class Fold(NamedTuple):
    """How much of each section is shown, and how to see the rest."""

    rows: int
    more: str = "`v` shows all"


def rows(
    view: ConsentView, width: int, fold: Fold | None = None, measure: Measure = cells
) -> Iterator[Row]:
    """The question without its answers. `width` 0: not wrapped. What is folded is counted."""
    yield from _title_rows(f"? {view.title}", "title", width, measure)
    for section in view.sections:
        title = f"  {section.title}"
        if section.extra and fold:
            title = f"{title}, as changed by the lines above: {fold.more}"
            yield from _title_rows(title, "folded", width, measure)
            continue
        if section.title:
            mark = "danger" if section.title == "dangerous" else "title"
            yield from _title_rows(title, mark, width, measure)
        laid = _line_rows(section, width, measure)
        if fold is None:
            yield from (row for _, found in laid for row in found)
        else:
            least = RISKS if section.title == "dangerous" else 0
            yield from _folded(laid, fold._replace(rows=max(fold.rows, least)))


def _title_rows(title: str, mark: str, width: int, measure: Measure) -> Iterator[Row]:
    """What is in it never begins a line, where it could look like another title."""
    room = max(width - 4, 8) if 0 < width < measure(title) else 0
    for at, part in enumerate(wrapped(title, room, measure)):
        yield Row(("  ┆ " if at else "") + part, mark)


def _folded(laid: Iterable[tuple[ConsentLine, list[Row]]], fold: Fold) -> Iterator[Row]:
    shown = hidden = 0
    kept: list[Row] = []
    """Dangerous lines that would be hidden."""
    for line, found in laid:
        room = max(fold.rows - shown, 0)
        yield from found[:room]
        shown += len(found[:room])
        if room == 0 and line.mark == "danger" and len(kept) < RISKS:
            kept += found[:2]
            room = 2
        hidden += len(found[room:])
    yield from kept
    if hidden:
        yield Row(f"    … {count(hidden, 'more line')}, {fold.more}", "folded")


def _line_rows(
    section: ConsentSection, width: int, measure: Measure
) -> Iterator[tuple[ConsentLine, list[Row]]]:
    """Each line with its rows."""
    exact = section.title != "dangerous" and not section.prose and bool(section.title)
    first = "  ! " if section.title == "dangerous" else "    "
    rest = f"{'':>{GUTTER + 1}} │ " if exact else "    "
    room = max(width - len(rest), 8) if width else 0
    for line in section.lines:
        if exact:
            sign = "!" if line.mark == "danger" else " "
            first = f"{sign}{line.number or '':>{GUTTER}} │ "
        parts = wrapped(line.text.expandtabs(4), room, measure, words=section.prose)
        if line.note and measure(parts[-1]) + measure(line.note) + 5 <= room:
            parts[-1] += f"   ← {line.note}"
        elif line.note:
            parts += wrapped(f"↑ {line.note}", room, measure)
        found = [Row(first + parts[0], line.mark)]
        found += [Row(rest + part, line.mark) for part in parts[1:]]
        yield line, found


def wrapped(text: str, room: int, measure: Measure, *, words: bool = False) -> list[str]:
    """Broken anywhere, so that nothing is lost or looks shorter than it is; after a word where
    that is asked for and leaves no gap."""
    if room <= 0 or measure(text) <= room:
        return [text]
    found: list[str] = []
    start = used = 0
    for at, letter in enumerate(text):
        wide = measure(letter)
        if used + wide > room and at > start:
            space = text.rfind(" ", (start + at) // 2, at) if words else -1
            end = space + 1 or at
            found.append(text[start:end])
            start, used = end, measure(text[end:at])
        used += wide
    return [*found, text[start:]]


def answer_rows(
    answers: Iterable[ConsentAnswer], width: int = 0, measure: Measure = cells, chosen: str = ""
) -> Iterator[Row]:
    """What can be answered; a question's own choices are numbered."""
    for answer in answers:
        sign, mark = ("▸", "chosen") if answer.key == chosen else (" ", "")
        lead, text = f"{sign} {answer.key}  {answer.label:<8} ", answer.meaning
        if answer.key.isdigit():
            lead, text = f"{sign} {answer.key}. ", answer.label
        room = max(width - len(lead), 8) if width else 0
        for at, part in enumerate(wrapped(text, room, measure, words=True)):
            yield Row((" " * len(lead) if at else lead) + part, mark)


def rule_added(question: Mapping[str, Any]) -> str:
    """Where the answer "always" has put its rules, and how to take them back."""
    if question["purpose"] != "approval":
        return ""
    ids = ", ".join(re.findall(r"^- id: (\S+)", question.get("proposal", ""), re.MULTILINE))
    file = home_folder() / "policies" / "approved.yaml"
    return f"\n  added to {file}: {ids}\n  delete it there and Hermes asks again"


def rule_rows(view: ConsentView, width: int = 0, measure: Measure = cells) -> Iterator[Row]:
    """The rule that "always" would add, as a diff of its file."""
    yield from _title_rows("  always would add to policies/approved.yaml:", "title", width, measure)
    for line in view.rule:
        for at, part in enumerate(wrapped(line, max(width - 6, 8) if width else 0, measure)):
            yield Row(("      " if at else "    + ") + part, "added")


def expiry(question: Mapping[str, Any], now: float) -> str:
    """`refused in 4 min if nobody answers`; empty where it stays open."""
    if not question.get("expires"):
        return ""
    seconds = question["expires"] - now
    left = span(seconds if seconds < 60 else -(-seconds // 60) * 60)
    if question["purpose"] == "question":
        return f"continues without an answer in {left}"
    return f"refused in {left} if nobody answers"


def question_lines(question: Mapping[str, Any]) -> list[str]:
    """The whole question with its answers, as plain lines."""
    view = consent_view(question)
    return [row.text for row in (*rows(view, 0), *answer_rows(view.answers))]


def painted(found: Iterable[Row], stream: IO[str]) -> str:
    """The rows in their colours, where the stream takes them."""
    colour = has_colour(stream)
    return "\n".join(
        f"\x1b[{TINTS[row.mark]}m{row.text}\x1b[0m" if colour and row.mark in TINTS else row.text
        for row in found
    )
