"""Sessions as lists, search results, trees with their children, and exported files."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.output.formatting import ago, dollars, one_line, stamp, table
from hermes_agent.core.text.format import span

ALL = 1_000_000_000
NONE_YET = 'no sessions yet\nhint: hermes ask "…" or `hermes chat` opens one'

Row = dict[str, Any]


def sessions_text(rows: list[Row], now: float) -> str:
    if not rows:
        return NONE_YET
    branches = any(row["branch_of"] for row in rows)
    rows = [
        {**row, "title": f"{row['source']}: {row['title']}"} if _is_imported(row) else row
        for row in rows
    ]
    rows = [
        {**row, "name": f"{row['name'] or row['title']} (branch)"} if row["branch_of"] else row
        for row in rows
    ]
    cells = [
        (row["id"], row["state"], ago(row["updated"], now), str(row["messages"]),
         dollars(row["cost"]), one_line(row["model"]), *([row["branch_of"]] if branches else []),
         one_line(row["name"] or row["title"], 60))
        for row in rows
    ]  # fmt: skip
    heads = ("session", "state", "used", "messages", "cost", "model")
    return table((*heads, *(["branch of"] if branches else []), "name"), cells)


def _is_imported(row: Row) -> bool:
    return str(row["key"]).startswith("import:")


def found_text(rows: list[Row]) -> str:
    """Results of a search."""
    lines = []
    for row in rows:
        who = one_line(f"{row['role']} {row['tool']}")
        title = f"  {one_line(row['title'], 50)}" if row["title"] else ""
        title += "  (rewound)" if row["rewound"] else ""
        lines.append(f"{row['session']} {stamp(row['time'])} {who}{title}")
        lines.append(f"    {one_line(row['snippet'], 200)}")
        lines += [f"    · {near['role']}: {one_line(near['text'])}" for near in row["around"]]
    return "\n".join(lines) or "nothing found"


def tree(api: RuntimeClient, reference: str, limit: int) -> list[Row]:
    """The newest sessions without a parent, or the named one, each with its `children` and the
    `total` cost of them all."""
    if reference:
        return [_below(api, api.session(reference))]
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
        return NONE_YET
    cells = [
        (f"{branch}{row['id']}", row["state"], span(now - row["created"]), dollars(row["cost"]),
         dollars(row["total"]), one_line(row["name"] or row["title"], 60))
        for root in roots
        for branch, row in _lines(root, "", "")
    ]  # fmt: skip
    return table(("session", "state", "age", "cost", "with children", "name"), cells)


def _lines(row: Row, first: str, rest: str) -> Iterator[tuple[str, Row]]:
    """Each session with the branch drawn before it."""
    yield first, row
    last = len(row["children"]) - 1
    for place, child in enumerate(row["children"]):
        if place == last:
            yield from _lines(child, f"{rest}└─ ", f"{rest}   ")
        else:
            yield from _lines(child, f"{rest}├─ ", f"{rest}│  ")


def export(api: RuntimeClient, session: Row, form: str) -> Iterator[str]:
    """The session in one of `FORMS`, in pieces that end with a newline."""
    return FORMS[form](api, session)


def _trajectories(api: RuntimeClient, session: Row, form: Any) -> Iterator[str]:
    import msgspec

    from hermes_agent.agent.trajectory import trajectories
    from hermes_agent.core.events import Recorded
    from hermes_agent.core.messages import Prompt

    prompt = msgspec.convert(api.get(f"{session_path(session['id'])}/prompt"), Prompt)
    recorded = msgspec.convert(api.journal(session["id"]), list[Recorded])
    for line in trajectories(session["id"], prompt, recorded, form):
        yield msgspec.json.encode(line).decode() + "\n"


def _markdown(api: RuntimeClient, session: Row) -> Iterator[str]:
    from hermes_agent.cli.output.transcript import markdown

    yield markdown(session, api.journal(session["id"]))


def _html(api: RuntimeClient, session: Row) -> Iterator[str]:
    from hermes_agent.cli.output.transcript import html_page

    yield html_page(session, api.journal(session["id"]))


def _document(api: RuntimeClient, session: Row) -> Iterator[str]:
    from hermes_agent.cli.output.transcript import messages

    said = list(messages(api.journal(session["id"])))
    yield json.dumps({**session, "messages": said}, ensure_ascii=False) + "\n"


def _journal(api: RuntimeClient, session: Row) -> Iterator[str]:
    for one in api.journal(session["id"]):
        yield json.dumps(one, ensure_ascii=False) + "\n"


FORMS: dict[str, Callable[[RuntimeClient, Row], Iterator[str]]] = {
    "markdown": _markdown,
    "html": _html,
    "json": _document,
    "openai": partial(_trajectories, form="openai"),
    "sharegpt": partial(_trajectories, form="sharegpt"),
    "journal": _journal,
}
