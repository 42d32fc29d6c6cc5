"""What was spent: by day, session, job, model, service or use.

Days are in UTC, as for the daily budget. Costs come from the tokens that the service counted and
the catalogue's prices; calls whose price is unknown are counted separately. "cached" is the share
of the input that came from the service's cache. Deleted sessions keep their ids."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.events import hit_rate
from hermes_agent.cli.output.formatting import count, dollars, moment, one_line, table

NAMES = ("day", "session", "job", "model", "service", "use")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=NAMES, default="day", help="default: day")
    parser.add_argument("--since", default="30d", help="2d, 3h, 1w, or a date (default 30d)")
    parser.add_argument("--until", default="", help="the end; default: now")
    parser.add_argument("--session", default="", help="only this session: its id or name")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    now = time.time()
    query: dict[str, Any] = {"by": options.by, "since": moment(options.since, now)}
    if options.until:
        query["until"] = moment(options.until, now)
    found = connect().get("/v1/costs", session=options.session, **query)
    rows, limit = found["costs"], found["day_dollars"]
    text = "nothing was spent"
    if rows:
        cells = [_cells(row, options.by) for row in rows]
        total = [_cells(_sum(rows), "")] if len(rows) > 1 else []
        text = table((options.by, "calls", "in", "cached", "out", "cost", ""), [*cells, *total])
    text += f"\ntoday (UTC): {dollars(found['today'])}"
    if limit is None:
        text += "\nno budget; `hermes config set budgets.day_dollars 5` sets one"
    else:
        text += f" of {dollars(limit)}"
    return emit(options, found, text)


def _cells(row: dict[str, Any], by: str) -> tuple[str, ...]:
    usage, unpriced = row["usage"], row["unpriced"]
    name = row["name"] or ("no job" if by == "job" else "none")
    unknown = f"{count(unpriced, 'call')} of unknown price" if unpriced else ""
    notes = [unknown, one_line(row["title"], 50)]
    return (
        name,
        str(row["calls"]),
        f"{usage['input']:,}",
        hit_rate(usage),
        f"{usage['output']:,}",
        dollars(None if unpriced == row["calls"] else row["cost"]),
        "; ".join(note for note in notes if note),
    )


def _sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "all",
        "title": "",
        "usage": {
            name: sum(row["usage"][name] for row in rows) for name in ("input", "output", "cached")
        },
        **{name: sum(row[name] for row in rows) for name in ("calls", "cost", "unpriced")},
    }
