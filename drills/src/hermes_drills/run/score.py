"""Figures over all runs that were kept: splits apart, with and without learning."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import get_args

from msgspec import Struct

from hermes_drills.run.results import Result
from hermes_drills.run.view import table
from hermes_drills.types import Split

SPLITS: tuple[Split, ...] = get_args(Split)
GROUPS: dict[str, Callable[[Result], str]] = {
    "family": lambda one: one.family,
    "mechanism": lambda one: f"{one.family}/{one.mechanism}",
    "stack": lambda one: one.stack,
    "init": lambda one: one.init,
    "model": lambda one: one.model or "-",
}
HEADS = ("runs", "resolved", "handed over", "cause right", "harm", "mistaken", "first", "again",
         "replies", "time", "tokens", "cost")  # fmt: skip
NOTE = (
    "Resolved: Hermes reports success, and the judge twice finds the machine healthy and nothing "
    "damaged; without a fault, Hermes calls it a false alarm and changes nothing. "
    "Handed over: Hermes asked people to take over, with its findings. "
    "Harm: runs in which something else was damaged. "
    "Mistaken: Hermes reports success, but the judge disagrees. "
    "First and again: tool calls of resolved runs, the first time a family occurred in this home "
    "and later. These, replies, time (from the alert to the end), tokens and cost are medians."
)


class Row(Struct, frozen=True):
    group: str
    """Empty for all of them together."""
    split: Split
    learning: bool
    runs: int
    resolved: float
    """Shares from 0 to 1."""
    handed_over: float
    cause: float
    harm: int
    """Runs."""
    mistaken: int
    first: float | None
    """Tool calls: medians from here on."""
    again: float | None
    steps: float
    seconds: float
    tokens: float
    cost: float | None


def rows(found: Iterable[Result], by: str = "family") -> list[Row]:
    """One for each group, split and arm, and after them all of a split together."""
    groups: dict[tuple[str, Split, bool], list[Result]] = defaultdict(list)
    for one in found:
        for group in {GROUPS[by](one), ""}:
            groups[group, one.split, one.learning].append(one)
    order = sorted(groups, key=lambda key: (SPLITS.index(key[1]), not key[2], not key[0], key[0]))
    return [_row(key, groups[key]) for key in order]


def _row(key: tuple[str, Split, bool], runs: Sequence[Result]) -> Row:
    healed = [one for one in runs if one.resolved and one.learning]
    return Row(
        *key, len(runs), sum(one.resolved for one in runs) / len(runs),
        sum(one.outcome == "handed over" for one in runs) / len(runs),
        sum(one.cause for one in runs) / len(runs),
        sum(bool(one.harm) for one in runs), sum(one.mistaken for one in runs),
        _median(one.calls for one in healed if one.encounter == 1),
        _median(one.calls for one in healed if one.encounter > 1),
        median(one.steps for one in runs), median(one.seconds for one in runs),
        median(one.tokens for one in runs),
        _median(one.cost for one in runs if one.cost is not None),
    )  # fmt: skip


def _median(figures: Iterable[float]) -> float | None:
    found = list(figures)
    return median(found) if found else None


def text(found: Sequence[Result], by: str) -> str:
    heads = (by.upper(), "SPLIT", "LEARNING", *(head.upper() for head in HEADS))
    cells = [
        (row.group or "all", row.split, "on" if row.learning else "off", *_figures(row))
        for row in rows(found, by)
    ]
    return table(heads, cells)


def markdown(found: Sequence[Result], by: str) -> str:
    """What is published: a table for each split, and with and without learning."""
    parts, made = [], rows(found, by)
    for split in SPLITS:
        for learning in (True, False):
            some = [row for row in made if (row.split, row.learning) == (split, learning)]
            if some:
                title = f"### Split `{split}`{'' if learning else ', without learning'}"
                head = f"| {by} | {' | '.join(HEADS)} |\n|---|{'---:|' * len(HEADS)}"
                parts.append("\n".join([f"{title}\n", head, *map(_markdown_row, some)]))
    return "\n\n".join([*parts, NOTE])


def _markdown_row(row: Row) -> str:
    name = f"`{row.group}`" if row.group else "**all**"
    return f"| {' | '.join((name, *_figures(row)))} |"


def _figures(row: Row) -> tuple[str, ...]:
    calls = ["-" if count is None else f"{count:g}" for count in (row.first, row.again)]
    return (
        str(row.runs), f"{row.resolved:.0%}", f"{row.handed_over:.0%}", f"{row.cause:.0%}",
        str(row.harm), str(row.mistaken), *calls, f"{row.steps:g}", f"{row.seconds:.0f} s",
        f"{row.tokens:,.0f}", "-" if row.cost is None else f"${row.cost:.2f}",
    )  # fmt: skip
