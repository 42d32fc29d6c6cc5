"""Who owns which field of an object: `managedFields`, which the API server keeps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from hermes_drift.cluster.fields import Path
from hermes_drift.matching import fits_any
from hermes_drift.values import Who

CONTROLLERS = (
    "kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "cluster-autoscaler",
    "horizontal-pod-autoscaler", "vpa-*", "keda*", "argocd*", "argo-*", "kustomize-controller",
    "helm-controller", "source-controller", "flux*", "helm", "Helm", "istio*", "pilot-discovery",
    "linkerd*", "cert-manager*", "external-dns*", "external-secrets*", "nginx-ingress-controller",
    "traefik*", "*-controller", "*-operator", "*-controller-manager", "calico*", "cilium*",
    "karpenter*", "reloader*", "sealed-secrets*", "velero*", "prometheus-operator*", "gke-*",
    "eks*", "aks*", "cloud-controller-manager", "cloud-provider*", "coredns", "crossplane*",
    "terraform*", "Terraform*", "pulumi*", "cdk8s*", "HashiCorp", "admission*", "*-webhook",
    "*injector*",
)  # fmt: skip
"""What manages by itself; the name of a manager is what a client says of itself."""
PEOPLE = (
    "kubectl", "kubectl-*", "k9s", "Lens*", "OpenLens*", "node-fetch", "Mozilla", "dashboard",
    "headlamp*", "octant*", "oc", "curl", "rancher", "unknown", "python-requests",
    "before-first-apply",
)  # fmt: skip


class Owned(NamedTuple):
    manager: str
    operation: str
    at: float | None
    part: str
    """The subresource by which it was written, `scale` for one."""
    paths: frozenset[Path]


def owners(live: Mapping[str, Any]) -> Sequence[Owned]:
    found = []
    for entry in live.get("metadata", {}).get("managedFields") or ():
        paths = frozenset(_paths(entry.get("fieldsV1") or {}, ()))
        found.append(
            Owned(
                str(entry.get("manager", "")), str(entry.get("operation", "")),
                _time(entry.get("time")), str(entry.get("subresource", "")), paths,
            )
        )  # fmt: skip
    return found


def _time(written: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(written)).timestamp()
    except ValueError:
        return None


def _paths(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    """The leaves of `fieldsV1`, with `.` for the thing itself."""
    inner = {name: value for name, value in fields.items() if name != "."}
    if path and (not inner or "." in fields):
        yield path
    for name, value in inner.items():
        kind, _, rest = name.partition(":")
        if kind == "f":
            part = rest
        elif kind == "k":
            keys = json.loads(rest)
            part = "[" + ",".join(f"{key}={keys[key]}" for key in keys) + "]"
        elif kind == "v":
            part = f"[={json.loads(rest)}]"
        else:
            part = f"[{rest}]"
        yield from _paths(value, (*path, part))


def owner_of(path: Path, owned: Sequence[Owned]) -> Owned | None:
    """Who wrote a field last: the owner of the field, of what is in it, or of what it is in."""
    exact = [one for one in owned if path in one.paths]
    inside = [one for one in owned if any(each[: len(path)] == path for each in one.paths)]
    around: list[Owned] = []
    for length in range(len(path) - 1, 1, -1):  # an atomic list or map is owned as a whole
        around = [one for one in owned if path[:length] in one.paths
                  and not any(each[:length] == path[:length] and len(each) > length
                              for each in one.paths)]  # fmt: skip
        if around:
            break
    some = exact or inside or around
    return max(some, key=lambda one: one.at or 0.0) if some else None


def last_writer(owned: Sequence[Owned], declarers: frozenset[str]) -> Owned | None:
    """The last who wrote anything but its status and does not declare: who took a field away is
    named nowhere else."""
    some = [one for one in owned if one.part != "status" and one.manager not in declarers]
    some = [one for one in some if any(path[0] != "status" for path in one.paths)]
    return max(some, key=lambda one: one.at or 0.0) if some else None


def declarers(declared: Sequence[Path], owned: Sequence[Owned]) -> frozenset[str]:
    """The managers by which this is declared: whoever applies, and whoever owns most of it."""
    appliers = {
        one.manager
        for one in owned
        if one.operation == "Apply" or one.manager == "kubectl-client-side-apply"
    }
    counts = {one.manager: sum(path in one.paths for path in declared) for one in owned}
    most = max(counts, key=lambda name: counts[name], default="")
    return frozenset(appliers | ({most} if most and not appliers else set()))


def who(one: Owned | None, sure: bool = True) -> Who:
    if one is None:
        return Who()
    part = f" of {one.part}" if one.part else ""
    said = f"managedFields: {one.manager} ({one.operation}{part})"
    if fits_any(PEOPLE, one.manager):
        return Who("person", one.manager, "likely" if sure else "guess", one.at, said)
    if fits_any(CONTROLLERS, one.manager):
        return Who("controller", one.manager, "certain" if sure else "guess", one.at, said)
    return Who("unknown", one.manager, "", one.at, said)
