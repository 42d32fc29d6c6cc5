"""Prometheus, and what speaks its API: VictoriaMetrics, Thanos, Mimir."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, attempted, pick, quoted, required
from hermes_agent.tools.sources.results import Change, answer, left_out, number, plot, table
from hermes_agent.tools.sources.times import Window, moment, parsed, stamp, window

SERIES, NAMES = 20, 200
"""How many series, and names of metrics, are shown."""
CHANGED = 3.0
"""A series changed when its mean moved by this many of its usual deviations."""


@tool(capabilities=("network",), repeatable=True, sources=("prometheus",))
async def prometheus(
    context: ToolContext,
    action: Literal["query", "range", "alerts", "targets", "metrics", "changed"],
    query: str = "",
    since: str = "1h ago",
    until: str = "now",
    source: str = "",
) -> ToolResult:
    """Metrics by PromQL. query: values at `until`; range: a plot per series since `since`; alerts,
    targets: those that fire or are down first; metrics: names that contain `query`; changed: which
    series of `query` (a selector) moved since then, against the time before."""
    one, now = pick(context, source, "prometheus"), context.clock()
    match action:
        case "alerts":
            return await _alerts(one)
        case "targets":
            return await _targets(one)
        case "metrics":
            return await _metrics(one, query)
    required(query, "query", "give it PromQL, such as up == 0")
    if action == "query":
        return await _query(one, query, moment(until, now))
    span = window(since, until, now)
    return await (_range if action == "range" else _changed)(one, query, span)


async def ask(source: Source, path: str, root: str = "/api/v1", **params: Any) -> Any:
    """The data of an answer, which Loki wraps in the same way."""
    reply = await source.get(f"{root}/{path}", params)
    if not isinstance(reply, dict) or reply.get("status") != "success":
        raise ToolError(f"{source.label} answers: {quoted(str(reply))}", retry="changed")
    return reply.get("data") or []


async def _query(source: Source, query: str, at: float) -> ToolResult:
    data = await ask(source, "query", query=query, time=at)
    if data["resultType"] in ("scalar", "string"):
        rows = [("", data["result"][1])]
    else:
        rows = [(labels(one["metric"]), _value(one)) for one in data["result"]]
    if not rows:
        return answer(source, "no series matches", {"series": 0})
    text = f"at {stamp(at)}\n{table(('series', 'value'), rows)}"
    return answer(source, text, {"values": dict(rows[:SERIES])})


def _value(one: Mapping[str, Any]) -> str:
    if "value" in one:
        return number(float(one["value"][1]))
    return str(one.get("histogram", one.get("values", "")))


async def _series(source: Source, query: str, span: Window) -> list[tuple[str, list[float]]]:
    times: dict[str, Any] = {"start": span.start, "end": span.end, "step": span.step()}
    data = await ask(source, "query_range", query=query, **times)
    return [(labels(one["metric"]), spaced(one, span)) for one in data["result"]]


def spaced(series: Mapping[str, Any], span: Window) -> list[float]:
    """A value for each step of the time; NaN where there is none."""
    step, numbers = span.step(), series.get("values", ())  # native histograms have none
    points = {round((at - span.start) / step): float(value) for at, value in numbers}
    return [points.get(n, math.nan) for n in range(int(span.seconds // step) + 1)]


async def _range(source: Source, query: str, span: Window) -> ToolResult:
    found = await _series(source, query, span)
    if not found:
        return answer(source, "no series matches", {"series": 0})
    rows = [
        (name, plot(values), number(min(real)), number(max(real)), number(real[-1]))
        for name, values in found
        if (real := _real(values))
    ]
    text = table(("series", "plot", "min", "max", "last"), rows, SERIES)
    head = f"{span}, a bar per {span.step()} s"
    return answer(source, f"{head}\n{text}", {"series": len(found)})


def moved(before: Sequence[float], after: Sequence[float]) -> float:
    """By how many of its usual deviations a series moved; infinite for a flat one."""
    old, new = _real(before), _real(after)
    if not old or not new:
        return 0.0 if not old and not new else math.inf
    mean, latest = fmean(old), fmean(new)
    spread = math.sqrt(sum((one - mean) ** 2 for one in old) / len(old))
    least = abs(mean) * 0.01 or 1e-9
    return abs(latest - mean) / max(spread, least)


async def _changed(source: Source, query: str, span: Window) -> ToolResult:
    old, new = await asyncio.gather(
        _series(source, query, span.before), _series(source, query, span)
    )
    before, after = dict(old), dict(new)
    rows = []
    for name in dict.fromkeys([*before, *after]):
        then, now = before.get(name, []), after.get(name, [])
        if (by := moved(then, now)) >= CHANGED:
            rows.append((by, name, _mean(then), _mean(now), plot([*then, *now])))
    rows.sort(key=lambda row: -row[0])
    head = f"{len(rows)} of {len(before | after)} series changed after {stamp(span.start)}"
    shown = table(("series", "before", "after", "plot"), [row[1:] for row in rows], SERIES)
    return answer(source, f"{head}\n{shown}" if rows else head, {"changed": len(rows)})


def _mean(values: Sequence[float]) -> str:
    return number(fmean(real)) if (real := _real(values)) else "absent"


def _real(values: Sequence[float]) -> list[float]:
    return [one for one in values if not math.isnan(one)]


async def _active(source: Source) -> list[dict[str, Any]]:
    """Pending and firing alerts; Thanos says null where there are none."""
    return (await ask(source, "alerts"))["alerts"] or []


async def _alerts(source: Source) -> ToolResult:
    found = await _active(source)
    found.sort(key=lambda one: one["state"] != "firing")
    rows = [
        (one["state"], one["labels"].get("alertname", ""), labels(one["labels"], "alertname"),
         stamp(parsed(one.get("activeAt"))), one.get("annotations", {}).get("summary", ""))
        for one in found
    ]  # fmt: skip
    text = table(("state", "alert", "labels", "since", "summary"), rows) if rows else "no alerts"
    return answer(source, text, {"alerts": len(rows)})


async def _targets(source: Source) -> ToolResult:
    found = (await ask(source, "targets", state="active"))["activeTargets"]
    found.sort(key=lambda one: one["health"] == "up")
    rows = [
        (one["health"], one["labels"].get("job", ""), one["labels"].get("instance", ""),
         one.get("lastError", ""))
        for one in found
    ]  # fmt: skip
    up = sum(one["health"] == "up" for one in found)
    text = table(("health", "job", "instance", "error"), rows)
    return answer(source, f"{up} of {len(found)} targets are up\n{text}", {"targets": len(found)})


async def _metrics(source: Source, part: str) -> ToolResult:
    names = [name for name in await ask(source, "label/__name__/values") if part in name]
    text = "\n".join([*names[:NAMES], *left_out(names, NAMES)])
    return answer(source, text or "no metric matches", {"metrics": len(names)})


def labels(metric: Mapping[str, str], *without: str) -> str:
    name = metric.get("__name__", "")
    rest = ", ".join(
        f"{key}={value}" for key, value in metric.items() if key not in ("__name__", *without)
    )
    return f"{name}{{{rest}}}" if rest else name


async def changes(source: Source, span: Window) -> list[Change | str]:
    """Alerts that began to fire, and targets that went down; Mimir may have no alerts."""
    found: list[Change | str] = []
    alerts = await attempted(_active(source))
    if isinstance(alerts, ToolError):
        found, alerts = [f"its alerts were not read: {alerts.message}"], []
    for one in alerts:
        what = f"alert began: {labels(one['labels'])}"
        found.append(Change(parsed(one.get("activeAt")), what))
    for name, values in await _series(source, "up", span):
        for at, (old, new) in enumerate(pairwise(values), 1):
            if old == 1 and new == 0:
                found.append(Change(span.start + at * span.step(), f"{name} went down"))
            elif old == 0 and new == 1:
                found.append(Change(span.start + at * span.step(), f"{name} came back"))
    return found


async def verify(source: Source) -> str:
    data = await ask(source, "query", query="count(up)")
    count = data["result"][0]["value"][1] if data["result"] else "0"
    return f"answers; {count} targets"
