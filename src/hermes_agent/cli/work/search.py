"""Search everything: sessions and their summaries, messages, skills, notes and incidents, best
match first."""

import argparse
from typing import Any

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.output.formatting import one_line, stamp
from hermes_agent.core.errors import UsageError

KINDS = {
    "sessions": "session",
    "messages": "message",
    "skills": "skill",
    "notes": "note",
    "incidents": "incident",
}

NEXT = {
    "session": "`hermes sessions show {ref}`",
    "message": "`hermes sessions show {session}`",
    "skill": "`hermes skills show {ref}`",
    "note": "`hermes memory why {ref}`",
    "incident": "`hermes incidents show {ref}`",
}
"""The command that shows more of a result."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", help="what to search for")
    parser.add_argument(
        "--in", dest="kind", choices=KINDS, default=None, help="only one kind; default: all"
    )
    parser.add_argument("--limit", type=positive, default=20, help="how many (default 20)")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    query = " ".join(options.words).strip()
    if not query:
        raise UsageError("nothing to search for", "`hermes search WORDS`")
    kind = KINDS[options.kind] if options.kind else ""
    rows = connect().get("/v1/recall", query=query, kind=kind, limit=options.limit)
    return emit(options, rows, found_text(rows))


def found_text(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        when = f"  {stamp(row['time'])}" if row["time"] else ""
        lines.append(f"{row['kind']} {one_line(row['ref'])}{when}  {one_line(row['title'], 80)}")
        lines.append(f"    {one_line(row['snippet'], 200)}")
    if not lines:
        return "nothing found"
    first, ref = NEXT.get(rows[0]["kind"], ""), one_line(rows[0]["ref"])
    more = first.format(ref=ref, session=ref.partition(":")[0])  # before a message's number
    return "\n".join([*lines, f"hint: {more} shows more of the first"] if more else lines)
