"""What changed in a cluster in a window of time."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hermes_agent.core.text.format import shortened
from hermes_agent.tools.sources.cluster.client import ClusterApi, Object, connect
from hermes_agent.tools.sources.cluster.flux import flux_objects, revision
from hermes_agent.tools.sources.cluster.problems import (
    condition,
    containers,
    ending,
    event_time,
    full_name,
    grouped,
    owner,
    said,
)
from hermes_agent.tools.sources.cluster.workloads import REVISION, differences, images
from hermes_agent.tools.sources.connection import Source
from hermes_agent.tools.sources.results import Change
from hermes_agent.tools.sources.times import Window, parsed

EDITED = (
    "configmaps", "secrets", "services", "deployments", "statefulsets", "daemonsets", "ingresses",
    "networkpolicies", "resourcequotas", "limitranges", "roles", "rolebindings",
)  # fmt: skip
READ = ("pods", "replicasets", "events", *EDITED)
CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver")
QUIET = ("kube-root-ca.crt",)
TOLD = ("ScalingReplicaSet", "NodeNotReady", "SuccessfulRescale", "Preempted", "Killing")
"""Reasons of events that are told although they are no warnings."""
EVENTS = 20
_NOISE = re.compile(r"^- (containers\[[^]]+\]\.)?|\.value(?=:)")


async def find_changes(source: Source, span: Window) -> list[Change | str]:
    """With notes about what could not be listed, or not whole."""
    api = await connect(source)
    lists, unseen = await api.tried(READ, "")
    every = dict(zip(READ, lists, strict=True))
    return [
        *_rollouts(every["replicasets"], span),
        *_restarts(every["pods"], span),
        *(change for kind in EDITED for one in every[kind] for change in _edits(one, span)),
        *_events(every["events"], span),
        *await _nodes(api, span),
        *await _flux(api, span),
        *unseen.values(),
    ]


def _inside(span: Window, text: str | None) -> float:
    at = parsed(text)
    return at if at in span else 0.0


def _rollouts(sets: Sequence[Object], span: Window) -> Iterator[Change]:
    families: dict[tuple[str, str], list[Object]] = {}
    for one in sets:
        if owner(one)[0] == "Deployment":
            families.setdefault((one["metadata"]["namespace"], owner(one)[1]), []).append(one)
    for (namespace, name), some in families.items():
        some.sort(key=lambda one: int((one["metadata"].get("annotations") or {}).get(REVISION, 0)))
        for before, one in zip([None, *some], some, strict=False):
            if at := _inside(span, one["metadata"]["creationTimestamp"]):
                number = (one["metadata"].get("annotations") or {}).get(REVISION, "?")
                template = one["spec"]["template"]
                what = f"rollout of {namespace}/{name}, revision {number}: "
                if before is None:
                    what += ", ".join(images(template))
                else:
                    lines = differences(before["spec"]["template"], template)
                    what += "; ".join(_NOISE.sub("", line) for line in lines[:4])
                yield Change(at, what)


def _restarts(pods: Sequence[Object], span: Window) -> Iterator[Change]:
    for pod in pods:
        for spec, status, name in containers(pod):
            last = (status.get("lastState") or {}).get("terminated") or {}
            if at := _inside(span, last.get("finishedAt")):
                count = status.get("restartCount", 1)
                text = f"{full_name(pod)}, {name} ended: {ending(last, spec)}"
                yield Change(at, f"{text} (restart {count})")


def _edits(one: Object, span: Window) -> Iterator[Change]:
    data = one["metadata"]
    if (
        data["name"] in QUIET
        or data["name"].startswith("system:")
        or "control-plane.alpha.kubernetes.io/leader" in (data.get("annotations") or {})
    ):
        return
    created = _inside(span, data.get("creationTimestamp"))
    if created:
        yield Change(created, f"{one['kind']} {full_name(one)} was created")
    for fields in data.get("managedFields") or []:
        at, who = _inside(span, fields.get("time")), fields.get("manager", "")
        if not at or fields.get("subresource") == "status" or who in CONTROLLERS:
            continue
        if not created or at > created + 1:
            names = ", ".join(touched(fields.get("fieldsV1") or {}))
            what = f"{one['kind']} {full_name(one)} was changed"
            yield Change(at, f"{what}; {who} manages {names}" if names else what, who)


def touched(fields: dict[str, Any], depth: int = 3) -> list[str]:
    """The fields that a manager wrote, without those of the metadata."""
    found = []
    for key, below in fields.items():
        if not key.startswith("f:") or key in ("f:metadata", "f:status"):
            continue
        inner = touched(below, depth - 1) if depth > 1 and isinstance(below, dict) else []
        found += [f"{key[2:]}.{one}" for one in inner] or [key[2:]]
    return found[:6]


def _events(events: Sequence[Object], span: Window) -> list[Change]:
    chosen = [
        one for one in events
        if event_time(one) in span
        and (one.get("type") == "Warning" or one.get("reason") in TOLD)
    ]  # fmt: skip
    return [
        Change(
            at,
            f"{reason} {whom}"
            + (f" ({count} times)" if count > 1 else "")
            + f": {shortened(message, 200)}",
            maker,
        )
        for at, count, reason, whom, message, maker in grouped(chosen)[:EVENTS]
    ]


async def _nodes(api: ClusterApi, span: Window) -> list[Change | str]:
    nodes, unseen = await api.seen("nodes")
    found: list[Change | str] = [*unseen]
    for node in nodes:
        for one in node.get("status", {}).get("conditions") or []:
            at = _inside(span, one.get("lastTransitionTime"))
            if at and (one["type"].endswith("Ready") or one["status"] != "False"):
                text = f"node {full_name(node)}: {one['type']} became {one['status']}"
                found.append(Change(at, f"{text}: {said(one)}" if said(one) else text))
    return found


async def _flux(api: ClusterApi, span: Window) -> list[Change | str]:
    objects, unseen = await flux_objects(api, "")
    found: list[Change | str] = [*unseen]
    for one in objects:
        ready = condition(one, "Ready")
        if at := _inside(span, ready.get("lastTransitionTime")):
            state = "is ready" if ready.get("status") == "True" else "is not ready"
            what = f"{one['kind']} {full_name(one)} {state}: {said(ready)}"
            found.append(Change(at, f"{what} ({revision(one)})" if revision(one) else what, "flux"))
    return found
