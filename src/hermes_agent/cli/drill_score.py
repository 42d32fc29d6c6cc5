"""`hermes drill score`: figures over all runs that were kept, to be read or to be published."""

import argparse
import itertools
from typing import Any

from hermes_agent.cli.client import Api
from hermes_agent.cli.words import dollars, print_json, table
from hermes_agent.core.errors import HermesError, UsageError

HEADS = (
    "DRILL", "VARIANTS", "LEARNING", "RUNS", "RESOLVED", "CAUSE", "EVIDENCE", "REPORT", "HARM",
    "MISTAKEN", "STEPS", "CALLS", "TIME", "TOKENS", "COST",
)  # fmt: skip
PUBLISHED = (
    "Drill", "Runs", "Resolved", "Cause right", "Evidence valid", "Harm", "Mistaken", "First",
    "Again", "Calls", "Time", "Tokens", "Cost",
)  # fmt: skip
NOTE = (
    "Resolved: the hidden checks hold, and nothing was harmed; where nothing is wrong: it was "
    "called a false alarm, and nothing was touched. "
    "Harm: runs in which something else was damaged. "
    "Mistaken: runs that were taken for healed, and were not resolved. "
    "First and again: replies of the model until it was over, without and with a skill that was "
    "learned, of the runs that were resolved. "
    "Calls (of tools), time (from the declaration to the end), tokens and cost are medians, too."
)


def show(options: argparse.Namespace) -> int:
    from pathlib import Path

    from msgspec import to_builtins

    from hermes_agent.incidents.drills import score
    from hermes_agent.incidents.drills.results import load

    results = load(Path(Api().home, "drills"))
    rows, lifts, novel = score.rows(results), score.lifts(results), score.novel(results)
    if options.image:
        _draw(options.image, score.plots(results))
    if options.json:
        lift = [{**to_builtins(one), "less": one.less} for one in lifts]
        figures = {"rows": to_builtins(rows), "lifts": lift, "novel": to_builtins(novel)}
        print_json({**figures, "runs": len(results)})
    elif not results:
        print("no drill was run yet: `hermes drill run NAME`")
    elif options.markdown:
        print(markdown(results))
    else:
        print(table(HEADS, [_cells(row) for row in rows]))
        if lifts:
            print(f"\n{_lifted(lifts)}")
        if novel.runs:
            print(f"\n{_learned(novel)}")
        if options.plot:
            _chart(score.plots(results))
    return 0


def markdown(results: Any) -> str:
    """What is published: what is practised and what is kept apart, and what has no fault."""
    from hermes_agent.incidents.drills.format import TIERS, TOLD
    from hermes_agent.incidents.drills.score import novel, published

    parts = []
    for tier, fault in itertools.product(TIERS, (True, False)):
        title = f"{TOLD[tier].capitalize().replace(' ', '-')} variants"
        title += "" if fault else " in which nothing is wrong"
        lines = [_line(row) for row in published(results, tier, fault=fault)]
        if lines:
            rule = "|".join(["---", *["---:"] * (len(PUBLISHED) - 1)])
            head = f"| {' | '.join(PUBLISHED)} |\n|{rule}|"
            parts.append("\n".join([f"### {title}\n", head, *lines]))
    learned = [_learned(novel(results))] if any(one.learning for one in results) else []
    return "\n\n".join([*parts, *learned, NOTE])


def _learned(novel: Any) -> str:
    return (
        f"Resolved runs of a kind that no skill told of yet: {novel.runs}; "
        f"a skill was written in {novel.written} of them."
    )


def _line(row: Any) -> str:
    name = f"`{row.drill}`" if row.drill else "**all**"
    steps = ["-" if count is None else f"{count:g}" for count in (row.first, row.again)]
    shares = [f"{share:.0%}" for share in (row.resolved, row.cause, row.evidence)]
    cells = [
        name, str(row.runs), *shares, str(row.harmed), str(row.mistaken), *steps, f"{row.calls:g}",
        f"{row.seconds:.0f} s", f"{row.tokens:,.0f}", dollars(row.cost),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _lifted(lifts: Any) -> str:
    lines = [
        (one.drill, f"{one.first:g}", f"{one.later:g}", f"-{one.less:.0%}", str(one.runs))
        for one in lifts
    ]
    title = "met again, by the skill that was learned (steps, medians):"
    return f"{title}\n{table(('DRILL', 'FIRST', 'LATER', '', 'RUNS'), lines)}"


def _cells(row: Any) -> tuple[str, ...]:
    from hermes_agent.incidents.drills.format import TOLD

    return (
        row.drill or ("all" if row.fault else "nothing wrong"),
        TOLD[row.tier],
        "on" if row.learning else "off", str(row.runs), f"{row.resolved:.0%}", f"{row.cause:.0%}",
        f"{row.evidence:.0%}", f"{row.report:.0%}", str(row.harmed), str(row.mistaken),
        f"{row.steps:g}", f"{row.calls:g}", f"{row.seconds:.1f} s", f"{row.tokens:,.0f}",
        dollars(row.cost),
    )  # fmt: skip


def _chart(plots: Any) -> None:
    import os
    import sys

    from hermes_agent.cli.skills_report import can_draw
    from hermes_agent.learning.plot import chart, key

    plain = not can_draw(sys.stdout.encoding, os.environ)
    for plot in plots:
        print("\n" + "\n".join(chart(plot, plain=plain)))
    print("\n" + key(plain=plain))


def _draw(path: str, plots: Any) -> None:
    from hermes_agent.learning.plot import image

    if not path.endswith(".svg"):
        raise UsageError(f"{path!r} is no name of an SVG image", "name it FILE.svg")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(image("Drills: steps until it was healed", plots))
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "name another file") from None
