"""What Flux says of its objects."""

from collections.abc import Mapping

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.sources.cluster.client import ClusterApi, Object, ResourceKind
from hermes_agent.tools.sources.cluster.problems import ago, condition, full_name, said
from hermes_agent.tools.sources.connection import attempted
from hermes_agent.tools.sources.results import answer, table
from hermes_agent.tools.sources.times import parsed

KINDS: Mapping[str, tuple[str, ...]] = {
    "kustomize.toolkit.fluxcd.io": ("Kustomization",),
    "helm.toolkit.fluxcd.io": ("HelmRelease",),
    "source.toolkit.fluxcd.io": (
        "GitRepository", "OCIRepository", "HelmRepository", "HelmChart", "Bucket",
    ),
}  # fmt: skip


async def flux_objects(api: ClusterApi, namespace: str) -> tuple[list[Object], list[str]]:
    """All of them, and why some could not be had; nothing where there is no Flux."""
    groups = await attempted(api.groups())
    if isinstance(groups, ToolError):
        return [], [f"Flux was not looked for: {groups.message}"]
    kinds: list[ResourceKind | str] = []
    for group, wanted in KINDS.items():
        if group in groups:
            kinds += [one for one in await api.resources(groups[group]) if one.kind in wanted]
    if not kinds:
        return [], []
    lists, unseen = await api.tried(kinds, namespace)
    return [one for some in lists for one in some], list(unseen.values())


def revision(one: Object) -> str:
    status = one.get("status", {})
    history = status.get("history") or [{}]
    found = (
        status.get("lastAppliedRevision")
        or (status.get("artifact") or {}).get("revision")
        or history[0].get("chartVersion")
        or ""
    )
    return str(found)


def flux_problems(one: Object, now: float) -> list[str]:
    ready, name = condition(one, "Ready"), f"- {one['kind']} {full_name(one)}"
    found = []
    if ready.get("status") == "False":
        since = ago(now - parsed(ready.get("lastTransitionTime")))
        found.append(f"{name}: not ready since {since}: {said(ready)}")
    attempted = one.get("status", {}).get("lastAttemptedRevision")
    if found and attempted and attempted != revision(one):
        found.append(f"    applied {revision(one) or 'nothing'}, attempted {attempted}")
    if one.get("spec", {}).get("suspend"):
        found.append(f"{name}: suspended")
    return found


async def flux(api: ClusterApi, namespace: str, now: float) -> ToolResult:
    found, notes = await flux_objects(api, namespace)
    if not found:
        return answer(api.source, "there are no objects of Flux", {"objects": 0}, notes)
    found.sort(key=lambda one: condition(one, "Ready").get("status") != "False")
    rows = []
    for one in found:
        ready = condition(one, "Ready")
        state = "suspended" if one["spec"].get("suspend") else ready.get("status", "?")
        since = ready.get("lastTransitionTime")
        rows.append((
            state, one["kind"], full_name(one), revision(one),
            ago(now - parsed(since)) if since else "", _origin(one), said(ready),
        ))  # fmt: skip
    bad = [line for one in found for line in flux_problems(one, now)]
    text = table(("ready", "kind", "name", "revision", "since", "from", "message"), rows)
    whole = "\n".join([text, *(["", "in trouble:", *bad] if bad else [])])
    return answer(api.source, whole, {"objects": len(rows), "in trouble": len(bad)}, notes)


def _origin(one: Object) -> str:
    spec = one["spec"]
    chart = spec.get("chart")
    if isinstance(chart, dict):
        chart = f"{chart['spec'].get('chart')} {chart['spec'].get('version', '')}".strip()
    source = spec.get("sourceRef") or {}
    branch = (spec.get("ref") or {}).get("branch") or (spec.get("ref") or {}).get("tag") or ""
    parts = (spec.get("url"), branch, chart, source.get("name"), spec.get("path"))
    return " ".join(str(part) for part in parts if part)
