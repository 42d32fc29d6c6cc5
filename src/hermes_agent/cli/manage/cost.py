"""What was spent: by day, session, job, model, service or use.

Days are those of UTC, as the budget of a day counts them. What a call cost is computed from the
tokens that the service counted and the catalogue's prices; a call whose price is not known counts
as such and not as nothing. "cached" is how much of the input came from the service's cache. What a
deleted session cost is kept, under its id."""

import argparse
import time
from typing import Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import dollars, moment, print_json, table
from hermes_agent.cli.output.turn_printer import hit_rate, one_line

NAMES = ("day", "session", "job", "model", "service", "use")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=NAMES, default="day", help="the default is by day")
    parser.add_argument("--since", default="30d", help="2d, 3h, 1w, or a date (default 30d)")
    parser.add_argument("--until", default="", help="up to then")
    parser.add_argument("--session", default="", help="of one session, by its id or name")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    now = time.time()
    query: dict[str, Any] = {"by": options.by, "since": moment(options.since, now)}
    if options.until:
        query["until"] = moment(options.until, now)
    if options.session:
        query["session"] = options.session
    api = RuntimeClient()
    api.ensure()
    found = api.get("/v1/costs", **query)
    if options.json:
        print_json(found)
        return 0
    rows = found["costs"]
    if not rows:
        print("nothing was spent")
    else:
        cells = [_cells(row, options.by) for row in rows]
        total = [_cells(_sum(rows), "")] if len(rows) > 1 else []
        print(table((options.by, "calls", "in", "cached", "out", "cost", ""), [*cells, *total]))
    limit = found["day_dollars"]
    of = "" if limit is None else f" of {dollars(limit)}"
    print(f"today (UTC): {dollars(found['today'])}{of}")
    if limit is None:
        print("no budget; `hermes config set budgets.day_dollars 5` sets one")
    return 0


def _cells(row: dict[str, Any], by: str) -> tuple[str, ...]:
    usage, unpriced = row["usage"], row["unpriced"]
    name = row["name"] or ("no job" if by == "job" else "none")
    calls = "1 call" if unpriced == 1 else f"{unpriced} calls"
    notes = [f"{calls} of unknown price" if unpriced else "", one_line(row["title"], 50)]
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
