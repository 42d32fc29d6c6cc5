"""OpenSearch and Elasticsearch: logs by query string, patterns, histograms, fields, indexes."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from statistics import median
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, pick, quoted, required
from hermes_agent.tools.sources.log_patterns import (
    LEVELS,
    LogEntry,
    LogPatterns,
    entry,
    find_patterns,
    lines_of,
    spread,
)
from hermes_agent.tools.sources.results import Change, answer, plot, size, table
from hermes_agent.tools.sources.times import Window, epoch, stamp, window

LINES, INDEXES, GAPS = 5_000, 40, 5
_TIMES = ("@timestamp", "timestamp", "time", "date")
_MESSAGES = ("message", "msg", "log", "body", "event.original", "error.message")
_LEVELS = ("log.level", "level", "severity", "severity_text", "severityText")
_PLACES = (
    "kubernetes.pod.name", "kubernetes.pod_name", "service.name", "container.name", "service",
    "app", "host.name", "host",
)  # fmt: skip
_ERRORS = "error OR exception OR fatal OR panic OR failed OR refused OR denied OR timeout OR killed"


@tool(capabilities=("network",), repeatable=True, sources=("opensearch",))
async def opensearch(
    context: ToolContext,
    action: Literal["overview", "search", "patterns", "histogram", "values", "fields"],
    query: str = "",
    index: str = "",
    field: str = "",
    since: str = "1h ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=500)] = 30,
    source: str = "",
) -> ToolResult:
    """Logs in OpenSearch or Elasticsearch. overview: health, the largest indexes, shards; search:
    the last lines for a `query` string such as level:error AND message:timeout; patterns: templates
    of its lines, errors and new ones first; histogram: a plot of how many, and gaps; values: the
    most frequent ones of `field`; fields: names that contain `query`. `index` is a pattern."""
    one, span = pick(context, source, "opensearch"), window(since, until, context.clock())
    place = index or one.settings.index or "*"
    if action == "overview":
        return await _overview(one, place)
    if action == "fields":
        return await _fields(one, place, query)
    time = await _time_field(one, place)
    if action == "patterns":
        patterns, notes = await _patterns(one, place, time, query, span)
        return answer(one, patterns.report(limit), patterns.data, notes)
    if action == "histogram":
        return await _histogram(one, place, time, query, span)
    if action == "values":
        return await _values(one, place, time, field, _body(time, query, span, 0), limit)
    found = await _search(one, place, _body(time, query, span, limit))
    count = found["hits"]["total"]["value"]
    lines = lines_of(_entries(found, time), limit)
    head = f"{count} lines, {span}"
    notes = [] if count else [await _reaches(one, place, time, query)]
    return answer(one, f"{head}\n{lines}" if lines else head, {"lines": count}, notes)


async def _reaches(source: Source, index: str, time: str, query: str) -> str:
    """From when to when there are lines at all, for one who found none."""
    ends = {"first": {"min": {"field": time}}, "last": {"max": {"field": time}}}
    body = _body(time, query, Window(0, source.clock()), 0, aggs=ends)
    found = (await _search(source, index, body)).get("aggregations") or {}
    first, last = ((found.get(end) or {}).get("value") for end in ends)
    if first is None or last is None:
        return "there are none at any other time either"
    return f"there are some from {stamp(first / 1000)} to {stamp(last / 1000)}"


async def _values(
    source: Source, index: str, time: str, field: str, body: dict[str, Any], limit: int
) -> ToolResult:
    required(field, "field", "action fields lists them")
    known = await _caps(source, index, (field, f"{field}.keyword"))
    exact = f"{field}.keyword" if f"{field}.keyword" in known else field
    body["aggs"] = {"values": {"terms": {"field": exact, "size": limit}}}
    found = await _search(source, index, body)
    total = found["hits"]["total"]["value"]
    most = (found.get("aggregations") or {}).get("values") or {}
    rows = [(one["key"], one["doc_count"]) for one in most.get("buckets") or []]
    rows += [("(others)", rest)] if (rest := most.get("sum_other_doc_count")) else []
    text = f"{total} lines" + (f"\n{table((field, 'lines'), rows)}" if rows else "")
    notes = [] if total else [await _reaches(source, index, time, "")]
    return answer(source, text, {"lines": total, "values": len(rows)}, notes)


async def _overview(source: Source, index: str) -> ToolResult:
    where, columns = quote(index, safe="*,"), "health,index,docs.count,store.size,pri,rep"
    largest = {"format": "json", "bytes": "b", "s": "store.size:desc", "h": columns}
    health, indexes, shards = await asyncio.gather(
        source.get("/_cluster/health"),
        source.get(f"/_cat/indices/{where}", largest),
        source.get(f"/_cat/shards/{where}", {"format": "json", "h": "prirep,state"}),
    )
    states = Counter(
        f"{'primary' if one['prirep'] == 'p' else 'replica'} shards {one['state']}"
        for one in shards
    )
    rows = [
        (one["index"], one["health"], one["docs.count"], size(float(one["store.size"] or 0)),
         one["pri"], one["rep"])
        for one in indexes
    ]  # fmt: skip
    head = (
        f"cluster {health['cluster_name']}: {health['status']}, {health['number_of_nodes']} nodes, "
        f"{health['unassigned_shards']} shards unassigned\n"
        f"{len(rows)} indexes that match {index}; "
        + ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    )
    shown = table(("index", "health", "documents", "size", "primaries", "replicas"), rows, INDEXES)
    data = {"status": health["status"], "indexes": len(rows)}
    return answer(source, f"{head}\n{shown}" if rows else head, data)


async def _search(source: Source, index: str, body: Mapping[str, Any]) -> Any:
    path = f"/{quote(index, safe='*,')}/_search"
    known = {"ignore_unavailable": "true", "allow_no_indices": "true"}
    found = await source.fetch("POST", path, params=known, json=body)
    if not isinstance(found, dict) or "hits" not in found:
        raise ToolError(f"{source.label} answers: {quoted(str(found))}", retry="changed")
    failures = found.get("_shards", {}).get("failures", ())
    if failures and not found["hits"]["hits"]:
        why = quoted(str(failures[0].get("reason")))
        raise ToolError(f"{source.label} answers: {why}", retry="changed")
    return found


def _body(field: str, query: str, span: Window, size: int, **more: Any) -> dict[str, Any]:
    times = {"gte": int(span.start * 1000), "lte": int(span.end * 1000), "format": "epoch_millis"}
    wanted: list[dict[str, Any]] = [{"range": {field: times}}]
    if query.strip():
        wanted.append({"query_string": {"query": query, "lenient": True}})
    return {
        "size": size, "track_total_hits": True, "query": {"bool": {"filter": wanted}},
        "sort": [{field: {"order": "desc", "unmapped_type": "date"}}], **more,
    }  # fmt: skip


def _entries(found: Mapping[str, Any], field: str) -> list[LogEntry]:
    """In order of time; a line without a known message is shown whole."""
    entries = []
    for hit in reversed(found["hits"]["hits"]):
        flat = dict(_flat(hit["_source"]))
        said = next((str(flat[key]) for key in _MESSAGES if flat.get(key)), "")
        said = said or " ".join(f"{key}={value}" for key, value in flat.items() if key != field)
        level = next((str(flat[key]).lower() for key in _LEVELS if flat.get(key)), "")
        where = next((str(flat[key]) for key in _PLACES if flat.get(key)), "")
        # The server knows the format and the zone of what it sorts by.
        time = epoch((hit.get("sort") or [flat.get(field)])[0])
        entries.append(entry(said, time, LEVELS.get(level, ""), where))
    return entries


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Fields within fields, by names with dots."""
    parts: list[tuple[str, Any]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        parts += _flat(inner, f"{name}.") if isinstance(inner, dict) else [(name, inner)]
    return parts


async def _patterns(
    source: Source, index: str, field: str, query: str, span: Window
) -> tuple[LogPatterns, list[str]]:
    roots = {name.partition(".")[0] for name in (*_MESSAGES, *_LEVELS, *_PLACES)}
    times = spread(span)
    answers = await asyncio.gather(
        *(
            _search(source, index, _body(field, query, one, LINES, _source=[field, *sorted(roots)]))
            for one in times
        )
    )
    there = sum(one["hits"]["total"]["value"] for one in answers[len(times) // 2 :])
    entries = chain.from_iterable(_entries(one, field) for one in answers)
    patterns = await find_patterns(entries, span)
    note = f"{patterns.lines} of {there} lines were read, spread over the time"
    return patterns, [note] if there > patterns.lines else []


async def _histogram(
    source: Source, index: str, field: str, query: str, span: Window
) -> ToolResult:
    step = span.step()
    bounds = {"min": int(span.start * 1000), "max": int(span.end * 1000)}
    over = {"field": field, "fixed_interval": f"{step}s", "min_doc_count": 0,
            "extended_bounds": bounds}  # fmt: skip
    body = _body(field, query, span, 0, aggs={"times": {"date_histogram": over}})
    found = await _search(source, index, body)
    buckets = found.get("aggregations", {}).get("times", {}).get("buckets", [])
    counts = [one["doc_count"] for one in buckets]
    total = found["hits"]["total"]["value"]
    text = f"{total} lines, {span}, a bar per {step} s"
    if counts:
        top = max(buckets, key=lambda one: one["doc_count"])
        text += f"\n{plot(counts)} at most {top['doc_count']}, at {stamp(top['key'] / 1000)}"
        text += "".join(_gaps([one["key"] for one in buckets if one["doc_count"]], step * 1000))
    notes = [] if total else [await _reaches(source, index, field, query)]
    return answer(source, text, {"lines": total}, notes)


def _gaps(times: Sequence[float], step: float) -> list[str]:
    """The longest times without lines, where lines usually follow one another much closer."""
    apart = [(late - early, early, late) for early, late in pairwise(times)]
    usual = median(one for one, _, _ in apart) if apart else 0
    found = sorted((one for one in apart if one[0] > 3 * max(usual, step)), reverse=True)
    return [
        f"\nnone from {stamp((early + step) / 1000)} to {stamp(late / 1000)}"
        for _, early, late in found[:GAPS]
    ]


async def _caps(source: Source, index: str, fields: Sequence[str]) -> dict[str, dict[str, Any]]:
    params = {"fields": ",".join(fields), "ignore_unavailable": "true"}
    reply = await source.get(f"/{quote(index, safe='*,')}/_field_caps", params)
    known: dict[str, dict[str, Any]] = reply["fields"]
    return known


async def _time_field(source: Source, index: str) -> str:
    known = await _caps(source, index, _TIMES)
    dates = [name for name in _TIMES if {"date", "date_nanos"} & set(known.get(name, ()))]
    return dates[0] if dates else _TIMES[0]


async def _fields(source: Source, index: str, part: str) -> ToolResult:
    known = await _caps(source, index, ("*",))
    rows = [
        (name, ", ".join(kinds))
        for name, kinds in sorted(known.items())
        if part.lower() in name.lower() and not name.startswith("_")
    ]
    if not rows:
        return answer(source, "no field matches", {"fields": 0})
    text = f"{len(rows)} fields in {index}\n{table(('field', 'type'), rows, 200)}"
    return answer(source, text, {"fields": len(rows)})


async def changes(source: Source, span: Window) -> list[Change]:
    """New kinds of errors."""
    index = source.settings.index or "*"
    field = await _time_field(source, index)
    patterns, _ = await _patterns(source, index, field, _ERRORS, span)
    return patterns.changes()


async def verify(source: Source) -> str:
    about = (await source.get("/"))["version"]
    index = source.settings.index or "*"
    count = (await source.get(f"/{quote(index, safe='*,')}/_count"))["count"]
    name = about.get("distribution", "elasticsearch")
    return f"answers; {name} {about['number']}, {count} documents in {index}"
