"""Argo CD: what its applications run, what is out of sync, and what was deployed when."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.cluster.objects import cleaned
from hermes_agent.tools.sources.cluster.workloads import differences
from hermes_agent.tools.sources.connection import Source, pick, required
from hermes_agent.tools.sources.results import Change, answer, left_out, table
from hermes_agent.tools.sources.times import Window, parsed, stamp

DEPLOYS, RESOURCES, LINES = 10, 40, 15
MESSAGE_CHARS = 500
FAILED = ("Failed", "Error")
Application = Mapping[str, Any]


@tool(capabilities=("network",), repeatable=True, sources=("argocd",))
async def argocd(
    context: ToolContext,
    action: Literal["applications", "application", "diff", "history"],
    name: str = "",
    source: str = "",
) -> ToolResult:
    """Look at Argo CD. applications: all, those in trouble first: sync, health, revision, last
    operation. application: why one is not synced or healthy. diff: how its live objects differ from
    Git. history: what was deployed when, by whom."""
    one = pick(context, source, "argocd")
    if action == "applications":
        return await _applications(one, name)
    found = await _found(one, required(name, "name", "the name of an application"))
    match action:
        case "application":
            return _application(one, found)
        case "diff":
            return await _diff(one, found)
        case "history":
            return await _history(one, found)


async def _all(source: Source) -> list[Application]:
    return list((await source.get("/api/v1/applications")).get("items") or [])


async def _found(source: Source, name: str) -> Application:
    every = await _all(source)  # what is not there is answered with 403, as what is not permitted
    for one in every:
        if one["metadata"]["name"] == name:
            return one
    names = ", ".join(one["metadata"]["name"] for one in every[:30]) or "none"
    raise ToolError(f"Argo CD has no application {name!r}", f"there are: {names}", "changed")


def problems(one: Application) -> list[str]:
    status, operation, found = one.get("status", {}), _operation(one), []
    sync, health = status.get("sync", {}), status.get("health", {})
    if health.get("status") not in (None, "Healthy"):
        found.append(": ".join(part for part in (health["status"], health.get("message")) if part))
    if sync.get("status") not in (None, "Synced"):
        found.append(sync["status"])
    if operation.get("phase") in FAILED:
        said = shortened(operation.get("message", ""), MESSAGE_CHARS)
        found.append(f"the last sync failed: {said}")
    found += [
        f"{each['type']}: {shortened(each.get('message', ''), MESSAGE_CHARS)}"
        for each in status.get("conditions") or []
    ]
    return found


def _operation(one: Application) -> Mapping[str, Any]:
    return one.get("status", {}).get("operationState") or {}


def revision(part: Mapping[str, Any]) -> str:
    """Of an application with one source, or several."""
    every = part.get("revisions") or [part.get("revision") or ""]
    return ", ".join(str(one)[:12] for one in every if one)


async def _applications(source: Source, part: str) -> ToolResult:
    every = [one for one in await _all(source) if part in one["metadata"]["name"]]
    every.sort(key=lambda one: (not problems(one), one["metadata"]["name"]))
    rows, bad = [], []
    for one in every:
        status, operation = one.get("status", {}), _operation(one)
        finished = operation.get("finishedAt") or ""
        rows.append((
            one["metadata"]["name"], status.get("health", {}).get("status"),
            status.get("sync", {}).get("status"), revision(status.get("sync", {})),
            one["spec"].get("destination", {}).get("namespace"),
            f"{operation.get('phase', '-')} {stamp(parsed(finished)) if finished else ''}".strip(),
        ))  # fmt: skip
        if texts := problems(one):
            bad.append(f"- {one['metadata']['name']}: {'; '.join(texts)}")
    headers = ("application", "health", "sync", "revision", "namespace", "last operation")
    text = table(headers, rows) if rows else "there are no applications"
    whole = "\n".join([text, *(["", "in trouble:", *bad] if bad else [])])
    return answer(source, whole, {"applications": len(rows), "in trouble": len(bad)})


def _application(source: Source, one: Application) -> ToolResult:
    status, spec, operation = one.get("status", {}), one["spec"], _operation(one)
    sources = spec.get("sources") or [spec.get("source") or {}]
    lines = [f"application {one['metadata']['name']}"]
    lines += [f"problem: {text}" for text in problems(one)]
    for each in sources:
        where = each.get("path") or each.get("chart") or ""
        lines.append(f"from {each.get('repoURL')} {where} at {each.get('targetRevision', 'HEAD')}")
    lines.append(f"revision {revision(status.get('sync', {}))}")
    if operation:
        lines.append(f"last operation: {operation.get('phase')}, {operation.get('startedAt')}")
        for each in (operation.get("syncResult") or {}).get("resources") or []:
            if each.get("status") == "SyncFailed" or each.get("hookPhase") in FAILED:
                said = shortened(each.get("message", ""), MESSAGE_CHARS)
                lines.append(f"- {_name(each)}: {said}")
    states = ((each, each.get("health") or {}) for each in status.get("resources") or [])
    rows = [
        (each.get("status"), health.get("status"), _name(each), health.get("message"))
        for each, health in states
        if not {each.get("status"), health.get("status")} <= {None, "Synced", "Healthy"}
    ]
    if rows:
        lines += ["", table(("sync", "health", "resource", "message"), rows, RESOURCES)]
    images = (status.get("summary") or {}).get("images") or []
    lines += [f"images: {', '.join(images)}"] if images else []
    return answer(
        source, "\n".join(lines), {"problems": len(problems(one)), "resources": len(rows)}
    )


def _name(one: Mapping[str, Any]) -> str:
    space = f"{one['namespace']}/" if one.get("namespace") else ""
    return f"{one.get('kind')} {space}{one.get('name')}"


def _path(one: Application, part: str) -> str:
    """An application may lie in any namespace."""
    data = one["metadata"]
    return f"/api/v1/applications/{data['name']}/{part}?appNamespace={data.get('namespace', '')}"


async def _diff(source: Source, application: Application) -> ToolResult:
    name = application["metadata"]["name"]
    found = await source.get(_path(application, "managed-resources"))
    lines, count = [], 0
    for one in found.get("items") or []:
        if one.get("hook"):  # it stays there after its run, and is no part of what is compared
            continue
        live = source.read(one.get("normalizedLiveState") or one.get("liveState") or "null")
        wanted = source.read(one.get("predictedLiveState") or one.get("targetState") or "null")
        changed = _changed(live, wanted)
        if changed:
            count += 1
            lines.append(f"{_name(one)}:")
            lines += changed[:LINES]
            lines += left_out(changed, LINES)
    head = f"{name}: {count} objects differ (live → Git)"
    return answer(source, "\n".join([head, *lines]), {"objects": count})


def _changed(live: Any, wanted: Any) -> Sequence[str]:
    if live is None or wanted is None:
        return [] if live is wanted else ["- missing" if live is None else "- not in Git any more"]
    if live.get("kind") == "Secret":
        same = live.get("data") == wanted.get("data")
        return [] if same else ["- its data differs (not shown)"]
    parts = [
        {key: value for key, value in cleaned(one).items() if key != "status"}
        for one in (live, wanted)
    ]
    return [] if parts[0] == parts[1] else differences(*parts)


def _who(deploy: Mapping[str, Any]) -> str:
    by = deploy.get("initiatedBy") or {}
    return str(by.get("username") or ("automatic" if by.get("automated") else ""))


async def _history(source: Source, one: Application) -> ToolResult:
    deploys = sorted(
        one.get("status", {}).get("history") or [], key=lambda each: -int(each.get("id", 0))
    )[:DEPLOYS]
    told = await asyncio.gather(*(_commit(source, one, each) for each in deploys))
    rows = [
        (each.get("id"), stamp(parsed(each["deployedAt"])), revision(each), _who(each), *commit)
        for each, commit in zip(deploys, told, strict=True)
    ]
    headers = ("id", "deployed", "revision", "by", "author", "commit")
    text = table(headers, rows) if rows else "nothing was deployed yet"
    return answer(source, text, {"deploys": len(rows)})


async def _commit(source: Source, one: Application, deploy: Mapping[str, Any]) -> tuple[str, str]:
    """Who wrote what Argo CD deployed; nothing for charts and what it no longer knows."""
    if not deploy.get("revision"):
        return "", ""
    path = _path(one, f"revisions/{deploy['revision']}/metadata")
    reply, data = await source.reply("GET", path)
    if not reply.is_success:
        return "", ""
    said = source.read(data)
    return said.get("author", ""), said.get("message", "").partition("\n")[0]


async def changes(source: Source, _span: Window) -> list[Change]:
    """Deployments, and syncs that failed."""
    found = []
    for one in await _all(source):
        name = one["metadata"]["name"]
        link = f"{source.settings.url.rstrip('/')}/applications/{name}"
        for each in one.get("status", {}).get("history") or []:
            what = f"application {name} was deployed at {revision(each)}"
            found.append(Change(parsed(each.get("deployedAt")), what, _who(each), link))
        operation = _operation(one)
        if operation.get("phase") in FAILED:
            what = f"sync of {name} failed: {shortened(operation.get('message', ''), 200)}"
            found.append(Change(parsed(operation.get("finishedAt")), what, "", link))
    return found


async def verify(source: Source) -> str:
    version, every = await asyncio.gather(source.get("/api/version"), _all(source))
    bad = sum(bool(problems(one)) for one in every)
    return f"answers; Argo CD {version['Version']}; {len(every)} applications, {bad} in trouble"
