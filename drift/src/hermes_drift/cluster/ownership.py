"""Who changed an object: `managedFields`, which say how a client calls itself, and the API
server's audit log, which says who the client was."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec.structs import replace

from hermes_drift.cluster.declared import DeclaredObject
from hermes_drift.cluster.fields import Path
from hermes_drift.matching import fits_any
from hermes_drift.values import LiveState, Who

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
PEOPLE = (
    "kubectl", "kubectl-*", "k9s", "Lens*", "OpenLens*", "node-fetch", "Mozilla", "dashboard",
    "headlamp*", "octant*", "oc", "curl", "rancher", "unknown", "python-requests",
    "before-first-apply",
)  # fmt: skip


CHANGES = ("create", "update", "patch", "delete", "deletecollection")
SPECS = ("", "scale", "resize", "ephemeralcontainers", "approval", "finalize")
"""Subresources through which what is declared changes; a `token` or an `exec` changes nothing."""
REQUESTS = 20_000
"""How many of the last changes in an audit log are considered."""
NEAR = 2.0
"""Seconds between a request and the field's time."""
SERVICE = "system:"
"""Names of users that are not people begin with this."""


class Owned(NamedTuple):
    manager: str
    operation: str
    at: float | None
    part: str
    """The subresource it was written through, such as `scale`."""
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
    """The leaves of `fieldsV1`; `.` is the field itself."""
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
    """Who last wrote a field: its owner, or that of a field inside it or around it."""
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
    """The last writer, status aside, who is not a declarer. Nothing else names who removed a
    field."""
    some = [one for one in owned if one.part != "status" and one.manager not in declarers]
    some = [one for one in some if any(path[0] != "status" for path in one.paths)]
    return max(some, key=lambda one: one.at or 0.0) if some else None


def declarers(declared: Sequence[Path], owned: Sequence[Owned]) -> frozenset[str]:
    """The managers that apply the declared objects: by their operation, or who owns most of it."""
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
    evidence = f"managedFields: {one.manager} ({one.operation}{part})"
    if fits_any(PEOPLE, one.manager):
        return Who("person", one.manager, "likely" if sure else "guess", one.at, evidence)
    if fits_any(CONTROLLERS, one.manager):
        return Who("controller", one.manager, "certain" if sure else "guess", one.at, evidence)
    return Who("unknown", one.manager, "", one.at, evidence)


class ApiRequest(NamedTuple):
    at: float
    user: str
    verb: str
    resource: str
    """Such as `deployments`."""
    group: str
    namespace: str
    name: str
    manager: str
    """The name under which `managedFields` has it."""
    selected: bool = False
    """It is about those objects alone that a selector fits."""

    def is_about(self, one: DeclaredObject) -> bool:
        name = one.name if self.verb == "deletecollection" else self.name
        if (self.namespace, name) != (one.namespace, one.name):
            return False
        if one.api is not None:
            return (self.resource, self.group) == (one.api.plural, one.api.group)
        return self.resource.startswith(one.kind.lower()[:-1])  # policy, policies

    @property
    def kind(self) -> Literal["person", "controller"]:
        return "controller" if self.user.startswith(SERVICE) else "person"


async def read_requests(live: LiveState, path: str) -> tuple[Sequence[ApiRequest], str]:
    """The successful changes in the API server's audit log, and why it cannot be read."""
    verbs = shlex.quote(f'"verb": *"({"|".join(CHANGES)})"')
    answer = await live.ask(f"grep -E {verbs} -- {shlex.quote(path)} | tail -n {REQUESTS}")
    trouble = "" if answer.ok and not answer.error.strip() else answer.trouble
    requests = (_request(line) for line in answer.out.splitlines())
    return [one for one in requests if one is not None], trouble


def _request(line: str) -> ApiRequest | None:
    """None if it is truncated, or changed nothing but the status."""
    try:
        event = msgspec.json.decode(line)
        about = event["objectRef"]
        query = parse_qs(urlsplit(event.get("requestURI", "")).query)
        failed = event.get("responseStatus", {}).get("code", 200) >= 400
        if event["verb"] not in CHANGES or event.get("stage") != "ResponseComplete" or failed:
            return None
        if about.get("subresource", "") not in SPECS or "dryRun" in query:
            return None
        user = event["user"]["username"]
        if user.startswith(SERVICE):  # a proxy that acts for somebody
            user = event.get("impersonatedUser", {}).get("username", user)
        manager = query.get("fieldManager", [event.get("userAgent", "").partition("/")[0]])[0]
        return ApiRequest(
            datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(), user,
            event["verb"], about.get("resource", ""), about.get("apiGroup", ""),
            about.get("namespace", ""), about.get("name", ""), manager,
            "labelSelector" in query or "fieldSelector" in query,
        )  # fmt: skip
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError):
        return None


def with_user(who: Who, one: DeclaredObject, requests: Sequence[ApiRequest]) -> Who:
    """The same with the name of the user who sent the request, if the log has it. Where
    `managedFields` only allow a guess, the last person who changed the object."""
    about = [each for each in requests if each.is_about(one) and not each.verb.startswith("delete")]
    at = who.at
    if who.sure in ("", "guess"):
        later = [each for each in about if each.kind == "person" and each.at > (at or 0.0) + NEAR]
        if later:
            last = later[-1]
            evidence = "the API server's audit log names the last person who changed the object"
            return Who("person", last.user, "likely", last.at, evidence)
    fitting = [each for each in about if at is not None and abs(each.at - at) <= NEAR]
    if fitting:
        last = ([each for each in fitting if each.manager == who.name] or fitting)[-1]
        evidence = f"{who.evidence}; the API server's audit log names {last.user}"
        return replace(who, kind=last.kind, name=last.user, sure="certain", evidence=evidence)
    if who.kind == "person":
        return replace(who, evidence=f"{who.evidence}; only a hint: a program, not its user")
    return who


def deleted_by(one: DeclaredObject, requests: Sequence[ApiRequest]) -> Who:
    """Who deleted a missing object, if the log has it. A request by a selector may have left it
    out, and is named if there is no other."""
    found = [each for each in requests if each.verb.startswith("delete") and each.is_about(one)]
    if not found:
        return Who()
    last = max(found, key=lambda each: (not each.selected, each.at))
    evidence = "the API server's audit log has the delete request"
    if last.selected:
        evidence += ", by a selector that need not fit the object"
    sure = last is found[-1] and not last.selected
    return Who(last.kind, last.user, "certain" if sure else "guess", last.at, evidence)
