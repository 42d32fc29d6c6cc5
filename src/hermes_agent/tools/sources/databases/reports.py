"""Statements whose results answer a question about a database, as data."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.sources.connection import ANSWER_BYTES, Source
from hermes_agent.tools.sources.results import answer, table

ROWS = 200
"""How many rows of a statement are read."""


_READS = re.compile(
    r"[\s(]*(?:select|with|show|explain|describe|desc|table|values)\b", re.IGNORECASE
)


class Rows(NamedTuple):
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Report(NamedTuple):
    title: str
    statement: str


class Kept:
    """The first rows of a result, as many as fit: the rest is never fetched."""

    def __init__(self) -> None:
        self.rows: list[Sequence[Any]] = []
        self._size = 0

    def add(self, row: Sequence[Any]) -> bool:
        """Whether there is room for another."""
        self.rows.append(row)
        self._size += sum(len(one) if isinstance(one, str | bytes) else 16 for one in row)
        return len(self.rows) < ROWS and self._size < ANSWER_BYTES


Run = Callable[[str], Awaitable[Rows]]


async def report(
    source: Source, reports: Sequence[Report], run: Run, notes: Sequence[str] = ()
) -> ToolResult:
    """Each report as a table; one that cannot be made says why."""
    parts, counts, missing = [], {}, list(notes)
    for one in reports:
        try:
            found = await run(one.statement)
        except ToolError as error:
            missing.append(f"{one.title}: {error.message}")
            continue
        counts[one.title] = len(found.rows)
        body = table(found.headers, found.rows) if found.rows else "nothing"
        parts.append(f"{one.title}\n{body}")
    return answer(source, "\n\n".join(parts), {"rows": counts}, missing)


def needed(query: str, effect: re.Pattern[str]) -> str:
    """Raises `ToolError` for what is not a statement that reads, or has an effect on others."""
    if not _READS.match(query):
        hint = "it begins with select, with, show, explain, describe, table or values"
        raise ToolError("`query` is not a statement that reads", hint, "changed")
    if found := effect.search(query):
        what = f"`query` is not a statement that only reads: {shortened(found[0], 100)}"
        raise ToolError(what, "leave that out", "changed")
    return query


def rows_shown(source: Source, found: Rows, limit: int) -> ToolResult:
    text = table(found.headers, found.rows, limit) if found.headers else "no rows"
    more = f"only the first {ROWS} rows were read" if len(found.rows) >= ROWS else ""
    return answer(source, text, {"rows": len(found.rows)}, (more,))


def too_powerful(source: Source, why: str, grants: Sequence[str]) -> ToolError:
    """Statements run only where the database itself makes sure that they only read."""
    return ToolError(
        f"{source.label}: statements need an account that can only read, and this one {why}",
        f"the user can make one: {'; '.join(grants)}; other actions work with any account",
        "never",
    )
