"""Sessions below those that they work for, with what each cost alone and with its children."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.output.formatting import dollars, span, table
from hermes_agent.cli.output.turn_printer import one_line

ALL = 1_000_000_000

Row = dict[str, Any]


def tree(api: RuntimeClient, reference: str, limit: int) -> list[Row]:
    """The newest sessions that work for nobody, or the one that is named, each with its `children`
    and the `total` of what it and they cost."""
    if reference:
        return [_below(api, api.get(session_path(reference)))]
    rows: list[Row] = api.get("/v1/sessions", limit=ALL)
    families: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        families[row["parent"]].append(row)
    return [_grown(row, families) for row in families[""][:limit]]


def _below(api: RuntimeClient, row: Row) -> Row:
    children = api.get("/v1/sessions", parent=row["id"], limit=ALL)
    return _with_children(row, [_below(api, child) for child in children])


def _grown(row: Row, families: dict[str, list[Row]]) -> Row:
    return _with_children(row, [_grown(child, families) for child in families.get(row["id"], ())])


def _with_children(row: Row, children: Sequence[Row]) -> Row:
    ordered = sorted(children, key=lambda child: (child["created"], child["id"]))
    costs = [row["cost"], *(child["total"] for child in ordered)]
    priced = [cost for cost in costs if cost is not None]
    return {**row, "total": sum(priced) if priced else None, "children": ordered}


def tree_text(roots: Sequence[Row], now: float) -> str:
    if not roots:
        return 'no sessions yet\nhint: hermes ask "…" or `hermes chat` opens one'
    cells = [
        (f"{branch}{row['id']}", row["state"], span(now - row["created"]), dollars(row["cost"]),
         dollars(row["total"]), one_line(row["name"] or row["title"], 60))
        for root in roots
        for branch, row in _lines(root, "", "")
    ]  # fmt: skip
    return table(("session", "state", "age", "cost", "with children", "name"), cells)


def _lines(row: Row, first: str, rest: str) -> Iterator[tuple[str, Row]]:
    """Each session with the branch that leads to it."""
    yield first, row
    last = len(row["children"]) - 1
    for place, child in enumerate(row["children"]):
        if place == last:
            yield from _lines(child, f"{rest}└─ ", f"{rest}   ")
        else:
            yield from _lines(child, f"{rest}├─ ", f"{rest}│  ")
