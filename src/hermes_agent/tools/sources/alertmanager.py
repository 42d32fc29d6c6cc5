"""Alertmanager: alerts in groups, and silences."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, ToolContext, tool
from hermes_agent.tools.sources.connection import Source, attempted, pick, settled
from hermes_agent.tools.sources.prometheus import labels
from hermes_agent.tools.sources.results import Change, answer, left_out, table
from hermes_agent.tools.sources.times import Window, iso, parsed, stamp

GROUPS = 20
"""How many groups of alerts are shown, and below how many alerts of each."""
ALERTS = 10
_MATCHER = re.compile(r"\s*([^\s=!][^=!]*)(=~|!~|!=|=)(.*)", re.DOTALL)
HINT = 'such as alertname="ShopDown", instance=~"web-.*" or severity!="info"'


@tool(capabilities=("network",), repeatable=True, sources=("alertmanager",))
async def alertmanager(
    context: ToolContext,
    action: Literal["alerts", "silences"],
    matchers: tuple[str, ...] = (),
    source: str = "",
) -> ToolResult:
    """Alerts in their groups, with receivers and what silences them; or silences, active first.
    `matchers` narrow them, such as severity="critical" or instance=~"web-.*"."""
    one = pick(context, source, "alertmanager")
    return await (_alerts(one, matchers) if action == "alerts" else _silences(one, matchers))


async def _alerts(source: Source, matchers: tuple[str, ...]) -> ToolResult:
    groups: dict[tuple[str, ...], tuple[list[dict[str, Any]], list[str]]] = {}
    for group in await _get(source, "alerts/groups", matchers):
        # Routes may send alerts of one name to different receivers.
        key = (labels(group["labels"]) or "no labels",
               *sorted(one["fingerprint"] for one in group["alerts"]))  # fmt: skip
        alerts, receivers = groups.setdefault(key, (group["alerts"], []))
        receivers.append(group["receiver"]["name"])
    once = {one["fingerprint"]: one for alerts, _ in groups.values() for one in alerts}
    states = Counter(_state(one).partition(" ")[0] for one in once.values())
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    parts = [f"{len(once)} alerts in {len(groups)} groups: {counts}" if once else "no alerts"]
    for alerts, _ in groups.values():
        alerts.sort(key=lambda one: (_state(one) != "active", one["startsAt"]))
    order = sorted(groups.items(), key=lambda item: _state(item[1][0][0]) != "active")
    for (name, *_), (alerts, receivers) in order[:GROUPS]:
        rows = [
            (_state(one), labels(one["labels"]), stamp(parsed(one["startsAt"])),
             one["annotations"].get("summary") or one["annotations"].get("description", ""))
            for one in alerts
        ]  # fmt: skip
        head = f"\n{name}, to {', '.join(dict.fromkeys(receivers))}: {len(alerts)}"
        parts += [head, table(("state", "alert", "since", "summary"), rows, ALERTS)]
    parts += left_out(order, GROUPS, "groups")
    return answer(source, "\n".join(parts), {"alerts": len(once), "groups": len(groups)})


def _state(alert: Mapping[str, Any]) -> str:
    """`active`, or what keeps it from being sent."""
    status = alert["status"]
    if by := status.get("silencedBy"):
        return f"silenced by {', '.join(by)}"
    return "inhibited" if status.get("inhibitedBy") else str(status["state"])


async def _silences(source: Source, matchers: tuple[str, ...] = ()) -> ToolResult:
    found = await _get(source, "silences", matchers)
    order = ("active", "pending", "expired")
    found.sort(key=lambda one: (order.index(one["status"]["state"]), -parsed(one["endsAt"])))
    rows = [
        (one["status"]["state"], one["id"], _matchers(one), stamp(parsed(one["endsAt"])),
         one["createdBy"], one["comment"])
        for one in found
    ]  # fmt: skip
    active = sum(one["status"]["state"] == "active" for one in found)
    text = table(("state", "id", "matchers", "ends", "by", "comment"), rows, GROUPS)
    return answer(
        source, f"{active} active\n{text}" if rows else "no silences", {"silences": active}
    )


def _matchers(silence: Mapping[str, Any]) -> str:
    signs = {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}
    return ", ".join(
        f'{one["name"]}{signs[one.get("isEqual", True), one["isRegex"]]}"{one["value"]}"'
        for one in silence["matchers"]
    )


async def _get(source: Source, path: str, matchers: tuple[str, ...] = ()) -> Any:
    return await source.get(f"/api/v2/{path}", {"filter": list(matchers)})


def _matcher(text: str) -> dict[str, Any]:
    if (found := _MATCHER.fullmatch(text)) is None:
        raise ToolError(f"not a valid matcher: {text!r}", HINT, "changed")
    name, sign, value = (part.strip() for part in found.groups())
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return {"name": name, "value": value, "isRegex": "~" in sign, "isEqual": sign[0] == "="}


async def _recover(
    context: ToolContext, _note: dict[str, Any], action: str, source: str, **_rest: Any
) -> RecoveryResult:
    """The author of a silence names the call that made it."""
    if action == "expire":
        return "again"
    one = pick(context, source, "alertmanager")
    return await _made(one, context.effect) or "not-run"


async def _made(source: Source, effect: str) -> ToolResult | None:
    author = _author(effect)
    for silence in await _get(source, "silences"):
        if silence["createdBy"] == author and silence["status"]["state"] != "expired":
            return _silenced(source, silence)
    return None


def _author(effect: str) -> str:
    return f"Hermes ({effect})"


def _inverse(_note: dict[str, Any], arguments: Mapping[str, Any], result: ToolResult) -> str:
    if arguments["action"] == "expire":
        return f"silence again: {result.data['matchers']}"
    return f"expire the silence {result.data['id']}"


@tool(capabilities=("network",), sources=("alertmanager",), recover=_recover, inverse=_inverse)
async def silence_alerts(
    context: ToolContext,
    action: Literal["create", "expire"],
    matchers: tuple[str, ...] = (),
    comment: str = "",
    hours: Annotated[float, Meta(gt=0, le=168)] = 2,
    id: str = "",
    source: str = "",
) -> ToolResult:
    """Silence the alerts in Alertmanager that fit all `matchers`, such as alertname="ShopDown"; the
    `comment` says why. Or expire the silence with this `id`."""
    one = pick(context, source, "alertmanager")
    if action == "expire":
        return await _expire(one, id)
    if not matchers or not comment.strip():
        what = "`matchers`" if not matchers else "`comment`"
        raise ToolError(f"{what} is empty", f"matchers are {HINT}", "changed")
    now = context.clock()
    silence = {
        "matchers": [_matcher(text) for text in matchers],
        "startsAt": iso(now), "endsAt": iso(now + hours * 3600),
        "createdBy": _author(context.effect), "comment": comment,
    }  # fmt: skip
    if (known := await _made(one, context.effect)) is not None:
        return known
    try:
        reply = await one.fetch("POST", "/api/v2/silences", json=silence)
    except ToolError as error:
        return await settled(error, lambda: _made(one, context.effect))
    hit = await attempted(_get(one, "alerts", tuple(matchers)))
    more = "" if isinstance(hit, ToolError) else f"; {len(hit)} alerts match now"
    return _silenced(one, {"id": reply["silenceID"], **silence}, more)


def _silenced(source: Source, silence: Mapping[str, Any], more: str = "") -> ToolResult:
    name, ends = silence["id"], stamp(parsed(silence["endsAt"]))
    text = f"silence {name} until {ends}: {_matchers(silence)}{more}"
    return answer(source, text, {"id": name, "matchers": _matchers(silence), "ends": ends})


async def _expire(source: Source, id: str) -> ToolResult:
    found = {one["id"]: one for one in await _get(source, "silences")}
    if (silence := found.get(id)) is None:
        raise ToolError(f"no silence {id!r}", "action 'silences' of alertmanager lists them")
    if silence["status"]["state"] != "expired":
        await source.fetch("DELETE", f"/api/v2/silence/{quote(id, safe='')}")
    return answer(source, f"silence {id} is expired", {"id": id, "matchers": _matchers(silence)})


async def changes(source: Source, _span: Window) -> list[Change]:
    """Alerts that began, silences that began or ended early."""
    found = [
        Change(parsed(one["startsAt"]), f"alert began: {labels(one['labels'])}",
               link=one.get("generatorURL", ""))
        for one in await _get(source, "alerts")
    ]  # fmt: skip
    for one in await _get(source, "silences"):
        what = f"{_matchers(one)} ({one['comment']})"
        found.append(Change(parsed(one["startsAt"]), f"silence began: {what}", one["createdBy"]))
        if one["status"]["state"] == "expired":
            found.append(Change(parsed(one["endsAt"]), f"silence ended: {what}", one["createdBy"]))
    return found


async def verify(source: Source) -> str:
    status = await _get(source, "status")
    count = len(await _get(source, "alerts"))
    version = status["versionInfo"]["version"]
    return f"answers; version {version}, cluster {status['cluster']['status']}, {count} alerts"
