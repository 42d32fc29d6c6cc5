"""Logs of a workload's pods, the history of its rollouts, and what its pods use."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.sources.cluster.client import (
    KINDS,
    LOG_GONE,
    ClusterApi,
    Object,
    message,
)
from hermes_agent.tools.sources.cluster.objects import matcher, pods_of, references
from hermes_agent.tools.sources.cluster.problems import ago, container_specs, full_name
from hermes_agent.tools.sources.connection import segment
from hermes_agent.tools.sources.redaction import HIDDEN, text_without_secrets, without_secrets
from hermes_agent.tools.sources.results import answer, size, table
from hermes_agent.tools.sources.times import Window, iso, parsed, stamp

PODS = 20
LOG_BYTES = 2_000_000
SEARCHED_LINES = 20_000
BEFORE = 5
REVISIONS = 10
REVISION = "deployment.kubernetes.io/revision"
CAUSE = "kubernetes.io/change-cause"
WORKLOADS = ("deployment", "statefulset", "daemonset", "replicaset", "job", "cronjob", "service")


async def pods_for(
    api: ClusterApi, kind: str, name: str, namespace: str, selector: str
) -> list[Object]:
    """The pods that a call names: one, those of a workload, or those of a selector."""
    if not name and not selector:
        raise ToolError("which pod?", "give `name` (a pod or kind/name) or `selector`", "changed")
    if not name:
        return await api.items("pods", namespace, labelSelector=selector)
    if not kind:
        exact = await api.items("pods", namespace, fieldSelector=f"metadata.name={name}")
        if exact:
            return exact
        kind = await _workload_called(api, name, namespace)
    where = await api.kind(kind)
    one = await api.find(where, name, namespace)
    return [one] if where.kind == "Pod" else await pods_of(api, one)


async def _workload_called(api: ClusterApi, name: str, namespace: str) -> str:
    """The kind of a workload with this name; that of pods if there is none, for its error."""
    kinds = WORKLOADS[:3]
    chosen = f"metadata.name={name}"
    lists, _ = await api.tried([KINDS[one] for one in kinds], namespace, fieldSelector=chosen)
    return next((kind for kind, found in zip(kinds, lists, strict=True) if found), "pod")


async def logs(
    api: ClusterApi, pods: Sequence[Object], container: str, previous: bool, pattern: str,
    span: Window, limit: int, now: float,
) -> ToolResult:  # fmt: skip
    most = SEARCHED_LINES if pattern else limit + 1
    if span.end < now and not previous:
        most = 0  # the last lines are those of now
    wanted = [
        (pod, one["name"])
        for pod in pods[:PODS]
        for one in container_specs(pod["spec"])
        if not container or one["name"] == container
    ]
    if not wanted:
        names = {one["name"] for pod in pods for one in pod["spec"]["containers"]}
        what = f"no container {container!r}" if pods else "no pod matches"
        raise ToolError(what, f"containers: {', '.join(sorted(names)) or 'none'}", "changed")
    tails = await asyncio.gather(
        *(_log(api, pod, name, previous, span, most) for pod, name in wanted)
    )
    hits = await asyncio.to_thread(_hits, [text for text, _ in tails], matcher(pattern))
    each = max(10, limit // max(1, sum(bool(text) for text, _ in tails)))
    parts, counted = [], 0
    for (pod, name), (text, trouble), at in zip(wanted, tails, hits, strict=True):
        every = text.splitlines()
        lines = [every[number] for number in at]
        counted += len(lines)
        head = f"== {full_name(pod)}, container {name}"
        if trouble:
            parts.append(f"{head}: {trouble}")
        if lines:
            before = every[max(0, at[0] - BEFORE) : at[0]] if pattern else []
            if before:
                parts += [f"{head}, what precedes the first of {len(lines)} matches", *before]
            if pattern and len(lines) > each:
                parts += ["the first match:", lines[0]]
            more = f" (the last {each})" if len(lines) > each else ""
            parts += [f"{head}{more}", *lines[-each:]]
        elif not pattern and not trouble:
            parts.append(f"{head}: no lines in that time")
    left = [f"only {PODS} of {len(pods)} pods were read"] if len(pods) > PODS else []
    text = text_without_secrets("\n".join(parts))
    text = text or f"no line of {len(wanted)} logs matches {pattern!r}"
    return answer(api.source, text, {"pods": len(pods), "lines": counted}, left)


def _hits(texts: Sequence[str], found: Callable[[str], bool]) -> list[list[int]]:
    """The numbers of the lines of each text that match."""
    return [[at for at, line in enumerate(text.splitlines()) if found(line)] for text in texts]


async def _log(
    api: ClusterApi, pod: Object, container: str, previous: bool, span: Window, lines: int
) -> tuple[str, str]:
    """The text, and why there is none or not all; with no number of `lines`, those of the time."""
    status, text = await api.reply(
        KINDS["pods"].path(pod["metadata"]["namespace"], pod["metadata"]["name"]) + "/log",
        "*/*",
        container=container,
        previous=str(previous).lower(),
        tailLines=lines or None,
        limitBytes=LOG_BYTES,
        timestamps="true",
        sinceTime="" if previous else iso(span.start),
    )
    if status >= 300:
        return "", message(text) or f"the cluster answers {status}"
    if text.startswith(LOG_GONE):
        return "", "its node has removed that log"
    cut = len(text.encode()) >= LOG_BYTES
    if not lines:
        end = iso(span.end)
        kept = [line for line in text.splitlines() if line[:19] <= end[:19]]
        cut, text = cut and len(kept) == len(text.splitlines()), "\n".join(kept)
    return text, "its newest lines did not fit; ask for a shorter time" if cut else ""


# --- rollouts


async def rollout(api: ClusterApi, kind: str, name: str, namespace: str, now: float) -> ToolResult:
    kind = kind or await _workload_called(api, name, namespace)
    where = await api.kind("deployment" if kind == "pod" else kind)
    one = await api.find(where, name, namespace)
    revisions = await revisions_of(api, one)
    if not revisions:
        return answer(
            api.source, f"{where.kind} {full_name(one)} has no revisions", {"revisions": 0}
        )
    rows = []
    for number, each, template in revisions[:REVISIONS]:
        status, notes = each.get("status", {}), each["metadata"].get("annotations") or {}
        counts = (
            f"{status.get('readyReplicas', 0)}/{status['replicas']}" if "replicas" in status else ""
        )
        rows.append((
            number, stamp(parsed(each["metadata"]["creationTimestamp"])), counts,
            ", ".join(images(template)), notes.get(CAUSE, ""), each["metadata"]["name"],
        ))  # fmt: skip
    lines = [
        f"{where.kind} {full_name(one)}",
        table(("revision", "created", "ready", "images", "cause", "name"), rows),
    ]
    if len(revisions) > 1:
        (new, _, after), (old, _, before) = revisions[:2]
        lines += ["", f"from revision {old} to {new}:", *differences(before, after)]
    lines += await _configuration(api, one, revisions[0], now)
    return answer(api.source, "\n".join(lines), {"revisions": len(revisions)})


async def revisions_of(api: ClusterApi, one: Object) -> list[tuple[int, Object, Object]]:
    """The number, object and pod template of each revision, the latest first."""
    namespace, uid = one["metadata"]["namespace"], one["metadata"]["uid"]
    kind = "replicasets" if one["kind"] == "Deployment" else "controllerrevisions"
    found = []
    for each in await api.items(kind, namespace):
        if uid in {ref["uid"] for ref in each["metadata"].get("ownerReferences") or []}:
            notes = each["metadata"].get("annotations") or {}
            if kind == "replicasets":
                found.append((int(notes.get(REVISION, 0)), each, each["spec"]["template"]))
            else:
                template = each.get("data", {}).get("spec", {}).get("template", {})
                found.append((int(each.get("revision", 0)), each, template))
    return sorted(found, key=lambda row: (-row[0], row[1]["metadata"]["creationTimestamp"]))


def images(template: Mapping[str, Any]) -> list[str]:
    return [str(one.get("image")) for one in container_specs(template.get("spec", {}))]


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a tree; items of lists are called by their name where they have one."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from flattened(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            name = one.get("name", at) if isinstance(one, Mapping) else at
            yield from flattened(one, f"{path}[{name}]")
    else:
        yield path, str(value)


def differences(before: Any, after: Any) -> list[str]:
    """What differs between two pod templates; values that sound secret are only said to differ."""
    old, new = dict(flattened(before)), dict(flattened(after))
    shown = [dict(flattened(without_secrets(one))) for one in (before, after)]
    lines = []
    for path in sorted(old.keys() | new.keys(), key=lambda one: (not one.endswith("image"), one)):
        if old.get(path) == new.get(path) or "pod-template-hash" in path or path.endswith("].name"):
            continue
        was, now = (shortened(one.get(path, "absent"), 200) for one in shown)
        change = "changed (not shown)" if was == now == HIDDEN else f"{was} → {now}"
        lines.append(f"- {path.removeprefix('spec.')}: {change}")
    return lines or ["nothing differs in the pod template"]


async def _configuration(
    api: ClusterApi, one: Object, latest: tuple[int, Object, Object], now: float
) -> list[str]:
    """ConfigMaps and Secrets of the pods that changed after the last rollout."""
    rolled = parsed(latest[1]["metadata"]["creationTimestamp"])
    used = references(latest[2].get("spec", {}))
    lists, _ = await api.tried(("configmaps", "secrets"), one["metadata"]["namespace"])
    lines, there = [], set()
    for each in (each for some in lists for each in some):
        key = (each["kind"], each["metadata"]["name"])
        there.add(key)
        changed, who = last_change(each)
        if key in used and changed > rolled:
            lines.append(f"- {key[0]} {key[1]}: {ago(now - changed)} by {who}")
    if lines:
        lines = ["", "configuration that changed after that rollout:", *lines]
    missing = [key for key in used if key[0] == "ConfigMap" and lists[0] and key not in there]
    return lines + [f"missing: {kind} {name}" for kind, name in missing]


def last_change(one: Object) -> tuple[float, str]:
    """When a person or a program last changed an object other than its status, and who."""
    fields = [
        each for each in one["metadata"].get("managedFields") or []
        if each.get("subresource") != "status" and each.get("time")
    ]  # fmt: skip
    if not fields:
        return parsed(one["metadata"].get("creationTimestamp")), "?"
    last = max(fields, key=lambda each: parsed(each["time"]))
    return parsed(last["time"]), str(last.get("manager", "?"))


# --- use


_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}  # fmt: skip


def quantity(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", text or "")
    return float(found[1]) * _UNITS.get(found[2], 1.0) if found else 0.0


async def top(api: ClusterApi, kind: str, namespace: str, limit: int) -> ToolResult:
    what = "nodes" if kind and (await api.kind(kind)).kind == "Node" else "pods"
    where = f"/namespaces/{segment(namespace)}" if namespace and what == "pods" else ""
    status, text = await api.reply(f"/apis/metrics.k8s.io/v1beta1{where}/{what}")
    if status in (404, 503):
        raise ToolError(
            "the cluster has no metrics API (metrics-server)",
            "ask Prometheus: container_memory_working_set_bytes", "never",
        )  # fmt: skip
    if status >= 300:
        raise ToolError(f"the cluster does not show its metrics ({status})", retry="never")
    measured = api.source.read(text)["items"]
    known = {full_name(one): one for one in await api.items(what, namespace)}
    rows = []
    for one in measured:
        rows += _use(one, known.get(full_name(one)), what == "nodes")
    rows.sort(key=lambda row: -row[0])
    shown = [row[1:] for row in rows]
    headers = ("name", "container", "cpu", "of its limit", "memory", "of its limit", "requests")
    return answer(api.source, table(headers, shown, limit), {"rows": len(rows)})


def _use(measured: Object, known: Object | None, node: bool) -> list[tuple[Any, ...]]:
    if node:
        most = (known or {}).get("status", {}).get("allocatable", {})
        return [_row(full_name(measured), "", measured["usage"], most, {})]
    specs = {one["name"]: one for one in (known or {"spec": {}})["spec"].get("containers", [])}
    return [
        _row(
            full_name(measured), one["name"], one["usage"],
            specs.get(one["name"], {}).get("resources", {}).get("limits", {}),
            specs.get(one["name"], {}).get("resources", {}).get("requests", {}),
        )
        for one in measured["containers"]
    ]  # fmt: skip


def _row(
    name: str, container: str, used: Mapping[str, str], most: Mapping[str, str],
    asked: Mapping[str, str],
) -> tuple[Any, ...]:  # fmt: skip
    cpu, memory = quantity(used["cpu"]), quantity(used["memory"])
    parts = []
    for value, limit in (
        (cpu, quantity(most.get("cpu", ""))),
        (memory, quantity(most.get("memory", ""))),
    ):
        parts.append(f"{value / limit:.0%}" if limit else "no limit")
    requests = " ".join(f"{key}={value}" for key, value in asked.items())
    return memory, name, container, f"{cpu:.3f}", parts[0], size(memory), parts[1], requests
