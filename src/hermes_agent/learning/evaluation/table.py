"""The uplift table: what each skill changes, from the rows of `uplift.lift` as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from hermes_agent.learning.evaluation.chart import ChartPoint, Plot, chart, image, key, spark

Row = Mapping[str, Any]

SKILL_WIDTH = 20
TREND = 10
MAX_CHARTS = 3
MAX_PANELS = 12
LIFTS = (
    ("steps", "fewer steps", "more steps"),
    ("seconds", "less time", "more time"),
    ("tokens", "fewer tokens", "more tokens"),
)
HEADS = ("skill", "uses", "success %", "steps", "time", "tokens", "dollars", "trend")
ABOUT = (
    "Pairs: with the skill / without it, as medians of a turn or of a replayed case.",
    "success %: how often it went well, higher is better.",
    "steps (replies of the model), time, tokens, dollars: lower is better.",
    "uses: turns that opened it. trend: steps of its latest uses, oldest first. -: not measured.",
)


def report(rows: Sequence[Row], *, width: int = 100, plain: bool = False) -> str:
    """The table, its legend, and charts of the most used skills."""
    if not rows:
        return "no skill was used, tried or learned yet\nhint: `hermes skills` lists all"
    ordered = most_used_first(rows)
    lines = [*_table(ordered, width, plain=plain), "", *ABOUT]
    drawn = [plot for plot in plots(ordered) if len(plot.dots) > 1][:MAX_CHARTS]
    if drawn:
        lines += ["", "steps of each use, oldest first", key(plain=plain)]
    for plot in drawn:
        lines += ["", *chart(plot, width=width, plain=plain)]
    return "\n".join(lines)


def picture(rows: Sequence[Row]) -> str:
    """The charts as an SVG document."""
    drawn = [plot for plot in plots(most_used_first(rows)) if plot.dots]
    left = len(rows) - len(drawn[:MAX_PANELS])
    some = "1 skill is" if left == 1 else f"{left} skills are"
    note = f"{some} not shown: not used yet, or used less than these" if left else ""
    return image("Steps of each use of a skill", drawn[:MAX_PANELS], note)


def most_used_first(rows: Sequence[Row]) -> Sequence[Row]:
    return sorted(rows, key=lambda row: (-row["uses"], row["skill"]))


def plots(rows: Sequence[Row]) -> Sequence[Plot]:
    return [
        Plot(
            shortened(row["skill"], 48),
            f"{row['state']}; {_worth(row)}",
            [
                ChartPoint(dot["time"], dot["steps"], dot["opened"], dot["bad"])
                for dot in row["trend"]
            ],
            row["without"]["steps"],
        )
        for row in rows
    ]


# the table


def _table(rows: Sequence[Row], width: int, *, plain: bool) -> list[str]:
    cells = [HEADS, *(_cells(row, plain=plain) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    details = [[], *(_second(row, width - 4) for row in rows)]
    return [
        line
        for first, more in zip(lines, details, strict=True)
        for line in (first, *(f"    {part}" for part in more))
    ]


def _cells(row: Row, *, plain: bool) -> tuple[str, ...]:
    usual, changed = row["without"], row["with"]
    steps = [dot["steps"] for dot in row["trend"] if dot["opened"]]
    return (
        shortened(row["skill"], SKILL_WIDTH),
        str(row["uses"]),
        pair(percent(changed["success"]), percent(usual["success"])),
        pair(count(changed["steps"]), count(usual["steps"])),
        pair(duration(changed["seconds"]), duration(usual["seconds"])),
        pair(count(changed["tokens"]), count(usual["tokens"])),
        pair(money(changed["dollars"]), money(usual["dollars"])),
        spark(steps[-TREND:], plain=plain) or "-",
    )


def _second(row: Row, width: int) -> list[str]:
    """Author and value, on two lines if one is too short."""
    model = f" ({shortened(row['model'], 32)})" if row["model"] else ""
    who = f"{row['state']}, version {row['version']} by {row['author']}{model}"
    both = f"{who}; {_worth(row)}"
    return [both] if len(both) <= width else [who, _worth(row)]


def _worth(row: Row) -> str:
    kind, _, number = row["evidence"].partition(" n=")
    one = {"use": "use", "replay": "replayed case"}.get(kind)
    basis = f"{number} {one}{'' if number == '1' else 's'}; " if one else ""
    return f"{basis}{lift_said(row['lift'])}"


def lift_said(lift: Mapping[str, float | None]) -> str:
    """The most telling change: success, then steps, time or tokens."""
    success = lift.get("success")
    said = [f"success {100 * success:+.0f} points"] if success else []
    for name, less, more in LIFTS:
        saved = lift.get(name)
        if saved is not None and round(100 * abs(saved)) > 0:
            said.append(f"{100 * abs(saved):.0f} % {less if saved > 0 else more}")
            break
    if said:
        return ", ".join(said)
    known = any(value is not None for value in lift.values())
    return "no difference" if known else "no baseline yet"


def pair(changed: str, usual: str) -> str:
    return "-" if changed == usual == "-" else f"{changed}/{usual}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


def count(value: float | None) -> str:
    """`6`, `6.5`, `140`, `4.1k`, `2.3M`."""
    if value is None:
        return "-"
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= 0.9995 * size:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def _three(value: float) -> str:
    """At most three digits, without a trailing zero."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0")


def duration(seconds: float | None) -> str:
    """`4.2s`, `38s`, `12m`, `3.1h`."""
    if seconds is None:
        return "-"
    if seconds < 99.5:
        return f"{_three(seconds) if seconds < 9.95 else f'{seconds:.0f}'}s"
    if seconds < 5_970:
        return f"{seconds / 60:.0f}m"
    return f"{_three(seconds / 3_600)}h"


def money(dollars: float | None) -> str:
    if dollars is None:
        return "-"
    return f"{dollars:.3f}" if dollars < 0.9995 else f"{dollars:.2f}"


def shortened(text: str, most: int) -> str:
    line = "".join(letter for letter in text if letter.isprintable())
    return line if len(line) <= most else line[: most - 2] + ".."  # ASCII, for every terminal
