"""Loki: LogQL, patterns of log lines, volume, labels."""

import asyncio
from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, pick, required
from hermes_agent.tools.sources.log_patterns import (
    LEVELS,
    LogEntry,
    LogPatterns,
    entry,
    find_patterns,
    lines_of,
    spread,
)
from hermes_agent.tools.sources.prometheus import ask, labels, spaced
from hermes_agent.tools.sources.results import Change, answer, left_out, number, plot, table
from hermes_agent.tools.sources.times import Window, window

LINES = 5_000
"""What Loki gives at once, unless it is configured otherwise."""
VALUES = 200
_PLACES = ("pod", "service_name", "app", "container", "job", "filename", "host")
_LEVELS = ("level", "detected_level", "severity")
_ERRORS = '|~ "(?i)error|exception|fatal|panic|fail|refused|denied|timeout|killed"'


@tool(capabilities=("network",), repeatable=True, sources=("loki",))
async def loki(
    context: ToolContext,
    action: Literal["query", "patterns", "volume", "labels"],
    query: str = "",
    since: str = "1h ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=500)] = 30,
    source: str = "",
) -> ToolResult:
    """Logs by LogQL. query: the last lines, or a plot of a metric; patterns: templates of its
    lines, errors and new ones first; volume: a plot of lines per service; labels: their names, or
    the values of the one in `query`."""
    one, span = pick(context, source, "loki"), window(since, until, context.clock())
    if action == "labels":
        return await _labels(one, query, span)
    hint = 'LogQL such as {app="shop"} |= "error"; action \'labels\' shows the labels'
    required(query, "query", hint)
    if action == "patterns":
        patterns, notes = await _patterns(one, query, span)
        return answer(one, patterns.report(limit), patterns.data, notes)
    if action == "volume":
        return _plots(one, await _volume(one, query, span), span, "lines")
    data = await _range(one, query, span, limit=limit)
    if data["resultType"] != "streams":
        return _plots(one, data["result"], span, "last")
    found = _entries(data["result"])
    return answer(one, lines_of(found, limit) or "no lines", {"lines": len(found)})


async def _ask(source: Source, path: str, span: Window, **params: Any) -> Any:
    times = {"start": int(span.start * 1e9), "end": int(span.end * 1e9)}
    return await ask(source, path, "/loki/api/v1", **times, **params)


async def _range(source: Source, query: str, span: Window, limit: int = LINES) -> Any:
    return await _ask(
        source, "query_range", span,
        query=query, limit=limit, step=span.step(), direction="backward",
    )  # fmt: skip


def _entries(streams: list[dict[str, Any]]) -> list[LogEntry]:
    """In order of time."""
    found = []
    for one in streams:
        names: Mapping[str, str] = one["stream"]
        where = next((names[key] for key in _PLACES if key in names), labels(names))
        level = next((names[key].lower() for key in _LEVELS if key in names), "")
        for time, line, *_ in one["values"]:
            found.append(entry(line, int(time) / 1e9, LEVELS.get(level, ""), where))
    return sorted(found, key=lambda one: one.time)


async def _patterns(source: Source, query: str, span: Window) -> tuple[LogPatterns, list[str]]:
    times = spread(span)
    answers = await asyncio.gather(*(_range(source, query, one) for one in times))
    if any(one["resultType"] != "streams" for one in answers):
        hint = "leave out rate(), count_over_time() and sum()"
        raise ToolError("`query` selects numbers, not lines", hint, "changed")
    pieces = [await asyncio.to_thread(_entries, one["result"]) for one in answers]
    full = sum(len(piece) >= LINES for piece in pieces)
    note = f"of {full} of {len(times)} parts of the time only {LINES} lines were read"
    return await find_patterns(chain.from_iterable(pieces), span), [note] if full else []


async def _service_label(source: Source, span: Window) -> str:
    names = await _ask(source, "labels", span)
    known = [name for name in ("service_name", "app", "job", "container") if name in names]
    return next(iter([*known, *names]), "")


async def _volume(source: Source, query: str, span: Window) -> list[dict[str, Any]]:
    by, step = await _service_label(source, span), span.step()
    data = await _range(source, f"sum by ({by}) (count_over_time({query} [{step}s]))", span)
    found: list[dict[str, Any]] = data["result"]
    return sorted(found, key=lambda one: -sum(float(value) for _, value in one["values"]))


def _plots(source: Source, found: list[dict[str, Any]], span: Window, last: str) -> ToolResult:
    rows = []
    for one in found:
        values = [float(value) for _, value in one["values"]]
        end = sum(values) if last == "lines" else values[-1]
        bars = plot(spaced(one, span))
        rows.append((labels(one["metric"]), bars, number(max(values)), number(end)))
    head = f"{span}, a bar per {span.step()} s"
    text = f"{head}\n{table(('series', 'plot', 'max', last), rows)}" if rows else "no series"
    return answer(source, text, {"series": len(rows)})


async def _labels(source: Source, name: str, span: Window) -> ToolResult:
    path = f"label/{quote(name, safe='')}/values" if name else "labels"
    found = await _ask(source, path, span)
    text = "\n".join([*found[:VALUES], *left_out(found, VALUES)])
    return answer(source, text or "none", {"values": len(found)})


async def changes(source: Source, span: Window) -> list[Change]:
    """New kinds of errors."""
    label = await _service_label(source, span)
    if not label:
        return []
    patterns, _ = await _patterns(source, f'{{{label}=~".+"}} {_ERRORS}', span)
    return patterns.changes()


async def verify(source: Source) -> str:
    now = source.clock()
    names = await _ask(source, "labels", Window(now - 3600, now))
    return f"answers; {len(names)} labels in the last hour"
